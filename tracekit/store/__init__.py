"""The file: zstd frames that any zstd tool reads (docs/feats-format.md)."""

from tracekit.store.verification import verify

__all__ = ["verify"]
