"""How far the models that agents report are off on programs that they have not seen.

A model folder holds its cross-validated residuals.  Those of the shipped model are in this package,
those of others in the repository that the hub serves.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from tracekit._version import __version__
from tracekit.mixture.model import default_model_path
from tracekit.mixture.residuals import RESIDUALS, Residuals

__all__ = ["ModelErrors"]

SHIPPED: Final = ("default-x86", __version__)
"""Name and version under which agents report the shipped model."""


class ModelErrors:
    """Of the shipped model, and of those in the ``repository``, if any."""

    def __init__(self, repository: Path | None = None) -> None:
        self._repository = repository
        self._known: dict[tuple[str, str], Residuals] = {}

    def moments(
        self, models: Sequence[tuple[str, str]], designs: Sequence[str]
    ) -> npt.NDArray[np.float64] | None:
        """`Residuals.moments` of designs whose models (name, version) these are; None where they
        are of several models, or of one whose residuals are not here."""
        if len(set(models)) != 1:
            return None
        found = self._residuals(models[0])
        return None if found is None else found.moments(designs)

    def _residuals(self, model: tuple[str, str]) -> Residuals | None:
        if model not in self._known:
            place = self._place(model)
            if place is None:
                return None
            self._known[model] = Residuals.load(place)
        return self._known[model]

    def _place(self, model: tuple[str, str]) -> Path | None:
        if model == SHIPPED:
            return default_model_path("x86") / RESIDUALS
        if self._repository is None:
            return None
        # names are letters, digits, spaces and ._+- alone (tracekit.fleet.messages.NAME)
        wanted = f"{model[0]}~{model[1]}~{RESIDUALS}"
        found = (self._repository / "targets").glob(f"*.{wanted}")
        # a hash comes before the first dot: "web.x" is another model than "x"
        return next((p for p in sorted(found) if p.name.partition(".")[2] == wanted), None)
