"""Inference on torch, for GPUs; torch is imported when an engine is made."""
