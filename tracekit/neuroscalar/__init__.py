"""NeuroScalar: cycles of single instructions, and comparisons of designs by them
(docs/neuroscalar.md)."""
