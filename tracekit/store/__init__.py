"""The file: zstd frames that any zstd tool reads (docs/feats-format.md)."""
