"""Where rows come from: one module a format, recognised by content."""

from tracekit.inputs.base import Source, recognise
from tracekit.inputs.blocks import STDIN
from tracekit.inputs.translated import Translated

__all__ = ["STDIN", "Source", "Translated", "recognise"]
