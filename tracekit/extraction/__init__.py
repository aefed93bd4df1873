"""From an input to feats.zst: the loop, its files, and `extract`."""

from tracekit.extraction.entry import extract
from tracekit.extraction.steps import Extraction

__all__ = ["Extraction", "extract"]
