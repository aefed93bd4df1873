"""Extraction: one visible loop, read -> parse -> commit order -> features -> write."""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import sys
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np

from tracekit import _core
from tracekit._version import __version__
from tracekit.cores import available_cores
from tracekit.errors import FormatError, TracekitError, UsageError
from tracekit.io.ahead import Ahead
from tracekit.io.progress import Progress
from tracekit.io.source import STDIN, Input
from tracekit.io.stages import overlap
from tracekit.sources import Source, recognise
from tracekit.sources.base import HEAD, is_dense
from tracekit.store import statics
from tracekit.store.index import MAX_CHUNK_ROWS
from tracekit.store.writer import Writer, check_output
from tracekit.streams.source import Pulled, open_pulled

T = TypeVar("T")

CHUNK_ROWS = 1 << 16

#: Counted, but no damage.
HARMLESS = frozenset({"macro_op_line"})


@dataclass(frozen=True)
class Options:
    """How to extract; ``tracekit.extract`` documents each."""

    level: Literal["micro", "macro"] = "micro"
    cpu: str | None = None
    start: int = 0
    count: int | None = None
    cold: bool = False
    binary: str | None = None
    gem5_operands: bool = False
    history: int = 8
    line_bytes: int = 64
    clock_ps: int | None = None
    chunk_rows: int = CHUNK_ROWS
    force: bool = False
    strict: bool = False
    sha256: bool = False
    threads: Literal["separate", "interleaved"] = "separate"
    isa: str | None = None
    overlap: bool | None = None

    def __post_init__(self) -> None:
        if self.level not in ("micro", "macro"):
            raise UsageError(f"level: micro or macro, not {self.level!r}")
        if self.start < 0 or (self.count is not None and self.count < 1):
            raise UsageError("start: at least 0; count: at least 1")
        if (
            self.line_bytes < 1
            or self.line_bytes & (self.line_bytes - 1)
            or self.line_bytes > 1 << 20
        ):
            raise UsageError("line_bytes: a power of two up to 1048576")
        if not 1 <= self.history <= 24:
            raise UsageError("history: 1 to 24")
        if not 256 <= self.chunk_rows <= MAX_CHUNK_ROWS:
            raise UsageError(f"chunk_rows: 256 to {MAX_CHUNK_ROWS}")
        if self.clock_ps is not None and self.clock_ps < 1:
            raise UsageError("clock_ps: at least 1")

    @property
    def line_bits(self) -> int:
        return self.line_bytes.bit_length() - 1


@dataclass
class Output:
    """One file that was written."""

    path: str
    cpu: str
    rows: int
    bytes: int


@dataclass
class Result:
    """What an extraction did."""

    outputs: list[Output]
    anomalies: dict[str, dict[str, int]]
    stats: dict[str, Any]
    input: dict[str, Any] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        return sum(o.rows for o in self.outputs)


class _Stream:
    """One CPU's way from rows to a file."""

    def __init__(self, number: int, name: str, output: Path, options: Options) -> None:
        self.number, self.name = number, name
        self.stage = _core.FeatureStage(
            options.history,
            options.line_bits,
            options.level == "macro",
            unseen=options.start if options.cold else 0,
            skip=0 if options.cold else options.start,
            count=options.count,
            chunk_rows=options.chunk_rows,
        )
        head = {"tracekit": __version__}
        self.writer = Writer(output, head, force=options.force)

    @property
    def done(self) -> bool:
        return self.stage.done

    def add(self, rows: Any) -> None:
        while self.stage.add(rows):
            self.writer.chunk(self.stage.chunk())

    def finish(self) -> None:
        if not self.done:
            while self.stage.finish():
                self.writer.chunk(self.stage.chunk())


def _with_name(output: Path, cpu: str) -> Path:
    """feats.zst -> feats.system.cpu0.zst.  A name comes from the trace: it must not lead
    elsewhere."""
    return output.with_name(
        f"{output.stem}.{re.sub(r'[^A-Za-z0-9_.-]', '_', cpu)[:100]}{output.suffix}"
    )


def _pieces(block: bytes | memoryview, size: int | None) -> Iterator[bytes | memoryview]:
    """A block as it is, or in the sizes that a dense format asks for: the rows in a block of such
    a one are many times its bytes, and would leave the cache before they are used."""
    if size is None or len(block) <= size:
        yield block
        return
    view = memoryview(block)
    for at in range(0, len(view), size):
        yield view[at : at + size]


#: A CPU's number and name, and its rows.
_Taken = tuple[int, str, Any]


class Extraction:
    """One input on its way to one or more files."""

    def __init__(
        self, path: str | os.PathLike[str], output: str | os.PathLike[str], options: Options
    ):
        self._o, self._output = options, Path(output)
        if options.binary is not None:  # told now rather than behind hours of trace
            from tracekit.isa.elf import ElfImage

            ElfImage(options.binary).close()
        check_output(self._output, options.force, os.fspath(path))
        self._input: Input | Pulled = open_pulled(path, options.threads) or Input(
            path, sha256=options.sha256
        )
        self._streams: dict[int, _Stream] = {}
        self._source: Source | Pulled | None = None

    def run(self, progress: Progress | None = None) -> Result:
        with contextlib.ExitStack() as cleanup:
            cleanup.enter_context(self._input)
            cleanup.callback(self._discard)
            # Closed, and its threads at rest, before what they fill is written.
            with contextlib.closing(self._rows()) as batches:
                for rows in batches:
                    for number, name, batch in rows:
                        self._stream(number, name).add(batch)
                    if progress:
                        progress.update(
                            self._input.position, sum(s.writer.rows for s in self._streams.values())
                        )
                    if self._streams and all(s.done for s in self._streams.values()):
                        break
            return self._finish()

    def _rows(self) -> Generator[list[_Taken], None, None]:
        """Rows from stages in threads of their own, as far as there are cores for them: decompress
        | parse and order | what the caller does with the rows.  A plain file is read by whichever
        of the latter two has time; the rows of a dense format stay where they were read."""
        if isinstance(self._input, Input):
            whole = self._input
            blocks = iter(whole)
            first = next(blocks, b"")  # tells the compression

            def text() -> Generator[bytes | memoryview, None, None]:
                yield first
                yield from blocks

            packed = whole.compression is not None
            if is_dense(first) and self._o.overlap is None:
                yield from self._parsed(whole, self._stage(text, 2) if packed else text())
            elif packed:
                yield from self._stage(lambda: self._parsed(whole, self._stage(text, 2)), 3)
            elif whole.size is None:  # nobody but who parses it may wait for a pipe
                yield from self._stage(lambda: self._parsed(whole, text()), 2)
            else:
                ahead = Ahead(text())
                yield from self._stage(lambda: self._parsed(whole, iter(ahead)), 2, ahead.help)
        else:
            folder = self._input
            yield from self._stage(lambda: self._pulled(folder), 2)

    def _stage(
        self,
        make: Callable[[], Generator[T, None, None]],
        cores: int,
        meanwhile: Callable[[], bool] | None = None,
    ) -> Generator[T, None, None]:
        """``make()`` in a thread of its own where there are that many cores."""
        wanted = self._o.overlap
        if wanted if wanted is not None else available_cores() >= cores:
            return overlap(make, on_stop=self._input.stop, meanwhile=meanwhile)
        return make()

    def _pulled(self, folder: Pulled) -> Generator[list[_Taken], None, None]:
        self._source = folder
        self._check_level(folder)
        for rows in folder.batches():
            if self._o.strict:
                self._check_strict(folder)
            yield [r for r in rows if r[2] and self._o.cpu in (None, r[1])]

    def _parsed(
        self, whole: Input, blocks: Generator[bytes | memoryview, None, None]
    ) -> Generator[list[_Taken], None, None]:
        with contextlib.closing(blocks):
            head = b""
            for block in blocks:
                head += block
                if len(head) >= HEAD:
                    break
            source = self._source = recognise(head, self._input.name, self._o.isa)
            self._check_level(source)
            if self._o.gem5_operands:
                self._use_gem5_operands(source)
            for block in itertools.chain((head,), blocks):
                for piece in _pieces(block, getattr(source, "piece", None)):
                    source.feed(piece)
                    # At once, however small: --count ends a pipe that then falls silent.
                    yield self._taken(source)
                whole.recycle(block)
            source.finish()
            yield self._taken(source)

    def _check_level(self, source: Any) -> None:
        if self._o.level != "macro" and getattr(source, "native", False):
            raise UsageError(
                f"{self._input.name} holds a real machine's instructions, which have no micro-ops",
                hint="--level macro",
            )

    def _use_gem5_operands(self, source: Any) -> None:
        if not hasattr(source, "use_gem5_operands"):
            raise UsageError("gem5_operands: only traces of the gem5 plug-in (.tkt) have them")
        source.use_gem5_operands()

    def _taken(self, source: Source) -> list[_Taken]:
        if self._o.strict:
            self._check_strict(source)
        return [
            (i, name, rows)
            for i, name in enumerate(source.cpus())
            if (rows := source.take(i)) and self._o.cpu in (None, name)
        ]

    def _check_strict(self, source: Source | Pulled) -> None:
        for kind, a in source.counters().items():
            if kind not in HARMLESS:
                raise FormatError(
                    f"{a['count']} x {kind.replace('_', ' ')} (--strict)",
                    path=self._input.name,
                    offset=a["first_offset"] or None,
                )

    def _stream(self, number: int, name: str) -> _Stream:
        if number not in self._streams:
            self._streams[number] = _Stream(number, name, self._output, self._o)
            if (
                len(self._streams) > 1
            ):  # each gets a file of its own name: better told now than at the end
                paths = [_with_name(self._output, s.name) for s in self._streams.values()]
                if paths.count(paths[-1]) > 1:
                    raise UsageError(f"two CPUs would have the output {paths[-1]}", hint="--cpu")
                for path in paths:
                    check_output(path, self._o.force, self._input.path)
        return self._streams[number]

    def _finish(self) -> Result:
        source = self._source
        assert source is not None
        if self._o.strict:
            self._check_strict(source)
        for s in self._streams.values():
            s.finish()
        written = [s for s in self._streams.values() if s.writer.rows]
        anomalies, stats = source.counters(), source.stats()
        if not written:
            known = [n for n in source.cpus() if n]
            if self._o.cpu is not None and self._o.cpu not in known:
                raise UsageError(
                    f"no CPU {self._o.cpu!r} in {self._input.name}; there are {', '.join(known)}"
                )
            if self._o.cold or any(s.stage.skipped for s in self._streams.values()):
                raise UsageError(
                    f"{self._input.name} ends before row {self._o.start}", hint="--start"
                )
            raise FormatError(
                "no committed instruction found",
                path=self._input.name,
                hint=", ".join(f"{a['count']} x {k}" for k, a in anomalies.items()) or None,
            )
        outputs = []
        for s in written:
            path = _with_name(self._output, s.name) if len(written) > 1 else self._output
            outputs.append(self._write_index(s, path, anomalies, stats))
        return Result(outputs, anomalies, stats, self._input.provenance())

    def _write_index(
        self, s: _Stream, path: Path, anomalies: dict[str, Any], stats: dict[str, Any]
    ) -> Output:
        assert self._source is not None
        micro = self._source.table(s.number)
        table = s.stage.macro_table(micro) or micro
        hot, counts = s.stage.hot(), s.stage.counts()
        used = int(np.flatnonzero(counts)[-1]) + 1  # with --count the parser may have gone further
        columns, hot = ({k: v[:used] for k, v in d.items()} for d in (table.columns(), hot))
        binary = self._apply_binary(columns)
        t = statics.from_core(columns, hot, counts[:used])
        o = self._o
        s.writer.finish(
            t,
            {
                "arch": self._source.arch(),
                "cpu": s.name,
                "level": o.level,
                "options": {
                    "history": o.history,
                    "line_bits": o.line_bits,
                    "start": o.start,
                    "cold": o.cold,
                    "count": o.count,
                    "clock_ps": o.clock_ps,
                    "binary": o.binary,
                    "gem5_operands": o.gem5_operands,
                },
                "input": self._input.provenance(),
                "source": {**stats, "unfinished": s.stage.unfinished()},
                "anomalies": anomalies,
                "bits": s.stage.bit_counts(),
                **({"binary": binary} if binary else {}),
            },
            path,
        )
        return Output(str(path), s.name, s.writer.rows, s.writer.bytes_written)

    def _apply_binary(self, columns: dict[str, Any]) -> dict[str, Any] | None:
        if self._o.binary is None:
            return None
        from tracekit.isa.overlay import overlay

        assert self._source is not None
        macro = self._o.level == "macro"
        return overlay(columns, self._o.binary, self._source.arch(), macro=macro)

    def _discard(self) -> None:
        for s in self._streams.values():
            s.writer.discard()


def extract(
    input: str | os.PathLike[str],
    output: str | os.PathLike[str],
    *,
    quiet: bool = True,
    **options: Any,
) -> Result:
    """Extracts a trace to a feats.zst: the command ``tracekit extract`` as a function.

    ``input`` is a path or "-"; its format and compression are recognised by content.  Options:

    level: "micro" (a row is a micro-op) or "macro" (an instruction; features.md, "The macro
    level"). cpu: of a trace of several CPUs, the one to keep; else each gets a file of its own.
    start, count: rows to keep, counted at that level.  Features are those of the whole trace: rows
        before ``start`` warm the distances and histories up; the clock starts at the first row
        kept.  cold: they do not, and the features begin there as well.
    binary: the traced ELF file, whose machine code is decoded where gem5's text is ambiguous.
    gem5_operands: of a .tkt trace, gem5's own registers (its architectural indices) and access
    sizes
        instead of those that the disassembly tells, which are the same as from text.
    history: outcomes in the histories of the local and global branch entropy.
    line_bytes: size of a cache line.    clock_ps: the CPU's clock period, else found from the
    ticks. force: replace an existing output.    strict: damage is fatal.    sha256: hash the input
    so, too. threads: of a drmemtrace folder, each thread to a file of its own ("separate"), or
    "interleaved". isa: of a QEMU execlog: x86, arm or riscv; else found from the text.

    Raises TracekitError (FormatError, UsageError): with file and place; nothing is left behind.
    """
    try:
        o = Options(**options)
    except TypeError as e:
        raise UsageError(str(e).replace("Options.__init__()", "extract")) from None
    run = Extraction(input, output, o)
    label = "stdin" if os.fspath(input) == STDIN else Path(input).name
    progress = Progress(label, run._input.size, quiet=quiet)
    try:
        return run.run(progress)
    finally:
        progress.close()


def warn(result: Result) -> None:
    """Tells on stderr what was survived."""
    for kind, a in result.anomalies.items():
        if kind not in HARMLESS:
            where = f", the first at byte {a['first_offset']}" if a["first_offset"] else ""
            sys.stderr.write(f"tracekit: {a['count']} x {kind.replace('_', ' ')}{where}\n")


__all__ = ["Extraction", "Options", "Output", "Result", "TracekitError", "extract", "warn"]
