"""Extraction: one visible loop, read -> parse -> commit order -> features -> write."""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from tracekit.cpus import available_cores
from tracekit.errors import FormatError, UsageError
from tracekit.extraction.described import described
from tracekit.extraction.output_stream import OutputStream, with_name
from tracekit.extraction_types import HARMLESS, ExtractedFile, ExtractionResult, Options
from tracekit.inputs import Source, recognise
from tracekit.inputs.ahead import Ahead
from tracekit.inputs.base import HEAD, is_dense
from tracekit.inputs.blocks import Input
from tracekit.inputs.damaged_names import FEW_ROWS, damaged_name_of
from tracekit.inputs.perfvec_authors import store_path
from tracekit.inputs.pulled import Pulled
from tracekit.inputs.pulled_inputs import open_feats, open_pulled
from tracekit.io.output import check_apart, check_output
from tracekit.io.remote import public_name
from tracekit.pipeline import overlap
from tracekit.progress import Progress
from tracekit.store import statics
from tracekit.store.debug_flags import missing_debug_flags
from tracekit.text import counted

T = TypeVar("T")


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
        self,
        path: str | os.PathLike[str] | Pulled,
        output: str | os.PathLike[str],
        options: Options,
        called: str | None = None,
    ):
        """``called``: what the file's records and messages call the input, unless its path."""
        self._o, self._output = options, Path(output)
        if options.binary is not None:  # told now rather than behind hours of trace
            from tracekit.isa.elf import ElfImage

            ElfImage(options.binary).close()
        self._input: Input | Pulled
        if isinstance(path, Pulled):  # a program that runs
            check_output(self._output, options.force)
            self._input = path
        else:
            check_output(self._output, options.force, os.fspath(path))
            self._input = (
                open_feats(path)
                or open_pulled(path, options.threads)
                or Input(path, sha256=options.sha256)
            )
            self._check_apart(self._output)
            if options.isa is not None and isinstance(self._input, Pulled):
                raise UsageError(f"isa: {self._input.name} is no QEMU execlog")
            if options.threads != "separate" and not getattr(self._input, "native", False):
                raise UsageError(
                    f"threads: {self._input.name} is one stream; drmemtrace folders and recordings "
                    "have several"
                )
        if called is not None:
            self._input.name = called
        self._level = options.level  # "auto" until the source is known
        self._streams: dict[int, OutputStream] = {}
        # Rows of streams after the first that are still few, and of damaged names.
        self._held: dict[int, tuple[str, list[Any]]] = {}
        self._damaged = 0
        self._missing: dict[str, None] = {}  # debug flags of any output
        self._tick_unit: int | None = None  # of an output whose clock has another period
        self._fed = 0  # decompressed bytes that were parsed
        self._source: Source | Pulled | None = None
        #: Each file that was written in numbers, where the options ask for ``statistics``.
        self.described: list[dict[str, Any]] = []

    def _check_apart(self, output: Path) -> None:
        """Raises TracekitError where an output would replace a file beside the one that is named:
        the authors' second one, or one in a folder that is read."""
        read = [store_path(self._input.path)]
        if isinstance(self._input, Pulled) and Path(self._input.path).is_dir():
            read = [*Path(self._input.path).rglob("*")]
        for path in read:
            if path is not None and path.is_file():
                check_apart(output, path)

    @property
    def size(self) -> int | None:
        """Bytes of the input on the disk; None of a pipe."""
        return self._input.size

    def run(self, progress: Progress | None = None) -> ExtractionResult:
        """Read the whole input and write the files; nothing is left behind where that fails."""
        with contextlib.ExitStack() as cleanup:
            cleanup.enter_context(self._input)
            cleanup.callback(self._discard)
            # Closed, and its threads at rest, before what they fill is written.
            with contextlib.closing(self._rows()) as batches:
                for rows in batches:
                    for number, name, batch in rows:
                        self._add(number, name, batch)
                    if progress:
                        written = sum(s.writer.rows for s in self._streams.values())
                        progress.update(self._consumed(), counted(written, "row"))
                    if self._has_all():
                        break
            return self._finish()

    def _has_all(self) -> bool:
        """Whether every stream has the rows that --count asks for: those met so far of a text, all
        of a folder with a file each."""
        if self._o.count is None or not self._streams:
            return False
        last = (self._o.start or 0) + self._o.count
        held = {i for i, (_, batches) in self._held.items() if sum(map(len, batches)) >= last}
        done = held | {i for i, s in self._streams.items() if s.done}
        expected = 1
        if isinstance(self._input, Pulled):
            self._input.enough |= done
            expected = self._input.streams if self._o.cpu is None else 1
        return len(done) >= expected and all(s.done for s in self._streams.values())

    def _consumed(self) -> int:
        """Bytes of the input whose rows came here, or are about to."""
        if isinstance(self._input, Input):
            return self._input.consumed(self._fed)
        return self._input.position

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
        self._choose_level(folder)
        if self._o.gem5_operands:
            self._use_gem5_operands(folder)
        if self._o.cpu is not None:  # of a folder with a file each, the others are not read
            folder.enough |= {i for i, name in enumerate(folder.cpus()) if name != self._o.cpu}
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
            if self._o.isa is not None and source.stats().get("format") != "execlog":
                raise UsageError(f"isa: {self._input.name} is no QEMU execlog")
            self._choose_level(source)
            if self._o.gem5_operands:
                self._use_gem5_operands(source)
            for block in itertools.chain((head,), blocks):
                for piece in _pieces(block, getattr(source, "piece", None)):
                    source.feed(piece)
                    # At once, however small: --count ends a pipe that then falls silent.
                    yield self._taken(source)
                self._fed += len(block)
                whole.recycle(block)
            source.finish()
            yield self._taken(source)

    def _choose_level(self, source: Any) -> None:
        native = getattr(source, "native", False)
        if self._o.level == "auto":
            self._level = "macro" if native else "micro"
        elif self._o.level == "micro" and native:
            raise UsageError(
                f"{self._input.name} holds a real machine's instructions, which have no micro-ops",
                hint="leave --level out, or --level macro",
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
        for kind, a in (self._counters() if self._source else source.counters()).items():
            if kind not in HARMLESS:
                raise FormatError(
                    f"{a['count']} x {kind.replace('_', ' ')} (--strict)",
                    path=self._input.name,
                    offset=a.get("first_offset"),
                )

    def _add(self, number: int, name: str, batch: Any) -> None:
        if self._streams and number not in self._streams:
            _, batches = self._held.setdefault(number, (name, []))
            batches.append(batch)
            if sum(map(len, batches)) > FEW_ROWS:
                self._release(number)
        else:
            self._stream(number, name).add(batch)

    def _release(self, number: int) -> None:
        name, batches = self._held.pop(number)
        stream = self._stream(number, name)
        for batch in batches:
            stream.add(batch)

    def _drop_damaged(self) -> None:
        """A CPU's name that is damaged in a line or two is no other CPU: those lines are counted,
        and the output that was asked for keeps its name."""
        counts = {s.name: s.seen for s in self._streams.values()}
        for number, (name, batches) in list(self._held.items()):
            rows = sum(map(len, batches))
            if damaged_name_of(name, rows, counts) is None:
                self._release(number)
            else:
                self._damaged += rows
                del self._held[number]
        counts = {s.name: s.seen for s in self._streams.values()}
        for number, s in list(self._streams.items()):
            others = {n: c for n, c in counts.items() if n != s.name}
            if damaged_name_of(s.name, counts[s.name], others) is not None:
                self._damaged += counts[s.name]
                s.writer.discard()
                del self._streams[number]

    def _counters(self) -> dict[str, dict[str, int]]:
        """The source's anomalies, and the rows of damaged names."""
        assert self._source is not None
        found = self._source.counters()
        if self._damaged:
            one = found.setdefault("damaged_cpu_name", {"count": 0})
            one["count"] += self._damaged
        return found

    def _stream(self, number: int, name: str) -> OutputStream:
        if number not in self._streams:
            self._streams[number] = OutputStream(number, name, self._output, self._level, self._o)
            if len(self._streams) > 1:  # each gets a file of its own name: told now, not at the end
                paths = [with_name(self._output, s.name) for s in self._streams.values()]
                if paths.count(paths[-1]) > 1:
                    raise UsageError(f"two CPUs would have the output {paths[-1]}", hint="--cpu")
                for path in paths:
                    check_output(path, self._o.force, self._input.path)
                    self._check_apart(path)
        return self._streams[number]

    def _finish(self) -> ExtractionResult:
        source = self._source
        assert source is not None
        self._drop_damaged()
        if self._o.strict:
            self._check_strict(source)
        for s in self._streams.values():
            s.finish()
        written = [s for s in self._streams.values() if s.writer.rows]
        anomalies, stats = self._counters(), source.stats()
        if self._o.start or self._o.count is not None or not stats.get("blocks", 1):
            stats.pop("squashed", None)  # no row is one: which of them belong to a part is not told
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
        outputs: list[ExtractedFile] = []
        several = len(written) > 1 or (self._o.cpu is not None and len(source.cpus()) > 1)
        for s in written:
            path = with_name(self._output, s.name) if len(written) > 1 else self._output
            own = self._own_stats(s, stats) if several else stats
            outputs.append(self._write_index(s, path, anomalies, own))
        if len(written) == 1:
            stats = own
        if self._missing:
            stats = {**stats, "missing_debug_flags": [*self._missing]}
        if self._tick_unit:
            stats = {**stats, "tick_unit": self._tick_unit}
        return ExtractionResult(outputs, anomalies, stats, self._input.provenance())

    def _own_stats(self, s: OutputStream, stats: dict[str, Any]) -> dict[str, Any]:
        """What of the numbers is one CPU's alone.  O3PipeView blocks name no CPU: one that no
        Exec line belongs to, squashed, is anybody's, so that their number is the text's."""
        if not hasattr(self._source, "cpu_stats"):
            return stats
        assert self._source is not None
        own = self._source.cpu_stats(s.number)
        return {
            **{k: v for k, v in stats.items() if k not in own and k != "squashed"},
            **own,
            "all_cpus": stats,
        }

    def _write_index(
        self, s: OutputStream, path: Path, anomalies: dict[str, Any], stats: dict[str, Any]
    ) -> ExtractedFile:
        assert self._source is not None
        micro = self._source.table(s.number)
        table = s.stage.macro_table(micro) or micro
        hot, counts = s.stage.hot(), s.stage.counts()
        used = int(np.flatnonzero(counts)[-1]) + 1  # with --count the parser may have gone further
        columns, hot = ({k: v[:used] for k, v in d.items()} for d in (table.columns(), hot))
        binary = self._apply_binary(columns)
        t = statics.from_core(columns, hot, counts[:used])
        missing = missing_debug_flags(stats, t, s.stage.bit_counts()[0])
        self._missing |= dict.fromkeys(missing)
        if missing:
            stats = {**stats, "missing_debug_flags": missing}
        o, unit = self._o, s.writer.tick_unit
        if o.clock_ps and unit and unit % o.clock_ps:
            self._tick_unit = unit
            stats = {**stats, "tick_unit": unit}
        s.writer.finish(
            t,
            {
                "arch": self._source.arch(),
                "cpu": s.name,
                "level": self._level,
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
        found = ExtractedFile(public_name(path), s.name, s.writer.rows, s.writer.bytes_written)
        if o.statistics:
            source = {"level": self._level, "arch": self._source.arch(), "anomalies": anomalies}
            self.described.append(described(s, found, t, source, o.clock_ps))
        return found

    def _apply_binary(self, columns: dict[str, Any]) -> dict[str, Any] | None:
        if self._o.binary is None:
            return None
        from tracekit.isa.overlay import overlay

        assert self._source is not None
        macro = self._level == "macro"
        return overlay(columns, self._o.binary, self._source.arch(), macro=macro)

    def _discard(self) -> None:
        for s in self._streams.values():
            s.writer.discard()
