"""Errors of a command line that say what was meant."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable
from typing import Any, NoReturn

from tracekit.text import shown

__all__ = ["MadeWhenUsed", "Suggesting"]


class Suggesting(argparse.ArgumentParser):
    """A parser whose errors name the command, option or choice that is much like the wrong one."""

    def error(self, message: str) -> NoReturn:
        """As argparse's: the usage, one line, exit code 2."""
        super().error(shown(message + self._suggestion(message)))

    def _suggestion(self, message: str) -> str:
        if found := re.search(r"invalid choice: '?([^' ]+)'? \(choose from (.*)\)", message, re.S):
            return _near(found[1], re.findall(r"[^\s',]+", found[2]))
        if message.startswith("unrecognized arguments: "):
            wrong = [w for w in message.split(": ", 1)[1].split() if w.startswith("--")]
            return _near(wrong[0].split("=")[0], self._options()) if wrong else ""
        return ""

    def _options(self) -> list[str]:
        """Of this parser, and of the commands whose modules were imported."""
        out = list(self._option_string_actions)
        for action in self._actions:
            if isinstance(action, argparse._SubParsersAction):
                for command in action.choices.values():
                    out += command._option_string_actions
        return out


class MadeWhenUsed(Suggesting):
    """Costs nothing until it is used: of all commands' parsers one is."""

    def __init__(self, **options: Any) -> None:
        self.__dict__["_waiting"] = options

    def __getattr__(self, name: str) -> Any:  # of what is not there yet
        options = self.__dict__.pop("_waiting", None)
        if options is None:
            raise AttributeError(name)
        super().__init__(**options)
        return getattr(self, name)


def _near(wrong: str, known: Iterable[str]) -> str:
    import difflib

    found = difflib.get_close_matches(wrong[:64], [k for k in known if k != wrong], 1)
    return f" (did you mean {found[0]}?)" if found else ""
