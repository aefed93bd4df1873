"""`tracekit.extract`: one input to feats.zst files."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

from tracekit.extraction.steps import Extraction
from tracekit.extraction_types import CHUNK_ROWS, ExtractionResult, Level, Options
from tracekit.inputs.blocks import STDIN
from tracekit.io.remote import public_name
from tracekit.progress import Progress

__all__ = ["extract"]


def extract(
    input: str | os.PathLike[str],
    output: str | os.PathLike[str],
    *,
    level: Level = "auto",
    cpu: str | None = None,
    start: int = 0,
    count: int | None = None,
    cold: bool = False,
    binary: str | os.PathLike[str] | None = None,
    gem5_operands: bool = False,
    history: int = 8,
    line_bytes: int = 64,
    clock_ps: int | None = None,
    chunk_rows: int = CHUNK_ROWS,
    force: bool = False,
    strict: bool = False,
    sha256: bool = False,
    verify: bool = False,
    threads: Literal["separate", "interleaved"] = "separate",
    isa: Literal["x86", "arm", "riscv"] | None = None,
    overlap: bool | None = None,
    quiet: bool = True,
) -> ExtractionResult:
    """Extract a trace to a feats.zst, as ``tracekit extract`` does.

    input: a path, or "-" for standard input; format and compression are recognised by content.
    output: the file to write.  A trace of several CPUs gives one file each, with the CPU's name in
        the file's.
    level: "micro" (a row is a micro-op) or "macro" (a row is an instruction); "auto": micro where
        the input has micro-ops.
    cpu: of a trace of several CPUs, the one to keep.
    start, count: rows to leave out and rows to keep, counted at that level.  Features are those of
        the whole trace: the rows before ``start`` warm distances and histories up; the clock starts
        at the first row kept.
    cold: they do not, and the features begin there as well.
    binary: the traced ELF file, whose machine code is decoded where gem5's text is ambiguous.
    gem5_operands: of a .tkt trace, gem5's own registers (its architectural indices) and access
        sizes instead of those that the disassembly tells, which are the same as from text.
    history: outcomes, from 1 to 24, in the histories of the local and global branch entropy.
    line_bytes: size of a cache line, a power of two.
    clock_ps: the CPU's clock period in picoseconds, else found from the ticks.
    chunk_rows: rows of a chunk of the file, which is what a reader decodes at once.
    force: replace an existing output.
    strict: damage in the trace is an error.
    sha256: hash the input with SHA-256, too.
    verify: the file is read back before it gets its name, and a hash of each column compared with
        that of the rows before they were encoded.
    threads: of a drmemtrace folder, each thread to a file of its own ("separate"), or all in the
        order of their timestamps ("interleaved").
    isa: of a QEMU execlog; else found from the text.
    overlap: read, parse and write in threads of their own; where there are processors for them
        unless given.
    quiet: show no progress on standard error.

    Raises `FormatError` with file and place for a damaged input, and `UsageError` for options that
    do not fit; nothing is left behind.  Sources: docs/features.md (features), docs/inputs.md
    (formats).

    >>> import tracekit
    >>> result = tracekit.extract("trace.out.xz", "lua.zst", count=1000)
    >>> result
    lua.zst: 1,000 rows
    """
    o = Options(
        level=level, cpu=cpu, start=start, count=count, cold=cold,
        binary=None if binary is None else os.fspath(binary), gem5_operands=gem5_operands,
        history=history, line_bytes=line_bytes, clock_ps=clock_ps, chunk_rows=chunk_rows,
        force=force, strict=strict, sha256=sha256, verify=verify, threads=threads, isa=isa,
        overlap=overlap,
    )  # fmt: skip
    run = Extraction(input, output, o)
    label = "stdin" if os.fspath(input) == STDIN else Path(public_name(input)).name
    with Progress(label, run.size, "B", quiet=quiet) as progress:
        return run.run(progress)
