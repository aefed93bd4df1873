"""``tracekit verify``: reads everything, checks every checksum and what must hold between
columns."""

from __future__ import annotations

import argparse
from typing import Any

import tracekit
from tracekit.cli.report import add_json, reported
from tracekit.errors import TracekitError
from tracekit.inputs.tks import is_tks, summary
from tracekit.io.files import first_bytes
from tracekit.store import verify
from tracekit.text import note


def add_parser(sub: Any, help_text: str) -> None:
    """Add the options of ``tracekit verify``."""
    p = sub.add_parser("verify", help=help_text, description=__doc__)
    p.add_argument("file", nargs="+", help="feats.zst files, or recordings (.tks)")
    add_json(p)
    p.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    """Run ``tracekit verify``; returns the exit code."""
    results = {path: _problems(path) for path in args.file}
    printed = reported(args, {"files": results})
    bad = 0
    for path, problems in results.items():
        bad += bool(problems)
        if not printed:
            n = len(problems)
            print(f"{path}: {f'{n} problem' + 's' * (n > 1) if n else 'ok'}")
        for p in problems:
            note(p)
    return 1 if bad else 0


def _problems(path: str) -> list[str]:
    """What is wrong with a feats.zst, or with a recording, each of whose epochs is read."""
    if not is_tks(first_bytes(path, 16)):
        return verify(path)
    try:
        with tracekit.open(path):
            complete = summary(path)["complete"]
    except TracekitError as e:
        return [str(e)]
    return [] if complete else [f"{path}: the recording was cut short: its end is missing"]
