"""Which file's bytes lie where in a program's memory, and a function that is executed there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from tracekit.errors import FormatError

_MAX_MAPPED: Final = 1 << 16  # the kernel's own limit (vm.max_map_count) is 65,530


class Mapped(NamedTuple):
    """A range of executable memory; ``path`` is "" where it is no file's, "[vdso]" the kernel's."""

    begin: int
    end: int
    offset: int  # in the file, of begin
    path: str
    build_id: str | None  # hexadecimal


class Frame(NamedTuple):
    """A function that was being executed, inlined or not, and where in it."""

    function: str
    file: str | None
    line: int | None


def parse_maps(entries: Any, path: str) -> list[Mapped]:
    """[[begin, end, offset, path, build-id or null], …] of a recording, checked."""
    out = []
    known = isinstance(entries, list) and len(entries) <= _MAX_MAPPED
    todo: list[Any] = entries if known else [None]
    for e in todo:
        ok = (
            isinstance(e, list)
            and len(e) == 5
            and all(isinstance(v, int) and 0 <= v < 1 << 64 for v in e[:3])
            and isinstance(e[3], str)
            and (e[4] is None or isinstance(e[4], str))
            and e[0] < e[1]
        )
        if not ok:
            raise FormatError("its list of mapped files is damaged", path=path)
        out.append(Mapped(e[0], e[1], e[2], e[3], e[4]))
    return out


def maps_as_lists(maps: Mapping[int, Iterable[Mapped]]) -> dict[str, list[list[Any]]]:
    """For JSON; parse_maps takes it back."""
    return {str(pid): [list(m) for m in known] for pid, known in maps.items()}
