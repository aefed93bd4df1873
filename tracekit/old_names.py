"""Names of earlier versions that users hold: in model folders, command lines and feature sets.

Versions before 0.4 read them, each with one line of warning; what is written has the new names.
For the keys of JSON that commands print see docs/json.md; ``schema`` says there which they are.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping
from typing import Any, Final

__all__ = [
    "OldNameWarning",
    "bits_of_column",
    "current_arguments",
    "current_card",
    "current_command",
]

#: Command -> option that was -> option that is.
OPTIONS: Final[Mapping[str, Mapping[str, str]]] = {
    "cross-validate": {"--drawn": "--random-designs"},
    "evaluate": {"--trained": "--model"},
    "explain": {"--machines": "--machine"},
    "report": {"--machines": "--machine"},
}
#: Command that was, an option that it had, and the command that this is: its value stays an
#: argument of ``measure`` and becomes the value of an option of ``suggest``.
COMMANDS: Final = (("tune", "--suggest", "suggest"), ("tune", "--measure", "measure"))
#: Keys of a model's card.
CARD_KEYS: Final = {"reference_cores": "simulated_cores"}
#: Feature sets whose cores are near those of another number, but for rows that are X86's micro-ops.
FEATURE_SETS: Final = {
    "reference-cores-3": "simulated-cores-6",
    "simulated-cores-3": "simulated-cores-6",
    "simulated-cores-4": "simulated-cores-6",
    "simulated-cores-5": "simulated-cores-6",
}
#: The same of single instructions, which those of X86 come from too.
CORE_TIMING: Final = {f"core-timing-{n}": "core-timing-6" for n in (3, 4, 5)}
#: What stands behind the last point of a column of CORE_TIMING.
COLUMNS: Final = {"margin": "commit_slack", "gap": "dispatch_gap", "wait": "issue_delay"}


class OldNameWarning(FutureWarning):
    """A name that version 0.4 will not read."""


def current_command(command: str | None, arguments: list[str]) -> tuple[str | None, list[str]]:
    """The command that ``arguments`` ask for, and they with its name: ``tune --suggest``, ``tune
    --measure`` and ``evaluate`` without a model are commands of their own."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    options = {a.partition("=")[0] for a in arguments[:end]}
    if command is None or options & {"-h", "--help"}:
        return command, arguments
    new = next((n for c, o, n in COMMANDS if c == command and o in options), None)
    if command == "evaluate" and not options & {"--model", "--trained"}:
        new = "cross-validate"
    if new is None:
        return command, arguments
    at = arguments.index(command)
    out = [*arguments[:at], new, *arguments[at + 1 :]]
    what = command
    if new == "measure":
        what = f"{command} --measure"
        k = next(i for i, a in enumerate(out) if a.partition("=")[0] == "--measure")
        out[k : k + 1] = [out[k].partition("=")[2]] if "=" in out[k] else []
    elif new == "suggest":
        what = f"{command} --suggest"
        out = [re.sub(r"^--suggest(?==|$)", "--count", a) for a in out]
        out = [a if a.startswith("-") else a.partition("=")[0] for a in out]  # FEATS=CYCLES
    _warn(f"{what}: the command is {new}")
    return new, out


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
    x86 = card.get("arch") == "x86"
    known = isinstance(feature_set, str)
    if known and feature_set in FEATURE_SETS and not (x86 and features.get("level") == "micro"):
        new["features"] = {**features, "set": FEATURE_SETS[feature_set]}
    elif known and feature_set in CORE_TIMING and not x86:
        columns = _columns(features.get("columns"))
        new["features"] = {**features, "set": CORE_TIMING[feature_set], "columns": columns}
        new["spec"] = _inputs(card.get("spec"))
    if new != card:
        _warn(
            f"{path}: a model of version 0.1, whose columns or keys have other names and whose "
            "simulated cores were less like gem5's; train it again"
        )
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
