"""Where rows come from: one module a format, recognised by content."""

from tracekit.inputs.base import Source, recognise

__all__ = ["Source", "recognise"]
