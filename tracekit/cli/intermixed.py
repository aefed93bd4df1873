"""Options between a command's positional arguments: ``info one.zst --json two.zst``."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any, Final

from tracekit.cli.suggesting import MadeWhenUsed

__all__ = ["Intermixed", "Manifest", "Traces"]

_SEVERAL: Final = ("+", "*")
#: What argparse mixes with no options: another command, or all that is left.
_ALL_THE_REST: Final = (argparse.PARSER, argparse.REMAINDER)


class Intermixed(MadeWhenUsed):
    """A command's parser that takes them; argparse alone fills all positional ones at the first."""

    _inside = False

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> tuple[Any, list[str]]:
        """As argparse's, which calls it again for each of the two kinds.  What stands behind ``--``
        is a program's, and left as it is."""
        given = list(args or ())
        together = "--" in given or any(a.nargs in _ALL_THE_REST for a in self._actions)
        if self._inside or together or not given:  # without any, all that is required is told
            return super().parse_known_args(given, namespace)
        self._inside = True
        try:
            return self.parse_known_intermixed_args(self._ordered(given), namespace)
        finally:
            self._inside = False

    def is_own(self, argument: str) -> bool:
        """Whether it is a positional one even behind the values of an option that takes several."""
        return False

    def _ordered(self, args: list[str]) -> list[str]:
        """The positional arguments that an option of several values would take stand before it, so
        that all keep their order."""
        nargs = {name: action.nargs for action in self._actions for name in action.option_strings}
        out: list[str] = []
        place = 0  # where one is no option's value
        takes: int | str | None = 0
        for argument in args:
            if argument.startswith("-"):
                if takes not in _SEVERAL and (takes == 0 or not out[-1].startswith("-")):
                    place = len(out)
                # -qm is -q -m.
                letter = "-" + argument[-1] if argument[1:2] != "-" else argument
                takes = nargs.get(argument, nargs.get(letter, 0))
            elif takes in _SEVERAL and self.is_own(argument):
                out.insert(place, argument)
                place += 1
                continue
            out.append(argument)
        return out


class Traces(Intermixed):
    """Of a command whose positional arguments are traces: ``simulate -m u007 feats.zst``."""

    def is_own(self, argument: str) -> bool:
        """Whether it is a trace."""
        return _is_trace(argument)


class Manifest(Intermixed):
    """Of a command on a manifest: ``evaluate --model one two data.toml``."""

    def is_own(self, argument: str) -> bool:
        """Whether it is a file of JSON or TOML."""
        return argument.lower().endswith((".json", ".toml"))


def _is_trace(name: str) -> bool:
    """A trace elsewhere is known by its name: nothing is fetched to read a command line.  The name
    of a machine is one, whatever file has it, too."""
    from tracekit.hardware import is_hardware_name
    from tracekit.io.remote import remote_url
    from tracekit.prediction import is_recording, is_trace_file
    from tracekit.sim import is_machine_name

    if remote_url(name) is not None:
        return name.endswith((".zst", ".tks"))
    if is_machine_name(name) or is_hardware_name(name):
        return False
    return is_trace_file(name) or is_recording(name)
