"""Recordings (.tks): what `tracekit record` writes.  The format is in docs/tks-format.md.

A legal zstd stream of independent frames; each block is announced by a small skippable frame.
Files are untrusted: every size that a header claims is checked against a limit before anything is
allocated.
"""

from __future__ import annotations

import json
import os
import re
import struct
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final

import numpy as np
import zstandard

from tracekit._core import END_REASONS, EncodingTable, NativeBatch, TksDecoder, tks_text_block
from tracekit.errors import FormatError, TracekitError
from tracekit.io.files import open_file
from tracekit.io.leftovers import taken
from tracekit.io.output import OutputFile
from tracekit.io.remote import public_name
from tracekit.store.program_image import parse_image
from tracekit.symbols import Mapped, parse_maps
from tracekit.text import counted, shown

VERSION: Final = 1
META, CODE, EPOCH, END, MAPS = 1, 2, 3, 4, 5
MAX_BLOCK: Final = 1 << 30
"""Bytes of one block's payload."""
MAX_COMPRESSED: Final = MAX_BLOCK + (MAX_BLOCK >> 7) + 512
MAX_TEXT: Final = 1 << 24
EXPANDED: Final = 48 << 20
MOST_EXPANDED: Final = 64
"""Bytes of a JSON text."""

_SKIPPABLE: Final = 0x184D2A5B
_HEAD: Final = struct.Struct("<II8sHHI")  # skippable frame of 16 bytes: name, version, arch, 0
_BLOCK: Final = struct.Struct("<IIB3xIII")  # ... of 16 bytes: kind, compressed, raw, 0
_NAME: Final = b"TKSTREAM"
_ARCHS: Final = ("unknown", "arm", "x86", "riscv")  # csrc/core/static_inst.hpp, Arch


def is_tks(head: bytes) -> bool:
    """Whether a file that starts with these bytes (16 suffice) is a recording."""
    return head[:16] == struct.pack("<II", _SKIPPABLE, 16) + _NAME


@dataclass(frozen=True)
class Epoch:
    """One epoch: ``info`` has the fields of docs/tks-format.md, ``rows`` its instructions."""

    info: Mapping[str, int]
    rows: NativeBatch

    @property
    def reason(self) -> str:
        """Why it ended: one of END_REASONS."""
        return END_REASONS[self.info["reason"]]


def _part_name(path: Path) -> Path:
    """Seen by whoever lists the folder: what a killed recording saved is worth something."""
    name = os.fsdecode(os.fsencode(path.name)[:200])
    return path.with_name(f"{name}.{os.urandom(8).hex()}.part")


def _collect_parts(path: Path, force: bool) -> None:
    """Removes what killed recordings to ``path`` left; raises TracekitError for one with epochs
    unless ``force``."""
    name = re.escape(os.fsdecode(os.fsencode(path.name)[:200]))
    pattern = re.compile(rf"{name}\.[0-9a-f]{{16}}\.part", re.DOTALL)
    try:
        with os.scandir(path.parent) as entries:
            parts = [path.with_name(e.name) for e in entries if pattern.fullmatch(e.name)]
    except OSError:
        return  # the writing will say it
    for part in parts:
        with taken(part) as free:
            if not free:
                continue  # of a recording that goes on
            if not force and _has_epochs(part):
                raise TracekitError(
                    "is what a recording that was killed has saved",
                    path=str(part),
                    hint=f"rename it, or --force removes it and writes {path.name}",
                )
            part.unlink(missing_ok=True)


def _has_epochs(part: Path) -> bool:
    """Whether an epoch's block begins in a file."""
    with part.open("rb") as file:
        return any(kind == EPOCH for kind, _ in _blocks(file))


def _blocks(file: IO[bytes]) -> Iterator[tuple[int, int]]:
    """Each block's kind, and where it begins, by the headers alone; up to what is no block."""
    at = _HEAD.size
    while True:
        file.seek(at)
        head = file.read(_BLOCK.size)
        if len(head) < _BLOCK.size:
            return
        magic, _, kind, compressed, _, _ = _BLOCK.unpack(head)
        if magic != _SKIPPABLE:
            return
        yield kind, at
        at += _BLOCK.size + compressed


def _expands(compressed: int, raw: int) -> bool:
    """Whether a block makes more than a reader takes for so few bytes."""
    return raw > max(EXPANDED, MOST_EXPANDED * compressed)


class TksWriter:
    """Writes ``path`` under ``NAME.<random>.part``; `close` renames it, so that a file is whole or
    absent.  The head stands there at once, each epoch with `flush`: what a kill leaves is readable.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        arch: str,
        meta: Mapping[str, Any],
        level: int = 3,
        force: bool = False,
    ) -> None:
        self.path = Path(path)
        self._zstd = zstandard.ZstdCompressor(
            level=level, write_checksum=True, write_content_size=True
        )
        self._file: OutputFile | None = OutputFile(self.path, force=force, name=_part_name)
        _collect_parts(self.path, force)
        self._flushed = 0
        """Bytes up to the last `flush` with an epoch in front of it."""
        self._epochs = False
        try:
            self._write(_HEAD.pack(_SKIPPABLE, 16, _NAME, VERSION, _ARCHS.index(arch), 0))
            self.text(META, meta)
            self.flush()
        except BaseException:
            self.discard()
            raise

    def _write(self, data: bytes) -> None:
        if self._file is None:
            raise TracekitError("the recording is closed", path=str(self.path))
        try:
            self._file.write(data)
        except TracekitError as e:
            raise self._kept(e) from None

    def _kept(self, error: TracekitError) -> TracekitError:
        """The error of a full disk; the epochs that were flushed stay, and it says where."""
        if self._file is None or not self._flushed:
            return error
        part, self._file = self._file.keep(self._flushed), None
        return TracekitError(error.message, path=error.path, hint=f"all epochs so far: {part}")

    def block(self, payload: bytes) -> None:
        """A payload as csrc/formats/tks/tks.hpp encodes it; an empty one is nothing."""
        if not payload:
            return
        if len(payload) > MAX_BLOCK:
            raise TracekitError("an epoch of over 1 GiB", hint="record shorter epochs")
        self._epochs |= payload[0] == EPOCH
        frame = self._zstd.compress(payload)
        if _expands(len(frame), len(payload)):  # no reader would take it
            raise TracekitError(
                f"an epoch of {len(payload)} bytes, which are {len(frame)} compressed",
                hint="record shorter epochs",
            )
        self._write(_BLOCK.pack(_SKIPPABLE, 16, payload[0], len(frame), len(payload), 0))
        self._write(frame)

    def text(self, kind: int, content: Mapping[str, Any]) -> None:
        """Write a block that holds JSON."""
        self.block(tks_text_block(kind, json.dumps(content)))

    def flush(self) -> None:
        """What is written so far is readable under the temporary name."""
        if self._file is not None:
            try:
                self._file.flush()
            except TracekitError as e:
                raise self._kept(e) from None
            if self._epochs:
                self._flushed = self._file.offset

    def close(self, totals: Mapping[str, Any]) -> None:
        """Write the last block, and give the file its name."""
        self.text(END, totals)
        if self._file is None:
            return
        try:
            self._file.commit()
        except TracekitError as e:
            raise self._kept(e) from None
        self._file = None

    def discard(self) -> None:
        """Leaves nothing behind."""
        if self._file is not None:
            self._file.discard()
            self._file = None

    def __enter__(self) -> TksWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self.discard()


class _CutShortError(FormatError):
    """The file ends inside a block."""


class TksReader:
    """Reads a recording once, from front to back.

    ``table`` has the machine code met so far (an epoch's comes before it), ``meta`` how it was
    made,
    ``totals`` what its end says (None: not reached, or cut short), ``maps`` the executable memory
    of each process met so far, the newest last, ``image`` the addresses of the program's file where
    it tells all memory that one program has used.  Raises `FormatError` for damage.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = public_name(path)
        self.table = EncodingTable()
        self.totals: Mapping[str, Any] | None = None
        self.maps: dict[int, list[Mapped]] = {}
        self.image: tuple[int, int] | None = None
        self.map_versions: dict[int, int] = {}  # how often a process's maps have changed
        self._decoder = TksDecoder(self.table)
        self._zstd = zstandard.ZstdDecompressor(max_window_size=MAX_BLOCK)
        self._file = open_file(path)
        head = self._file.read(_HEAD.size)
        if not is_tks(head) or len(head) < _HEAD.size:
            self._file.close()
            raise FormatError("not a recording (.tks)", path=self.path)
        version, arch = _HEAD.unpack(head)[3:5]
        if version != VERSION or arch >= len(_ARCHS):
            self._file.close()
            raise FormatError(
                f"a recording of version {version}", path=self.path, hint="update tracekit"
            )
        self.arch: str = _ARCHS[arch]
        try:
            first = self._next()
            if first != META:
                raise FormatError("the first block is not the header", path=self.path)
            self.meta: Mapping[str, Any] = self._json()
        except BaseException:
            self._file.close()
            raise

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def __enter__(self) -> TksReader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def epochs(self) -> Iterator[Epoch]:
        """Epoch after epoch.  A file that ends without its end block, or inside a block, is told by
        ``totals`` staying None.
        """
        while (kind := self._next_whole()) is not None:
            if kind == EPOCH:
                yield Epoch(self._decoder.info, self._decoder.take())
            elif kind == MAPS:
                self._keep_maps(self._json())
            elif kind == END:
                self.totals = self._json()

    def read_end(self) -> None:
        """What the end says, in ``totals``, and no epoch is decoded for it; None of a file that was
        cut short."""
        for at in [at for kind, at in _blocks(self._file) if kind == END]:
            self._file.seek(at)
            if self._next_whole() == END:
                self.totals = self._json()

    def _keep_maps(self, block: Mapping[str, Any]) -> None:
        pid = block.get("pid")
        if not isinstance(pid, int):
            raise FormatError("a list of mapped files of no process", path=self.path)
        newest = parse_maps(block.get("maps"), self.path)
        before = set(newest)
        self.map_versions[pid] = self.map_versions.get(pid, 0) + 1
        self.maps[pid] = [m for m in self.maps.get(pid, []) if m not in before] + newest
        image = parse_image(block.get("image"), self.path)
        self.image = image if len(self.maps) == 1 else None

    def _json(self) -> Mapping[str, Any]:
        text = self._decoder.text
        try:
            value = json.loads(text) if len(text) <= MAX_TEXT else None
        except (ValueError, RecursionError):
            value = None
        if not isinstance(value, dict):
            raise FormatError("a damaged text block", path=self.path)
        return value

    def _next_whole(self) -> int | None:
        """`_next`; a last block that is not whole is none."""
        try:
            return self._next()
        except _CutShortError:
            return None

    def _next(self) -> int | None:
        """The kind of the next block, decoded; None at the end."""
        at = self._file.tell()
        head = self._file.read(_BLOCK.size)
        if not head:
            return None
        try:
            if len(head) < _BLOCK.size:
                raise _CutShortError("cut short inside a block's header")
            magic, size, kind, compressed, raw, _ = _BLOCK.unpack(head)
            if magic != _SKIPPABLE or size != 16:
                raise FormatError("no block where one should begin")
            if raw > MAX_BLOCK or compressed > MAX_COMPRESSED:
                raise FormatError("a block's header claims over 1 GiB")
            if _expands(compressed, raw):
                raise FormatError(f"a block of over {EXPANDED >> 20} MiB from few bytes")
            frame = self._file.read(compressed)
            if len(frame) < compressed:
                raise _CutShortError("cut short inside a block")
            try:
                if zstandard.frame_content_size(frame) != raw:
                    raise FormatError("a block's size differs from its header's")
                payload = self._zstd.decompress(frame, max_output_size=raw)
            except zstandard.ZstdError as e:
                raise FormatError(f"a damaged block: {e}") from None
            if payload[:1] != bytes([kind]) or len(payload) != raw:
                raise FormatError("a block's content differs from its header")
            return int(self._decoder.block(payload))
        except FormatError as e:
            inside = f", byte {e.offset} of its content" if e.offset is not None else ""
            raise type(e)(e.message + inside, path=self.path, offset=at, hint=e.hint) from None


def summary(path: str | Path) -> dict[str, Any]:
    """What a recording holds, for `tracekit info`: plain numbers and strings, ready for JSON.

    ``lengths`` are the epochs' numbers of instructions (quantiles); ``reasons`` say why epochs
    ended, with system calls by name; ``pause_ms`` is what the program felt of each epoch.
    """
    from tracekit.inputs.syscalls import name as syscall_name

    lengths: list[int] = []
    pauses: list[float] = []
    alive: list[float] = []
    reasons: Counter[str] = Counter()
    accesses = stores = restarts = steps = cpu_ns = unrecorded = faults = in_place = 0
    threads: Counter[str] = Counter()
    with TksReader(path) as reader:
        for e in reader.epochs():
            info = e.info
            lengths.append(len(e.rows))
            pauses.append(info["pause_ns"] / 1e6)
            alive.append(info["step_ns"] / 1e9)
            threads[f"{info['pid']}/{info['tid']}"] += 1
            why = e.reason
            if why == "system_call":
                why += f":{syscall_name(info['detail'])}"
            elif why == "signal":
                why += f":{info['detail']}"
            reasons[why] += 1
            accesses += len(e.rows.address)
            stores += int(np.count_nonzero(e.rows.is_store))
            restarts += int(np.count_nonzero(e.rows.bits & 4))
            steps += info["steps"]
            cpu_ns += info["cpu_ns"]
            unrecorded += info["unrecorded"]
            faults += info["faults"]
            in_place += info["in_place"]
        meta, totals, arch = reader.meta, reader.totals, reader.arch
        encodings = len(reader.table)
    return {
        "format": "tks",
        "version": VERSION,
        "arch": arch,
        "command": meta.get("command"),
        "engine": _engine(meta),
        "epochs": len(lengths),
        "in_place_epochs": in_place,
        "threads": dict(threads),
        "instructions": sum(lengths),
        "static_instructions": encodings,
        "accesses": accesses,
        "stores": stores,
        "discontinuities": restarts,
        "unrecorded_accesses": unrecorded,
        "lengths": _quantiles(lengths),
        "reasons": dict(reasons.most_common()),
        "pause_ms": _quantiles(pauses),
        "copy_alive_s": _quantiles(alive),
        "page_faults_meanwhile": faults,
        "us_a_step": round(sum(alive) * 1e6 / steps, 2) if steps else None,
        "cpu_s": round(cpu_ns / 1e9, 3),
        "complete": totals is not None,
        "totals": totals,
    }


def _engine(meta: Mapping[str, Any]) -> str:
    """What recorded it: "steps" or "qemu"."""
    engine = meta.get("engine")
    return str(engine.get("name", "steps")) if isinstance(engine, dict) else "steps"


def _quantiles(values: list[Any]) -> dict[str, float] | None:
    if not values:
        return None
    q = np.quantile(np.asarray(values, np.float64), [0, 0.1, 0.5, 0.9, 1])
    return {
        k: round(float(v), 3)
        for k, v in zip(("min", "p10", "median", "p90", "max"), q, strict=True)
    }


def _counts(s: Mapping[str, Any], key: str) -> dict[str, Any]:
    """An object of the totals; empty where the file has none."""
    found = (s["totals"] or {}).get(key)
    return found if isinstance(found, dict) else {}


def _left_out(s: Mapping[str, Any]) -> str:
    """Why accesses are missing: each engine has a reason of its own."""
    n = s["unrecorded_accesses"]
    if s["engine"] != "qemu":
        return f"left out (over the limit of an epoch): {counted(n, 'access', 'accesses')}"
    # Of a recording that was cut short nobody knows which instructions they were of.
    runs = ", ".join(f"{k} x {shown(name)}" for name, k in _counts(s, "silent").items())
    return (
        f"the accesses of {runs or counted(n, 'instruction')} are missing: QEMU does not show them"
    )


def format_summary(s: Mapping[str, Any]) -> str:
    """The text that `tracekit info` prints."""

    def spread(q: Mapping[str, float] | None, unit: str = "") -> str:
        if q is None:
            return "none"
        return " ".join(f"{k} {v:g}" for k, v in q.items()) + unit

    command = shown(" ".join(map(str, s["command"] or ["?"])))
    by = "" if s["engine"] == "steps" else " under QEMU"
    lines = [
        f"recording of {s['arch']} instructions{by}: {command}",
        f"{counted(s['epochs'], 'epoch')} of {counted(len(s['threads']), 'thread')}, "
        f"{counted(s['instructions'], 'instruction')} ({s['static_instructions']:,} static), "
        f"{counted(s['accesses'], 'access', 'accesses')} "
        f"({counted(s['stores'], 'store')})",
        f"instructions of an epoch: {spread(s['lengths'])}",
    ]
    if s["engine"] == "steps":
        lines += [
            "why epochs ended: "
            + (", ".join(f"{shown(k)} {v}" for k, v in s["reasons"].items()) or "none"),
            f"pause of the program: {spread(s['pause_ms'], ' ms')}",
            f"life of a copy: {spread(s['copy_alive_s'], ' s')}; {s['us_a_step']} µs a step",
            f"page faults of the program meanwhile: {s['page_faults_meanwhile']}; "
            f"processor time of recorder and copies: {s['cpu_s']} s",
        ]
        if s["in_place_epochs"]:
            lines.append(f"stepped in the program itself: {counted(s['in_place_epochs'], 'epoch')}")
    if s["unrecorded_accesses"]:
        lines.append(_left_out(s))
    if s["engine"] == "qemu":
        anomalies = _counts(s, "anomalies")
        lines += [f"{n} x {shown(kind)}" for kind, n in anomalies.items()]
    if not s["complete"]:
        lines.append("the recording was cut short: its end is missing")
    return "\n".join(lines)
