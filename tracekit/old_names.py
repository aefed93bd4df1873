"""Names of version 0.1 that users hold: in model folders, on command lines, in their feature sets.

Versions 0.2 and 0.3 read them, each with one line of warning; what is written has the new names.
For the keys of JSON that commands print see docs/json.md; ``schema`` says there which they are.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping
from typing import Any, Final

__all__ = ["OldNameWarning", "bits_of_column", "current_arguments", "current_card"]

#: Command -> option that was -> option that is.
OPTIONS: Final[Mapping[str, Mapping[str, str]]] = {"evaluate": {"--drawn": "--random-designs"}}
#: Keys of a model's card.
CARD_KEYS: Final = {"reference_cores": "simulated_cores"}
FEATURE_SETS: Final = {"reference-cores-3": "simulated-cores-3"}
#: What stands behind the last point of a column of CORE_TIMING.
CORE_TIMING: Final = "core-timing-3"
COLUMNS: Final = {"margin": "commit_slack", "gap": "dispatch_gap", "wait": "issue_delay"}


class OldNameWarning(FutureWarning):
    """A name that version 0.4 will not read."""


def current_arguments(command: str | None, arguments: list[str]) -> list[str]:
    """A command's arguments with its options as they are called."""
    names = OPTIONS.get(command or "", {})
    out: list[str] = []
    for i, argument in enumerate(arguments):
        if argument == "--":
            return out + arguments[i:]
        option, equals, value = argument.partition("=")
        if option in names:
            _warn(f"{option}: the option is {names[option]}")
            option = names[option]
        out.append(option + equals + value)
    return out


def current_card(card: dict[str, Any], path: str) -> dict[str, Any]:
    """A model card's JSON object with keys, feature set and columns as they are called."""
    features = card.get("features")
    if not isinstance(features, dict):
        return card  # an error of its reader's
    feature_set = features.get("set")
    new: dict[str, Any] = {CARD_KEYS.get(k, k): v for k, v in card.items()}
    if isinstance(feature_set, str) and feature_set in FEATURE_SETS:
        new["features"] = {**features, "set": FEATURE_SETS[feature_set]}
    elif feature_set == CORE_TIMING:
        new["features"] = {**features, "columns": _columns(features.get("columns"))}
        new["spec"] = _inputs(card.get("spec"))
    if new != card:
        _warn(f"{path}: a model of version 0.1, whose columns or keys have other names")
    return new


def bits_of_column(column: str) -> tuple[str, tuple[int, int]] | None:
    """Of a feature's column in the string language of version 0.1 (``addr>>22&22``: 22 bits from
    the 22nd on) the stored column and its bits; None where it is none."""
    m = re.fullmatch(r"addr>>(\d{1,2})&(\d{1,2})", column)
    if m is None:
        return None
    bits = int(m[1]), int(m[2])
    _warn(f"column={column!r}: a feature says column='addr', bits={bits}")
    return "addr", bits


def _column(name: Any) -> Any:
    if not isinstance(name, str):
        return name
    machine, point, last = name.rpartition(".")
    return machine + point + COLUMNS.get(last, last) if point else name


def _columns(names: Any) -> Any:
    return [_column(n) for n in names] if isinstance(names, list) else names


def _inputs(spec: Any) -> Any:
    if not isinstance(spec, dict) or not isinstance(spec.get("inputs"), list):
        return spec
    inputs = [
        {**e, "column": _column(e["column"])} if isinstance(e, dict) and "column" in e else e
        for e in spec["inputs"]
    ]
    return {**spec, "inputs": inputs}


def _warn(what: str) -> None:
    warnings.warn(f"{what}; version 0.4 will not read the old names", OldNameWarning, stacklevel=3)
