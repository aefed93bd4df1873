"""Errors of a command line that say what was meant."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable
from typing import Any, NoReturn

from tracekit.cli.commands import GROUPS
from tracekit.text import shown

__all__ = ["MadeWhenUsed", "OfAllCommands"]


class Suggesting(argparse.ArgumentParser):
    """A parser whose errors name the command, option or choice that is much like the wrong one.

    Options have their whole names: a shortened one would mean another as soon as the command has
    one more option.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"allow_abbrev": False, **options})

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


class OfAllCommands(Suggesting):
    """The program's own parser, whose help lists the commands by group."""

    def format_help(self) -> str:
        """As argparse's, with a section for each group."""
        formatter = self._get_formatter()
        formatter.add_usage(self.usage, self._actions, self._mutually_exclusive_groups)
        formatter.add_text(self.description)
        commands = [
            a
            for action in self._actions
            if isinstance(action, argparse._SubParsersAction)
            for a in action._choices_actions
        ]
        for title, names in GROUPS.items():
            formatter.start_section(title)
            formatter.add_arguments([a for a in commands if a.dest in names])
            formatter.end_section()
        formatter.start_section("options")
        formatter.add_arguments(self._optionals._group_actions)
        formatter.end_section()
        formatter.add_text(self.epilog)
        return formatter.format_help()


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
