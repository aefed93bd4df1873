"""tracekit: instruction traces to features, datasets and fast predictions."""

from tracekit._version import __version__

__all__ = ["__version__"]
