"""What benches and tests compare with: csrc/bench, built on first use into build/bench.

It needs g++ (or $CXX) and the sources; ``why_not()`` says what is missing.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import shlex
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Lines = npt.NDArray[np.uint64]
ROOT = Path(__file__).resolve().parent.parent
CSRC, BUILD = ROOT / "csrc", ROOT / "build" / "bench"
FLAGS = ["-std=c++20", "-O3", "-g0", "-shared", "-fPIC", f"-I{CSRC}"]


def _compiler() -> list[str]:
    return shlex.split(os.environ.get("CXX", "")) or ["g++"]


def why_not() -> str | None:
    """Why the peers cannot be built here; None where they can."""
    if not (CSRC / "bench").is_dir():
        return "no sources beside the tests"
    if shutil.which(_compiler()[0]) is None:
        return f"no {_compiler()[0]}"
    return None


@cache
def _library() -> ctypes.CDLL:
    sources = [*sorted((CSRC / "bench").glob("*.cpp")), CSRC / "features/last_access_table.cpp"]
    headers = [p for f in ("bench", "features", "core") for p in sorted((CSRC / f).glob("*.hpp"))]
    key = hashlib.sha256(b"".join(p.read_bytes() for p in [*sources, *headers])).hexdigest()
    out = BUILD / f"peers.{key[:16]}.so"
    if not out.exists():
        BUILD.mkdir(parents=True, exist_ok=True)
        made = out.with_suffix(f".{os.getpid()}.tmp")
        command = [*_compiler(), *FLAGS, *map(str, sources), "-o", str(made)]
        subprocess.run(command, check=True)
        made.replace(out)
    library = ctypes.CDLL(str(out))
    for name in ("floor_last_access", "floor_newlines", "peer_getline"):
        getattr(library, name).restype = ctypes.c_uint64
    return library


def _lines(lines: Lines) -> tuple[Any, ctypes.c_size_t]:
    assert lines.dtype == np.uint64 and lines.flags.c_contiguous
    return ctypes.c_void_p(lines.ctypes.data), ctypes.c_size_t(len(lines))


def _distances(name: str, lines: Lines) -> npt.NDArray[np.uint32]:
    out = np.empty(len(lines), np.uint32)
    getattr(_library(), name)(*_lines(lines), ctypes.c_void_p(out.ctypes.data))
    return out


def splay_stack_distance(lines: Lines) -> npt.NDArray[np.uint32]:
    """Olken's tree of last accesses, splayed; one distance an access, 0xFFFFFFFF at the first."""
    return _distances("peer_splay", lines)


def fenwick_stack_distance(lines: Lines) -> npt.NDArray[np.uint32]:
    """Bennett and Kruskal's tree over time; one distance an access, 0xFFFFFFFF at the first."""
    return _distances("peer_fenwick", lines)


def last_access_floor(lines: Lines) -> int:
    """Looks each line up in the table of last accesses and stores the new stamp; their sum."""
    return int(_library().floor_last_access(*_lines(lines)))


def newlines(text: bytes) -> int:
    """Newlines of the text, found by memchr."""
    return int(_library().floor_newlines(text, ctypes.c_size_t(len(text))))


def getline_reader(text: bytes) -> tuple[int, int]:
    """A line at a time, numbers by strtoull: committed rows, last retire tick."""
    last = ctypes.c_uint64()
    rows = _library().peer_getline(text, ctypes.c_size_t(len(text)), ctypes.byref(last))
    return int(rows), last.value
