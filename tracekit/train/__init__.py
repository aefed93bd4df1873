"""Training; the only package that imports torch, and only for the presets that need it."""
