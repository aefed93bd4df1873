"""Fills reference pages from the code, while Sphinx reads them, and lists arguments of docstrings.

``<!-- commands -->`` becomes every command with its options, from the parsers themselves.
``<!-- machine parameters -->`` becomes the table of machine parameters, and ``<!-- machines -->``
the machines of the shipped models.
"""

from __future__ import annotations

import argparse
import re
from typing import Any


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def _options(parser: argparse.ArgumentParser) -> str:
    """The table of one parser's arguments."""
    formatter = argparse.HelpFormatter("")
    rows = []
    for action in parser._actions:
        if isinstance(action, argparse._HelpAction | argparse._SubParsersAction):
            continue
        if action.help == argparse.SUPPRESS:
            continue
        values = formatter._format_args(
            action, action.dest.upper() if action.option_strings else action.dest
        )
        names = ", ".join(f"`{name}`" for name in action.option_strings) or f"`{values}`"
        if action.option_strings and action.nargs != 0:
            names += f" `{values}`"
        text = formatter._expand_help(action) if action.help else ""
        rows.append([names, _cell(text)])
    return _table(["argument", "meaning"], rows) if rows else ""


def _command(name: str, parser: argparse.ArgumentParser, depth: int) -> list[str]:
    text = [f"{'#' * depth} tracekit {name}\n", f"{parser.description or ''}\n"]
    usage = parser.format_usage().removeprefix("usage: ").strip()
    text += [f"```\n{usage}\n```\n", _options(parser)]
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for inner, sub in action.choices.items():
                text += _command(f"{name} {inner}", sub, depth + 1)
    if parser.epilog:
        text.append(f"```\n{parser.epilog.strip()}\n```\n")
    return text


def commands() -> str:
    """Every command of the command line, as Markdown."""
    from tracekit.cli.main import COMMANDS, create_parser

    parser = create_parser()
    (sub,) = (a for a in parser._actions if isinstance(a, argparse._SubParsersAction))
    text = [
        _table(
            ["command", "what it does"],
            [[f"[`{n}`](#tracekit-{n})", _cell(h)] for n, h in COMMANDS.items()],
        )
    ]
    for name in COMMANDS:
        text += _command(name, sub.choices[name], 2)
    return "\n".join(text)


def machine_parameters() -> str:
    """The table of machine parameters, as Markdown."""
    from tracekit.sim.parameters import MACHINE_PARAMETERS

    rows = []
    for p in MACHINE_PARAMETERS:
        default = "required" if p.required else p.follows or f"`{p.default}`"
        if p.only:
            default += f" ({p.only})"
        allowed = (
            ", ".join(f"`{c}`" for c in p.choices) if p.choices else p.range.removeprefix("from ")
        )
        if p.type is str and not p.choices:
            allowed = "text"
        rows.append(
            [
                f"`{p.name}`",
                _cell(p.meaning),
                p.unit,
                allowed,
                default,
                f"`{p.gem5}`" if p.gem5 else "",
            ]
        )
    return _table(["parameter", "meaning", "unit", "range", "default", "gem5's name"], rows)


def machines() -> str:
    """The machines of the shipped models, a table for each architecture."""
    from tracekit.mixture import load_model

    text = []
    keys = [
        "cpu",
        "clock_ghz",
        "width",
        "rob",
        "iq",
        "lq",
        "sq",
        "bp",
        "l1d_kb",
        "l2_kb",
        "l3_kb",
        "mem",
    ]
    for arch, title in (("arm", "ARM"), ("x86", "X86")):
        model = load_model(arch=arch)
        rows = [
            [f"`{name}`", *(str(machine.get(key, "")) for key in keys)]
            for name, machine in zip(model.names, model.machines, strict=False)
        ]
        text.append(f"### {title}\n\n{_table(['machine', *(f'`{k}`' for k in keys)], rows)}")
    return "\n".join(text)


PLACES = {
    "<!-- commands -->": commands,
    "<!-- machine parameters -->": machine_parameters,
    "<!-- machines -->": machines,
}


def fill(app: Any, page: str, source: list[str]) -> None:
    """For Sphinx's source-read: puts the generated tables in their places."""
    for place, make in PLACES.items():
        if place in source[0]:
            source[0] = source[0].replace(place, make())


#: ``name: text`` or ``name, name: text`` at the beginning of a docstring's line.
_ARGUMENT = re.compile(r"^(\*{0,2}[a-z_][\w]*(?:, [a-z_]\w*)*): +(?=\S)")


def list_arguments(
    app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]
) -> None:
    """For autodoc: lines ``argument: text``, with indented lines behind them, become a list."""
    out: list[str] = []
    inside = False
    for line in lines:
        if (argument := _ARGUMENT.match(line)) is not None:
            if not inside and out and out[-1]:
                out.append("")
            out.append(f"- ``{argument[1]}``: {line[argument.end() :]}")
            inside = True
        elif inside and line.strip():
            out.append(f"  {line.strip()}")
        else:
            inside = False
            out.append(line)
    lines[:] = out


def setup(app: Any) -> dict[str, bool]:
    """Sphinx calls this."""
    app.connect("source-read", fill)
    app.connect("autodoc-process-docstring", list_arguments)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
