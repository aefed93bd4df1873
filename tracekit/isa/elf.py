"""Code bytes and symbols of an ELF file, by pc.

Only what is needed to decode instructions and to name functions: the loadable segments, the symbol
tables and the architecture.  pyelftools is imported late (the extra ``binary``).  The file is
untrusted: whatever is wrong with it ends in a `FormatError` that names the file.
"""

from __future__ import annotations

import bisect
import mmap
from pathlib import Path
from types import TracebackType
from typing import Any, Final, NamedTuple

import numpy as np

from tracekit.errors import FormatError, TracekitError
from tracekit.extras import install_command
from tracekit.io.files import open_file
from tracekit.isa.types import Arch
from tracekit.text import shown

_ARCHES: Final[dict[str, Arch]] = {"EM_AARCH64": "arm", "EM_X86_64": "x86", "EM_RISCV": "riscv"}
_STT_FUNC, _STT_GNU_IFUNC = 2, 10
_SYM64 = np.dtype(
    [
        ("name", "<u4"),
        ("info", "u1"),
        ("other", "u1"),
        ("shndx", "<u2"),
        ("value", "<u8"),
        ("size", "<u8"),
    ]
)
_UNREAD: Final = object()
_MAX_BUILD_ID = 128  # digits
_MAX_SEGMENTS = 4096  # no linker writes more; a corrupt header claims up to 65,535
_MAX_SECTIONS = 1 << 16  # section 0 may claim 2**64
_MAX_SYMBOL_NAME = 4096  # bytes; longer names (C++ templates) are cut


class Symbol(NamedTuple):
    """A function: ``name`` as the file has it (C++ names stay mangled; what cannot be printed is
    escaped), first address, size in bytes (0 = unknown)."""

    name: str
    address: int
    size: int


class _Segment(NamedTuple):
    start: int  # virtual address
    end: int  # of what the file holds (p_filesz), not of what is zero-filled behind it
    offset: int  # in the file


class ElfImage:
    """An open ELF file: ``arch`` ("arm", "x86", "riscv"), ``path``, `code`, `symbol`.

    ``bias`` is added to every address of the file: 0 for the static programs that gem5's SE mode
    runs, the load address for a position-independent one.  Raises `FormatError` for a file that is
    no usable ELF, `TracekitError` where it cannot be read or pyelftools is missing.
    """

    def __init__(self, path: str | Path, *, bias: int = 0) -> None:
        self.path = str(path)
        self.bias = bias
        self._symbols: tuple[list[int], list[Symbol]] | None = None
        self._map: mmap.mmap | None = None
        self._build_id: Any = _UNREAD
        self._pieces: list[int] | None = None
        try:
            with open_file(path) as f:
                self._map = mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ)
        except ValueError:  # an empty file cannot be mapped
            raise self._bad("empty file") from None
        except OSError as e:
            raise TracekitError(e.strerror or str(e), path=self.path) from None
        try:
            self._read_headers()
        except TracekitError:
            self.close()
            raise
        except Exception as e:  # pyelftools raises whatever its parsers raise on a corrupt header
            self.close()
            raise self._bad(f"corrupt ELF file: {_one_line(e)}") from None

    def _bad(self, what: str) -> FormatError:
        return FormatError(what, path=self.path, hint="give the 64-bit ELF file that was run")

    def _data(self) -> mmap.mmap:
        if self._map is None:
            raise TracekitError("the ELF file is closed", path=self.path)
        return self._map

    def _read_headers(self) -> None:
        data = self._data()
        if data[:4] != b"\x7fELF":
            raise self._bad("not an ELF file")
        elf = self._open()
        machine = str(elf["e_machine"])
        if elf.elfclass != 64 or not elf.little_endian or machine not in _ARCHES:
            order = "little" if elf.little_endian else "big"
            raise self._bad(
                f"{elf.elfclass}-bit {order}-endian {machine} is not supported (64-bit "
                "little-endian ARM, X86 and RISC-V are)"
            )
        self.arch: Arch = _ARCHES[machine]
        self.entry = int(elf["e_entry"]) + self.bias
        count = elf.num_segments()
        if count > _MAX_SEGMENTS:
            raise self._bad(f"{count} segments")
        segments = []
        for i in range(count):
            s = elf.get_segment(i)
            if s["p_type"] != "PT_LOAD" or not s["p_filesz"]:
                continue
            start, offset, size = int(s["p_vaddr"]), int(s["p_offset"]), int(s["p_filesz"])
            if offset + size > len(data):
                raise self._bad(
                    f"segment {i} ends at byte {offset + size} of a file of {len(data)}"
                )
            segments.append(_Segment(start + self.bias, start + self.bias + size, offset))
        if not segments:
            raise self._bad("no loadable segment")
        self._segments = sorted(segments)
        self._starts = [s.start for s in self._segments]

    def _open(self) -> Any:
        try:
            from elftools.elf.elffile import ELFFile
        except ImportError:
            raise TracekitError(
                "reading ELF files needs pyelftools", hint=install_command("binary")
            ) from None
        data: Any = self._data()
        data.seek(0)
        return ELFFile(data)

    def code(self, pc: int, size: int = 16) -> bytes:
        """Up to ``size`` bytes at ``pc``: fewer where the segment ends, none where the file has
        nothing."""
        i = bisect.bisect_right(self._starts, pc) - 1
        if i < 0 or pc >= self._segments[i].end:
            return b""
        s = self._segments[i]
        at = s.offset + pc - s.start
        return self._data()[at : min(at + size, s.offset + s.end - s.start)]

    def loaded(self) -> list[tuple[int, int, int]]:
        """(begin, end, offset in the file) of what is loaded from the file, by address."""
        return [(s.start, s.end, s.offset) for s in self._segments]

    def address(self, offset: int) -> int | None:
        """Where the byte at ``offset`` of the file is loaded, or None."""
        for s in self._segments:
            if s.offset <= offset < s.offset + s.end - s.start:
                return s.start + offset - s.offset
        return None

    @property
    def build_id(self) -> str | None:
        """In hexadecimal, where the linker wrote one."""
        if self._build_id is _UNREAD:
            self._build_id = self._guarded("notes", self._read_build_id)
        found: str | None = self._build_id
        return found

    def _read_build_id(self) -> str | None:
        for segment in self._open().iter_segments("PT_NOTE"):
            for note in segment.iter_notes():
                if note["n_type"] == "NT_GNU_BUILD_ID" and note["n_name"] == "GNU":
                    return str(note["n_desc"])[:_MAX_BUILD_ID]
        return None

    def has_section(self, name: str) -> bool:
        """Whether there is one of that name that holds something."""

        def look() -> bool:
            section = self._open().get_section_by_name(name)
            return section is not None and section["sh_type"] != "SHT_NOBITS"

        return bool(self._guarded("section table", look))

    def dwarf(self) -> Any:
        """pyelftools' DWARFInfo, None where the file has none."""

        def read() -> Any:
            elf = self._open()
            return elf.get_dwarf_info() if elf.has_dwarf_info(strict=True) else None

        return self._guarded("debug information", read)

    def piece(self, pc: int) -> tuple[int, int]:
        """The range of the function that holds ``pc`` by the unwind table, which stripped files
        have, too; the whole segment where there is none, and (pc, pc) outside the file's code.

        A function reaches to the next one that the table knows.
        """
        i = bisect.bisect_right(self._starts, pc) - 1
        if i < 0 or pc >= self._segments[i].end:
            return pc, pc
        if self._pieces is None:
            self._pieces = self._guarded("unwind table", self._read_pieces)
        k = bisect.bisect_right(self._pieces, pc)
        begin = max(self._pieces[k - 1], self._segments[i].start) if k else self._segments[i].start
        end = self._segments[i].end
        return begin, min(self._pieces[k], end) if k < len(self._pieces) else end

    def _read_pieces(self) -> list[int]:
        """The starts in .eh_frame_hdr's search table, in the one form that linkers write: pairs of
        signed words relative to the table's own address (LSB Core, "Exception Frame Header")."""
        for s in self._open().iter_segments():
            if s["p_type"] != "PT_GNU_EH_FRAME":
                continue
            raw = self.code(int(s["p_vaddr"]) + self.bias, int(s["p_filesz"]))
            if len(raw) < 12 or raw[:4] != b"\x01\x1b\x03\x3b":
                return []
            count = min(int.from_bytes(raw[8:12], "little"), (len(raw) - 12) // 8)
            table = np.frombuffer(raw, "<i4", 2 * count, 12).reshape(-1, 2)[:, 0]
            return sorted(set((table.astype(np.int64) + int(s["p_vaddr"]) + self.bias).tolist()))
        return []

    def _guarded(self, what: str, read: Any) -> Any:
        try:
            return read()
        except TracekitError:
            raise
        except Exception as e:
            raise self._bad(f"corrupt {what}: {_one_line(e)}") from None

    def symbol(self, pc: int) -> Symbol | None:
        """The function that holds ``pc``, or None.  One without a size reaches to the next one."""
        addresses, symbols = self._table()
        i = bisect.bisect_right(addresses, pc) - 1
        if i < 0:
            return None
        s = symbols[i]
        return s if not s.size or pc < s.address + s.size else None

    def symbols(self) -> list[Symbol]:
        """Every function, by address; of several names for one address the global one with a
        size."""
        return list(self._table()[1])

    def _table(self) -> tuple[list[int], list[Symbol]]:
        if self._symbols is None:
            self._symbols = self._guarded("symbol table", self._read_symbols)
        return self._symbols

    def _read_symbols(self) -> tuple[list[int], list[Symbol]]:
        elf = self._open()
        count = elf.num_sections()
        if count > _MAX_SECTIONS:
            raise self._bad(f"{count} sections")
        found: dict[int, tuple[tuple[bool, bool, int], Symbol]] = {}
        for name in (".symtab", ".dynsym"):
            table = elf.get_section_by_name(name)
            if table is None or table["sh_type"] not in ("SHT_SYMTAB", "SHT_DYNSYM"):
                continue
            strings = elf.get_section(table["sh_link"])
            raw = self._section(table, name)
            syms = np.frombuffer(raw, dtype=_SYM64, count=len(raw) // _SYM64.itemsize)
            text = self._section(strings, f"names of {name}")
            kinds = syms["info"] & 15
            keep = ((kinds == _STT_FUNC) | (kinds == _STT_GNU_IFUNC)) & (syms["shndx"] != 0)
            for entry in syms[keep]:
                at, end = int(entry["name"]), -1
                if at < len(text):
                    end = text.find(b"\0", at, at + _MAX_SYMBOL_NAME)
                    end = end if end >= 0 else min(at + _MAX_SYMBOL_NAME, len(text))
                if end <= at:
                    continue
                address, size = int(entry["value"]) + self.bias, int(entry["size"])
                rank = (
                    size > 0,
                    int(entry["info"]) >> 4 == 1,
                    -at,
                )  # sized, then global, then first
                if address not in found or rank > found[address][0]:
                    label = shown(bytes(text[at:end]).decode("utf-8", "backslashreplace"))
                    found[address] = rank, Symbol(label, address, size)
            if found:
                break  # .dynsym is a part of .symtab
        symbols = [found[a][1] for a in sorted(found)]
        return [s.address for s in symbols], symbols

    def _section(self, section: Any, what: str) -> bytes:
        offset, size = int(section["sh_offset"]), int(section["sh_size"])
        data = self._data()
        if section["sh_type"] == "SHT_NOBITS" or offset + size > len(data):
            raise self._bad(f"{what}: bytes {offset} to {offset + size} of a file of {len(data)}")
        return data[offset : offset + size]

    def close(self) -> None:
        """Close the file; `symbols` read so far stay, everything else raises `TracekitError`."""
        if self._map is not None:
            self._map.close()
            self._map = None

    def __enter__(self) -> ElfImage:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self.close()


def _one_line(e: Exception) -> str:
    text = " ".join(str(e).split())[:200]
    return f"{type(e).__name__}: {text}" if text else type(e).__name__
