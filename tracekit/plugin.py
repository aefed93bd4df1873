"""The gem5 plug-in's sources: where they lie, and a copy of them for gem5's ``EXTRAS``."""

from __future__ import annotations

import os
import re
from pathlib import Path

from tracekit.errors import TracekitError
from tracekit.io.output import Folder

__all__ = ["plugin_folder", "plugin_sources", "write_plugin"]

_HERE = Path(__file__).resolve().parent


def plugin_folder() -> Path:
    """The folder that holds ``gem5_patches`` and the part of ``csrc`` that it includes.

    Raises TracekitError where neither the package nor the checkout around it has them.
    """
    for folder in (_HERE / "gem5_plugin", _HERE.parent):
        if (folder / "gem5_patches" / "SConscript").is_file():
            return folder
    raise TracekitError("this installation has no gem5 plug-in", hint="take it from the sdist")


def plugin_sources() -> list[Path]:
    """The plug-in's files and the headers of ``csrc`` that they include, under plugin_folder()."""
    root = plugin_folder()
    todo = [p for p in (root / "gem5_patches").iterdir() if p.is_file() and p.suffix != ".pyc"]
    found = set(todo)
    while todo:
        for name in re.findall(r'^#include "([^"]+)"', todo.pop().read_text("utf-8"), re.M):
            path = root / "csrc" / name  # gem5's own headers are not there
            if path.is_file() and path not in found:
                found.add(path)
                todo.append(path)
    return sorted(p.relative_to(root) for p in found)


def write_plugin(output: str | os.PathLike[str], *, force: bool = False) -> Path:
    """Copies the plug-in to the folder ``output``; returns the folder for gem5's ``EXTRAS``.

    Raises TracekitError where ``output`` exists and ``force`` is not given, or the system refuses.
    """
    root = plugin_folder()
    with Folder(output, force=force) as folder:
        for path in plugin_sources():
            folder.add(path, (root / path).read_bytes())
        folder.commit()
    return Path(output).resolve() / "gem5_patches"
