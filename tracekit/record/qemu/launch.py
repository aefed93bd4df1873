"""Finds what runs a program: which instruction set it is for, which QEMU, whose libraries."""

from __future__ import annotations

import contextlib
import os
import platform
import re
import shlex
import shutil
import signal
import struct
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from tracekit.errors import RecordError, TracekitError, UsageError
from tracekit.record.qemu.options import QemuOptions
from tracekit.symbols import Mapped

PLUGIN: Final = Path(__file__).with_name("libtracekit_qemu.so")


class _Isa(NamedTuple):
    machine: int  # ELF's e_machine
    arch: str  # tracekit's name
    target: str  # QEMU's


class Segment(NamedTuple):
    """What is loaded, in the file's own addresses."""

    address: int
    size: int  # in memory
    offset: int  # in the file
    in_file: int  # bytes
    executable: bool


class _Elf(NamedTuple):
    isa: _Isa
    interpreter: str | None  # the dynamic linker that it asks for
    segments: tuple[Segment, ...]


_ISAS: Final = (
    _Isa(62, "x86", "x86_64"),
    _Isa(183, "arm", "aarch64"),
    _Isa(243, "riscv", "riscv64"),
)
_OTHERS: Final = {3: "32-bit x86", 40: "32-bit Arm", 8: "MIPS", 21: "POWER", 22: "s390x"}
_MINIMUM: Final = re.compile(r"supports only a minimum version of (\d+)")
_MAXIMUM: Final = re.compile(r"supports only up to version (\d+)")
_SCRIPTS: Final = 5  # interpreters of interpreters that the kernel follows


@dataclass(frozen=True)
class QemuProgram:
    """A program and what runs it.  ``prefix`` comes before the plug-in's option, ``argv`` is the
    program (an interpreter where it is a script) with its arguments, ``segments`` is what of its
    file is loaded: the program may replace that file while it runs."""

    argv: tuple[str, ...]
    program: str
    arch: str
    machine: int
    qemu: str
    version: str
    prefix: tuple[str, ...]
    environment: Mapping[str, str]
    segments: tuple[Segment, ...]

    @property
    def code(self) -> int:
        """Where its code begins, in the file's own addresses."""
        return min((s.address for s in self.segments if s.executable), default=1 << 64)

    def command(self, options: str) -> list[str]:
        """``options``: of the plug-in, NAME=VALUE,..."""
        plugin = str(PLUGIN).replace(",", ",,")
        return [*self.prefix, "-plugin", f"{plugin}{options and ','}{options}"]


_PROPERTY: Final = 0x6474E553  # PT_GNU_PROPERTY
_ISA_NEEDED: Final = 0xC0008002  # GNU_PROPERTY_X86_ISA_1_NEEDED
_V4: Final = 8


def find_program(argv: list[str], options: QemuOptions) -> QemuProgram:
    """Raises `TracekitError` where the program cannot run under a QEMU that takes the plug-in."""
    options.check()
    env = os.environ if options.env is None else options.env
    found = shutil.which(argv[0], path=env.get("PATH", os.defpath))
    if found is None:
        raise TracekitError("no such program, or not executable", path=argv[0])
    path, full = found, [argv[0], *argv[1:]]
    for _ in range(_SCRIPTS):
        head = _head(path)
        if not head.startswith(b"#!"):
            break
        words = head[2:].partition(b"\n")[0].decode(errors="surrogateescape").strip().split(None, 1)
        if not words:
            raise TracekitError("a script without an interpreter", path=path)
        full = [*words, path, *full[1:]]
        path = words[0]
    isa, interpreter, segments = _elf(path)
    if options.isa not in ("auto", isa.arch):
        raise UsageError(f"{path} is for {isa.arch}, not for {options.isa} (--isa)")
    if isa.arch == "x86" and options.cpu is None and _needs_avx512(path):
        raise RecordError(
            f"{path} needs x86-64-v4 (AVX-512), which QEMU's processors do not have",
            hint="compile with -march=x86-64-v3",
        )
    qemu = _qemu(isa, options.qemu)
    version, told = _probe(qemu, isa)
    prefix = [qemu]
    root = options.root or _root(path, isa, interpreter)
    if root is not None:
        if not Path(root).is_dir():
            raise TracekitError("no such folder (-L)", path=root)
        if interpreter and not (Path(root + interpreter).exists() or Path(interpreter).exists()):
            raise TracekitError(f"does not hold {interpreter}, which {path} needs", path=root)
        prefix += ["-L", root]
    if options.cpu is not None:
        prefix += ["-cpu", options.cpu]
    environment = dict(env)
    if told is not None:  # for the plug-in, not for the program
        environment["TRACEKIT_QEMU_API"] = str(told)
        prefix += ["-U", "TRACEKIT_QEMU_API"]
    return QemuProgram(
        tuple(full),
        path,
        isa.arch,
        isa.machine,
        qemu,
        version,
        tuple(prefix),
        environment,
        segments,
    )


def _head(path: str) -> bytes:
    try:
        with Path(path).open("rb") as f:
            return f.read(512)
    except OSError as e:
        raise TracekitError(e.strerror or str(e), path=path) from None


def _elf(path: str) -> _Elf:
    head = _head(path)
    if head[:4] != b"\x7fELF" or len(head) < 64:
        raise TracekitError("neither an ELF file nor a script", path=path)
    machine = struct.unpack_from("<H" if head[5] == 1 else ">H", head, 18)[0]
    isa = next((i for i in _ISAS if i.machine == machine), None)
    if isa is None or head[4:6] != b"\x02\x01":
        what = _OTHERS.get(machine, f"ELF machine {machine}")
        raise TracekitError(
            f"a program for {what}: the QEMU engine records 64-bit x86, Arm and RISC-V", path=path
        )
    at = struct.unpack_from("<Q", head, 32)[0]
    size, n = struct.unpack_from("<HH", head, 54)
    interpreter, segments = None, []
    with contextlib.suppress(OSError, ValueError, struct.error), Path(path).open("rb") as f:
        f.seek(at)
        table = f.read(size * n)
        for i in range(n):
            kind, flags, offset, address, _, length, memory = struct.unpack_from(
                "<IIQQQQQ", table, i * size
            )
            if kind == 1:  # PT_LOAD
                segments.append(Segment(address, memory, offset, length, bool(flags & 1)))
            if kind == 3 and length < 4096:  # PT_INTERP
                f.seek(offset)
                interpreter = f.read(length).rstrip(b"\0").decode(errors="surrogateescape")
    return _Elf(isa, interpreter, tuple(segments))


def why_killed(status: int, arch: str) -> str | None:
    """What the end of a program of ``arch`` by a signal means; ``status`` as waitpid gives it."""
    if arch == "x86" and os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGILL:
        return (
            "it met an instruction that QEMU does not have (AVX-512 is one): "
            "compile with -march=x86-64-v3, or choose --cpu"
        )
    return None


def why_untraced(told: str, arch: str) -> str:
    """Why a program that one of ``arch`` executes runs without being recorded.  ``told``: its ELF
    machine, "0" where it is no such program (csrc/record/qemu/follow.c)."""
    machine = int(told) if told.isdigit() else 0
    isa = next((i for i in _ISAS if i.machine == machine), None)
    if isa is not None and isa.arch != arch:
        return f"it is for {isa.arch}, and this is a recording of {arch}"
    return "it is set-user-id, or no 64-bit program that QEMU runs here"


def _needs_avx512(path: str) -> bool:
    """Whether the ELF file says that it needs x86-64-v4 (GNU_PROPERTY_X86_ISA_1_NEEDED)."""
    with contextlib.suppress(OSError, ValueError, struct.error), Path(path).open("rb") as f:
        head = f.read(64)
        at = struct.unpack_from("<Q", head, 32)[0]
        size, n = struct.unpack_from("<HH", head, 54)
        f.seek(at)
        table = f.read(size * n)
        for i in range(n):
            kind, _, offset, _, _, length = struct.unpack_from("<IIQQQQ", table, i * size)
            if kind == _PROPERTY and length < 4096:
                f.seek(offset)
                return _property(f.read(length)) & _V4 != 0
    return False


def _property(note: bytes) -> int:
    """Bits of the levels that a property note says are needed."""
    at = 16  # behind the sizes, the type and "GNU"
    while at + 8 <= len(note):
        kind, size = struct.unpack_from("<II", note, at)
        if kind == _ISA_NEEDED and size == 4:
            return int(struct.unpack_from("<I", note, at + 8)[0])
        at += 8 + (size + 7) // 8 * 8
    return 0


def loaded_at(segments: Sequence[Segment], mapped: Mapped) -> tuple[int, int] | None:
    """The first address of a program's file in memory and the one behind its last, of where a part
    of it is ``mapped``; None where that is none of what is loaded."""
    page = mapped.offset >> 12
    loaded = [s for s in segments if s.in_file]
    # Two segments may share a page of the file; the mapping begins with one, or within one.
    begin_there = [s for s in loaded if s.offset >> 12 == page]
    around = [s for s in loaded if s.offset >> 12 <= page <= (s.offset + s.in_file - 1) >> 12]
    if not (found := begin_there or around):
        return None
    moved = mapped.begin - (found[0].address - found[0].offset + mapped.offset)
    begin = min(s.address for s in segments) + moved
    end = max(s.address + s.size for s in segments) + moved
    return (begin, end) if 0 <= begin < end < 1 << 64 else None


def _qemu(isa: _Isa, given: str | None) -> str:
    if given is not None:
        found = shutil.which(given)
        if found is None:
            raise TracekitError("no such program, or not executable (--qemu)", path=given)
        return found
    for name in (f"qemu-{isa.target}", f"qemu-{isa.target}-static"):
        if (found := shutil.which(name)) is not None:
            return found
    raise RecordError(
        f"no QEMU for {isa.target} programs was found (qemu-{isa.target})",
        hint="apt install qemu-user, or --qemu FILE",
    )


def _probe(qemu: str, isa: _Isa) -> tuple[str, int | None]:
    """QEMU's version, and the version of its interface where the plug-in must be told.

    It loads the plug-in, which ends QEMU before any program is looked at.
    """
    if not PLUGIN.exists():
        raise RecordError(
            "tracekit was built without the plug-in for QEMU: build it where there is a C compiler"
        )
    env = dict(os.environ)
    told: int | None = None
    plugin = str(PLUGIN).replace(",", ",,")
    for _ in range(2):
        try:
            done = subprocess.run(
                [qemu, "-plugin", f"{plugin},probe=on", "tracekit"],
                env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60,
                errors="replace",
            )  # fmt: skip
        except (OSError, subprocess.TimeoutExpired) as e:
            raise RecordError(f"{qemu} cannot be started: {e}") from None
        if done.stdout.startswith("tracekit "):
            target = done.stdout.split()[1]
            if target != isa.target:
                raise RecordError(f"{qemu} emulates {target}, and the program is for {isa.target}")
            return _version(qemu), told
        m = _MINIMUM.search(done.stderr) or _MAXIMUM.search(done.stderr)
        if m is None or told is not None:
            break
        told = int(m[1])
        env["TRACEKIT_QEMU_API"] = str(told)
    why = done.stderr.strip().splitlines()
    if any("lugin" in line and "unknown" not in line for line in why):
        raise RecordError(f"{qemu} does not take the plug-in: {why[-1]}")
    raise RecordError(
        f"{qemu} has no plug-ins",
        hint="static builds (qemu-user-static; qemu-user from Debian 13 on) load none: "
        "docs/qemu.md has how to make one for --qemu FILE",
    )


def _version(qemu: str) -> str:
    try:
        text = subprocess.run(
            [qemu, "--version"], capture_output=True, text=True, timeout=60, errors="replace"
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        return "?"
    m = re.search(r"version (\S+)", text)
    return m[1] if m else "?"


def _root(path: str, isa: _Isa, interpreter: str | None) -> str | None:
    """The libraries of another machine's programs, where a cross compiler's are installed."""
    if interpreter is None or platform.machine() == isa.target:
        return None
    usual = Path(f"/usr/{isa.target}-linux-gnu")
    if Path(interpreter).exists() and not (usual / interpreter[1:]).exists():
        return None
    if (usual / interpreter[1:]).exists():
        return str(usual)
    raise TracekitError(
        f"needs {interpreter}, which is not on this machine",
        path=path,
        hint="-L FOLDER names the root of its libraries, "
        f"e.g. /usr/{isa.target}-linux-gnu of a cross compiler",
    )


def shown(argv: tuple[str, ...]) -> str:
    """For people."""
    return shlex.join(argv)
