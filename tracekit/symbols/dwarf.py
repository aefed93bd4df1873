"""DWARF: source lines and inlined functions by address, read as far as is asked for.

A compile unit is decoded when an address in it is first met (pyelftools is slow: some 10^5 entries
a second).
"""

from __future__ import annotations

import bisect
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tracekit.errors import FormatError
from tracekit.symbols.maps import Frame
from tracekit.text import shown

if TYPE_CHECKING:
    from tracekit.isa.elf import ElfImage

_MAX_DEPTH: Final = 256  # of entries inside one another, and of references from one to the next


class _Scope(NamedTuple):
    """A function, or an inlined call of one, and a range of its code."""

    begin: int
    end: int
    depth: int
    function: str
    call_file: str | None  # where it is inlined: None for a function of its own
    call_line: int | None


class _Unit:
    """One compile unit: its line table and its scopes."""

    def __init__(self, dwarf: Any, cu: Any) -> None:
        self._dwarf, self._cu = dwarf, cu
        self.addresses: list[int] = []
        self.lines: list[tuple[str, int] | None] = []
        self.scopes: list[_Scope] = []
        self._files: list[str] = []
        self._read_lines()
        self._walk(cu.get_top_DIE(), 0, 0)
        self.scopes.sort()
        self._starts = [s.begin for s in self.scopes]

    def _read_lines(self) -> None:
        program = self._dwarf.line_program_for_CU(self._cu)
        if program is None:
            return
        header = program.header
        # DWARF 5 counts files from 0, older versions from 1.
        self._files = [] if header["version"] >= 5 else [""]
        self._files += [_text(f.name) for f in header["file_entry"]]
        rows: list[tuple[int, int, tuple[str, int] | None]] = []
        for entry in program.get_entries():
            s = entry.state
            if s is None:
                continue
            what = None if s.end_sequence else (self._file(s.file), int(s.line))
            rows.append((int(s.address), 0 if what is None else 1, what))
        rows.sort(key=lambda r: r[:2])  # an end before the beginning at the same address
        self.addresses = [r[0] for r in rows]
        self.lines = [r[2] for r in rows]

    def _file(self, number: int) -> str:
        return PurePosixPath(self._files[number]).name if number < len(self._files) else "?"

    def _walk(self, die: Any, depth: int, nested: int) -> None:
        inside = depth
        if die.tag in ("DW_TAG_subprogram", "DW_TAG_inlined_subroutine"):
            inlined = die.tag == "DW_TAG_inlined_subroutine"
            ranges = self._ranges(die)
            if ranges:
                inside += 1
                call = die.attributes.get("DW_AT_call_file")
                line = die.attributes.get("DW_AT_call_line")
                scope = (
                    _name(die),
                    self._file(int(call.value)) if inlined and call else None,
                    int(line.value) if inlined and line else None,
                )
                self.scopes += [_Scope(b, e, inside, *scope) for b, e in ranges if b < e]
        if nested < _MAX_DEPTH:
            for child in die.iter_children():
                self._walk(child, inside, nested + 1)

    def _ranges(self, die: Any) -> list[tuple[int, int]]:
        low, high = die.attributes.get("DW_AT_low_pc"), die.attributes.get("DW_AT_high_pc")
        if low is not None and high is not None:
            begin = int(low.value)
            absolute = high.form == "DW_FORM_addr"
            return [(begin, int(high.value) + (0 if absolute else begin))]
        at = die.attributes.get("DW_AT_ranges")
        return _range_list(self._dwarf, self._cu, at.value) if at is not None else []

    def line(self, address: int) -> tuple[str, int] | None:
        i = bisect.bisect_right(self.addresses, address) - 1
        return self.lines[i] if i >= 0 else None

    def around(self, address: int) -> list[_Scope]:
        """Innermost first."""
        last = bisect.bisect_right(self._starts, address)
        found = [s for s in self.scopes[:last] if address < s.end]
        return sorted(found, key=lambda s: -s.depth)


class DebugLines:
    """Lines and inlined functions of one ELF file; none where it has no DWARF."""

    def __init__(self, image: ElfImage) -> None:
        self._path = image.path
        self._units: dict[int, _Unit] = {}
        self._ranges: list[tuple[int, int, int]] = []  # begin, end, number of the unit
        self._cus: list[Any] = []
        self._dwarf: Any = image.dwarf()
        if self._dwarf is not None:
            self._guarded(self._find_units)
        self._starts = [r[0] for r in self._ranges]

    def _guarded(self, read: Any, *args: Any) -> Any:
        try:
            return read(*args)
        except Exception as e:  # pyelftools raises whatever its parsers raise on damage
            raise FormatError(
                f"corrupt debug information: {type(e).__name__}: {e}", path=self._path
            ) from None

    def _find_units(self) -> None:
        for cu in self._dwarf.iter_CUs():
            number = len(self._cus)
            self._cus.append(cu)
            top = cu.get_top_DIE()
            low, high = top.attributes.get("DW_AT_low_pc"), top.attributes.get("DW_AT_high_pc")
            ranges = top.attributes.get("DW_AT_ranges")
            if ranges is not None:
                found = _range_list(self._dwarf, cu, ranges.value)
            elif low is not None and high is not None:
                begin = int(low.value)
                size = int(high.value)
                found = [(begin, size if high.form == "DW_FORM_addr" else begin + size)]
            else:
                found = []
            self._ranges += [(b, e, number) for b, e in found if b < e]
        self._ranges.sort()

    def frames(self, address: int) -> list[Frame]:
        """Innermost first; a name is "" where there is a line but no function.

        Raises `FormatError` for damaged DWARF.
        """
        i = bisect.bisect_right(self._starts, address) - 1
        if i < 0 or address >= self._ranges[i][1]:
            return []
        number = self._ranges[i][2]
        if number not in self._units:
            self._units[number] = self._guarded(_Unit, self._dwarf, self._cus[number])
        unit = self._units[number]
        at = unit.line(address)
        out: list[Frame] = []
        for scope in unit.around(address):
            out.append(_frame(scope.function, at))
            at = (scope.call_file, scope.call_line or 0) if scope.call_file is not None else None
        if not out and at is not None:
            out.append(_frame("", at))
        return out


def _frame(function: str, at: tuple[str, int] | None) -> Frame:
    """Line 0 is the compiler's for code that has no line."""
    return Frame(function, at[0] if at else None, (at[1] or None) if at else None)


def _range_list(dwarf: Any, cu: Any, offset: int) -> list[tuple[int, int]]:
    lists = dwarf.range_lists()
    if lists is None:
        return []
    top = cu.get_top_DIE().attributes.get("DW_AT_low_pc")
    base = int(top.value) if top is not None else 0
    out = []
    for e in lists.get_range_list_at_offset(offset, cu=cu):
        if hasattr(e, "base_address"):
            base = int(e.base_address)
        else:
            absolute = bool(getattr(e, "is_absolute", False))
            add = 0 if absolute else base
            out.append((int(e.begin_offset) + add, int(e.end_offset) + add))
    return out


def _name(die: Any) -> str:
    """A function's name, which may stand at the declaration that it refers to."""
    for _ in range(_MAX_DEPTH):
        for key in ("DW_AT_linkage_name", "DW_AT_name"):
            if key in die.attributes:
                return _text(die.attributes[key].value)
        for key in ("DW_AT_abstract_origin", "DW_AT_specification"):
            if key in die.attributes:
                die = die.get_DIE_from_attribute(key)
                break
        else:
            break
    return "?"


def _text(value: Any) -> str:
    text = value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else str(value)
    return shown(text)
