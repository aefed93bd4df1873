"""Addresses to functions, source lines and inlined frames, for programs and their libraries.

    names = AddressMap.of_binary("prog")            # a static program, as gem5 runs it
    names = AddressMap.of_trace(tracekit.open(f))   # what a recording knew of its program's memory
    names.name(0x401136), names.line(0x401136), names.frames(0x401136)

A position-independent program lies elsewhere in each run: a recording therefore holds which file's
which bytes were where (docs/tks-format.md, "maps"), with the files' build-ids, and a file that has
changed since is not asked for names.  Symbols come from the file itself or from its separate debug
file; code without any is named by its range of addresses, ``libz.so.1:0x3a10-0x3c20``, from the
unwind table that stripped files keep.  Lines need DWARF.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tracekit.errors import TracekitError, UsageError
from tracekit.symbols.maps import Frame, Mapped, parse_maps
from tracekit.text import shown

if TYPE_CHECKING:
    from tracekit.isa.elf import ElfImage
    from tracekit.store.reader import TraceFile
    from tracekit.symbols.dwarf import DebugLines

UNKNOWN: Final = "?"
"""The name of what lies in no known mapping."""
_DEBUG_ROOTS: Final = (Path("/usr/lib/debug"),)


class Place(NamedTuple):
    """Where an address lies: ``address`` is the file's own (p_vaddr), the memory's where there is
    no file."""

    path: str
    address: int
    symbol: str | None
    begin: int  # of the function, or of the piece of stripped code, as ``address``
    end: int


class ObjectFile:
    """The names in one ELF file.  What cannot be read is in ``problem``, and then it has none."""

    def __init__(self, path: str, build_id: str | None = None) -> None:
        from tracekit.isa.elf import ElfImage

        self.path = path
        self.problem: str | None = None
        self._image: ElfImage | None = None
        self._debug: ElfImage | None = None
        self._lines: DebugLines | None = None
        try:
            image = ElfImage(path)
            if build_id is not None and image.build_id != build_id:
                self.problem = "has changed since the recording: its build-id differs"
                return
            self._image = image
            self._debug = self._separate_debug(image)
        except TracekitError as e:
            self.problem = e.message

    @staticmethod
    def _separate_debug(image: Any) -> Any:
        """The debug file that belongs to a stripped one, found by build-id; itself where it has
        all."""
        from tracekit.isa.elf import ElfImage

        if image.build_id is None or image.has_section(".symtab"):
            return image
        for root in _DEBUG_ROOTS:
            file = root / ".build-id" / image.build_id[:2] / f"{image.build_id[2:]}.debug"
            if file.is_file():
                debug = ElfImage(file)
                if debug.build_id == image.build_id:
                    return debug
        return image

    def address(self, offset: int) -> int | None:
        """The file's own address of the byte at ``offset``, None where nothing is loaded from
        there."""
        return self._image.address(offset) if self._image is not None else None

    def place(self, address: int) -> Place | None:
        """The function at a file's own address, else the piece of code; None where there is no
        code."""
        if self._image is None or self._debug is None:
            return None
        s = self._debug.symbol(address)
        if s is not None and s.size:
            return Place(self.path, address, s.name, s.address, s.address + s.size)
        begin, end = self._image.piece(address)
        if s is not None and begin <= s.address:
            return Place(self.path, address, s.name, s.address, end)
        return Place(self.path, address, None, begin, end) if begin < end else None

    def frames(self, address: int) -> list[Frame]:
        """Innermost first: inlined functions, then the one whose code it is; [] without DWARF."""
        if self._debug is None:
            return []
        if self._lines is None:
            from tracekit.symbols.dwarf import DebugLines

            self._lines = DebugLines(self._debug)
        return self._lines.frames(address)


class AddressMap:
    """The executable memory of one program.

    ``mapped``: later ones hide earlier ones where they overlap.  Files are opened when first
    asked for, and are then in ``files``, which several maps may share.
    """

    def __init__(
        self, mapped: Iterable[Mapped] = (), files: dict[str, ObjectFile] | None = None
    ) -> None:
        self._ranges: list[Mapped] = []
        self._starts: list[int] = []
        self.files = {} if files is None else files
        self._places: dict[int, Place] = {}
        self._hidden: dict[str, str] = {}  # a file's path -> that of a newer one at its addresses
        self.add(mapped)

    @classmethod
    def of_binary(cls, path: str, bias: int = 0) -> AddressMap:
        """Of one ELF file, loaded ``bias`` above its own addresses.

        Raises `TracekitError` where it cannot be read.
        """
        from tracekit.isa.elf import ElfImage

        with ElfImage(path) as image:
            return cls(
                Mapped(start + bias, end + bias, offset, path, image.build_id)
                for start, end, offset in image.loaded()
            )

    @classmethod
    def of_trace(cls, trace: TraceFile) -> AddressMap | None:
        """What a feats.zst of a recording knows; None where it came from elsewhere."""
        maps = trace.index["source"].get("maps")
        if not isinstance(maps, dict):
            return None
        pid = trace.cpu.partition(".")[0]
        known = [maps[pid]] if pid in maps else list(maps.values())
        out = cls()
        for one in known:
            out.add(parse_maps(one, trace.path))
        return out

    @classmethod
    def of(cls, trace: TraceFile, binary: str | None = None) -> AddressMap:
        """What the trace knows of its program's files, ``binary`` in the place of the one that has
        its build-id; of ``binary`` alone where the trace knows nothing.

        Raises `TracekitError` where there is neither, `UsageError` where ``binary`` is not the
        program that was traced: of another architecture, with another build-id, or without
        instructions at the trace's pcs.
        """
        found = cls.of_trace(trace)
        if binary is not None:
            from tracekit.isa.elf import ElfImage
            from tracekit.isa.program_match import check_instructions, check_isa

            with ElfImage(binary) as elf:
                check_isa(elf, trace.arch)
                if found is not None:
                    if not found.use(elf):
                        raise found.no_such_file(elf)
                    return found
                s = trace.statics
                check_instructions(elf, s.pc, s.flags, s.bytes)
            return cls.of_binary(binary)
        if found is None:
            raise TracekitError(
                "the trace does not tell its program's files",
                path=trace.path,
                hint="--binary PROGRAM",
            )
        return found

    def use(self, elf: ElfImage) -> bool:
        """Names of the mapped file that is ``elf`` (by its build-id; where neither has one, by its
        name) come from there.  Whether there is one."""
        name = Path(elf.path).name
        own = [
            m.build_id == elf.build_id and (m.build_id is not None or Path(m.path).name == name)
            for m in self._ranges
        ]
        pairs = zip(self._ranges, own, strict=True)
        self._ranges = [m._replace(path=elf.path) if same else m for m, same in pairs]
        self._places.clear()
        return any(own)

    def no_such_file(self, elf: ElfImage) -> UsageError:
        """What is mapped, and by which build-ids."""
        known = {Path(m.path).name: m.build_id for m in self._ranges if m.build_id}
        files = ", ".join(f"{name} {b[:12]}" for name, b in list(known.items())[:4])
        return UsageError(
            f"its build-id ({(elf.build_id or 'none')[:12]}) is none of the trace's files'"
            f" ({files or 'none'})",
            path=elf.path,
            hint="give the file that ran",
        )

    def add(self, mapped: Iterable[Mapped]) -> None:
        """Further mappings, newer than those before."""
        for m in mapped:
            self._insert(m)
        self._places.clear()

    def _insert(self, new: Mapped) -> None:
        first = bisect.bisect_right(self._starts, new.begin)
        if first and self._ranges[first - 1].end > new.begin:
            first -= 1
        last = bisect.bisect_left(self._starts, new.end)
        pieces = [new]
        for old in self._ranges[first:last]:
            if old.path != new.path and all(p and p[0] != "[" for p in (old.path, new.path)):
                self._hidden[old.path] = new.path
            if old.begin < new.begin:
                pieces.append(old._replace(end=new.begin))
            if old.end > new.end:
                cut = new.end - old.begin
                pieces.append(old._replace(begin=new.end, offset=old.offset + cut))
        pieces.sort()
        self._ranges[first:last] = pieces
        self._starts[first:last] = [m.begin for m in pieces]

    def _mapped(self, pc: int) -> Mapped | None:
        i = bisect.bisect_right(self._starts, pc) - 1
        return self._ranges[i] if i >= 0 and pc < self._ranges[i].end else None

    def _file(self, m: Mapped) -> ObjectFile:
        if m.path not in self.files:
            self.files[m.path] = ObjectFile(m.path, m.build_id)
        return self.files[m.path]

    @property
    def problems(self) -> dict[str, str]:
        """Path of a file -> why it gives no names, or not all of them."""
        hidden = {
            old: f"{shown(new)} lay at the same addresses later, and gives the names of both"
            for old, new in self._hidden.items()
        }
        unread = {p: f.problem for p, f in self.files.items() if f.problem is not None}
        return hidden | unread

    def place(self, pc: int) -> Place:
        """Where ``pc`` lies.  In no known memory: path "", and a range of no bytes."""
        found = self._places.get(pc)
        if found is None:
            found = self._places[pc] = self._place(pc)
        return found

    def _place(self, pc: int) -> Place:
        m = self._mapped(pc)
        if m is None:
            return Place("", pc, None, pc, pc)
        if not m.path or m.path.startswith("["):
            return Place(m.path, pc, None, m.begin, m.end)
        file = self._file(m)
        address = file.address(pc - m.begin + m.offset)
        place = file.place(address) if address is not None else None
        return place or Place(m.path, pc, None, m.begin, m.end)

    def name(self, pc: int) -> str:
        """``file:function``; ``file:0xBEGIN-0xEND`` in stripped code, ``?`` in no known memory."""
        p = self.place(pc)
        if p.begin == p.end:
            return UNKNOWN
        if p.symbol is not None:
            return f"{_named(p.path)}:{p.symbol}"
        if p.path.startswith("["):
            return shown(p.path)
        return f"{_named(p.path) or '[made at run time]'}:{p.begin:#x}-{p.end:#x}"

    def file(self, pc: int) -> str:
        """The path of the file whose code it is, ``[vdso]``, or ``?``."""
        return shown(self.place(pc).path or UNKNOWN)

    def frames(self, pc: int) -> list[Frame]:
        """Innermost first, inlined functions before the one that holds them.

        Without DWARF one frame, of the symbol, without a line.
        """
        p = self.place(pc)
        file = self.files.get(p.path)
        found = file.frames(p.address) if file is not None else []
        own = p.symbol or UNKNOWN  # an assembler's code has lines and no functions
        found = [f if f.function else f._replace(function=own) for f in found]
        return found or [Frame(self.name(pc), None, None)]

    def function(self, pc: int) -> str:
        """``file:function`` of the innermost frame: the inlined function, where it is one's."""
        frame = self.frames(pc)[0]
        if frame.file is None:
            return frame.function
        return f"{_named(self.place(pc).path)}:{frame.function}"

    def line(self, pc: int) -> str:
        """``source.c:123``; the name where no line is known."""
        frame = self.frames(pc)[0]
        if frame.file is None or frame.line is None:
            return self.name(pc)
        return f"{frame.file}:{frame.line}"


def _named(path: str) -> str:
    """A file's name on one line: the maps of a recording are anybody's."""
    return shown(Path(path).name)


def build_id(path: str) -> str | None:
    """Of an ELF file; None where it has none, or cannot be read."""
    from tracekit.isa.elf import ElfImage

    try:
        with ElfImage(path) as image:
            return image.build_id
    except TracekitError:
        return None
