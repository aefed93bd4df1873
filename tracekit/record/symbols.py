"""Which functions a recording spent its instructions in, by the symbols of this machine's files."""

from __future__ import annotations

import bisect
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from tracekit.errors import TracekitError
from tracekit.streams.tks import TksReader


def hot_functions(path: str | Path) -> Counter[str]:
    """Instructions by function, as ``file:symbol``; ``file`` alone where it has no symbol there.

    What lies in no file (the vdso, code made at run time) counts as ``?``.  Raises `TracekitError`
    where the recording has no end, since that names the files.
    """
    counts: Counter[tuple[int, int]] = Counter()  # process, encoding
    with TksReader(path) as reader:
        for epoch in reader.epochs():
            ids, times = np.unique(epoch.rows.encoding, return_counts=True)
            pid = epoch.info["pid"]
            for i, k in zip(ids.tolist(), times.tolist(), strict=True):
                counts[pid, i] += k
        if reader.totals is None:
            raise TracekitError("the recording was cut short: it names no files", path=str(path))
        maps = {int(p): m for p, m in reader.totals.get("maps", {}).items()}
        files: dict[str, _Symbols] = {}
        out: Counter[str] = Counter()
        for (pid, encoding), n in counts.items():
            pc = reader.table[encoding][0]
            out[_name(pc, maps.get(pid, []), files)] += n
    return out


def _name(pc: int, maps: list[Any], files: dict[str, _Symbols]) -> str:
    for begin, end, offset, file in maps:
        if begin <= pc < end:
            if file not in files:
                files[file] = _Symbols(file)
            symbol = files[file].at(pc - begin + offset)
            return Path(file).name + (f":{symbol}" if symbol else "")
    return "?"


class _Symbols:
    """The functions of one ELF file, by offset in the file."""

    def __init__(self, path: str) -> None:
        self._starts: list[int] = []
        self._found: list[tuple[int, int, str]] = []
        try:
            from elftools.common.exceptions import ELFError
            from elftools.elf.elffile import ELFFile
        except ImportError:
            raise TracekitError("symbols need pyelftools: pip install tracekit[binary]") from None
        try:
            with Path(path).open("rb") as f:
                self._read(ELFFile(f))
        except (OSError, ELFError):
            return  # gone, or no ELF file: no symbols
        self._found.sort()
        self._starts = [s for s, _, _ in self._found]

    def _read(self, elf: Any) -> None:
        segments = [s.header for s in elf.iter_segments("PT_LOAD")]
        for name in (".dynsym", ".symtab"):
            section = elf.get_section_by_name(name)
            for symbol in section.iter_symbols() if section else ():
                at = symbol["st_value"]
                if symbol["st_info"]["type"] not in ("STT_FUNC", "STT_GNU_IFUNC") or not at:
                    continue
                for s in segments:
                    if s.p_vaddr <= at < s.p_vaddr + s.p_filesz:
                        place = at - s.p_vaddr + s.p_offset
                        self._found.append((place, place + symbol["st_size"], symbol.name))

    def at(self, offset: int) -> str:
        i = bisect.bisect_right(self._starts, offset) - 1
        return self._found[i][2] if i >= 0 and offset < self._found[i][1] else ""
