"""Options between a command's positional arguments: ``what-if feats.zst --machine M rob=512``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tracekit.cli.suggesting import MadeWhenUsed

__all__ = ["Intermixed"]


class Intermixed(MadeWhenUsed):
    """A command's parser that takes them; argparse alone fills all positional ones at the first."""

    _inside = False

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> tuple[Any, list[str]]:
        """As argparse's, which calls it again for each of the two kinds."""
        if self._inside:
            return super().parse_known_args(args, namespace)
        self._inside = True
        try:
            return self.parse_known_intermixed_args(args, namespace)
        finally:
            self._inside = False
