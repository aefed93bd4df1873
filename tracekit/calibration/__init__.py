"""Rows of machines whose parameters are not known, from measured times (docs/perfvec.md)."""
