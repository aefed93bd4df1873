"""A trace on real processors, and on both kinds of machines at once."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from tracekit import _core
from tracekit.cpus import thread_count
from tracekit.errors import UsageError
from tracekit.hardware.instruction_table import InstructionTable, Measured
from tracekit.hardware.machine import HardwareMachine, is_hardware_file, is_hardware_name
from tracekit.hardware.static_ops import check_statics, core_ops, parameter_row, schedulers_of
from tracekit.progress import Progress
from tracekit.sim import Machine, SimulationResult, machine_list, result_of
from tracekit.sim import simulate as simulate_gem5
from tracekit.store.reader import TraceFile

__all__ = ["AnyMachineLike", "any_machine", "hardware_cores", "simulate", "simulate_hardware"]

F32 = npt.NDArray[np.float32]
BLOCK = 1 << 15
#: What names or describes a machine of either kind: itself, a known name, or a file.
AnyMachineLike: TypeAlias = "Machine | HardwareMachine | str | os.PathLike[str]"


def any_machine(what: AnyMachineLike) -> Machine | HardwareMachine:
    """The machine of either kind that ``what`` is, names, or has the file of."""
    if isinstance(what, Machine | HardwareMachine):
        return what
    if is_hardware_name(what) or is_hardware_file(what):
        return HardwareMachine.load(what)
    return Machine.load(what)


def hardware_cores(
    trace: TraceFile, machines: Sequence[HardwareMachine]
) -> list[_core.HardwareCore]:
    """A cold core of each machine for this trace.

    Raises `UsageError` where the trace has no machine code or is of another instruction set.
    """
    out = []
    for m in machines:
        check_statics(trace, m)
        table = InstructionTable.load(m.table).override(_measured(m))
        ops = core_ops(trace.statics, table.rows(trace.statics, m.isa), m.isa)
        out.append(_core.HardwareCore(ops, parameter_row(m), schedulers_of(m, table.ports)))
    return out


def form_notes(trace: TraceFile, machines: Sequence[object]) -> list[str]:
    """A line for each real machine whose table has not all forms of this trace's instructions."""
    notes = []
    for m in machines:
        if isinstance(m, HardwareMachine):
            table = InstructionTable.load(m.table).override(_measured(m))
            if told := table.coverage(trace.statics, m.isa).told(m.table):
                notes.append(f"{m.name}: {told}")
    return notes


def _measured(machine: HardwareMachine) -> dict[str, Measured]:
    return {
        form: Measured(m.get("latency"), m.get("throughput"))
        for form, m in machine.measured.items()
    }


def walk_hardware(
    trace: TraceFile, machines: Sequence[HardwareMachine], threads: int | None = None
) -> Iterator[tuple[int, F32]]:
    """The first row of each block, and its cycles: float32 [rows, machines]."""
    cores = hardware_cores(trace, machines)
    factors = np.array([m.factor for m in machines], np.float32)
    n = len(trace)
    workers = min(len(cores), thread_count(threads))
    with ThreadPoolExecutor(workers) as pool:
        for begin in range(0, n, BLOCK):
            end = min(begin + BLOCK, n)
            ids = trace.column("static_id", (begin, min(end + 1, n)))
            addr = trace.column("addr", (begin, end))
            bits = trace.column("bits", (begin, end))
            following = int(ids[-1])
            ids = np.ascontiguousarray(ids[: end - begin], np.uint32)

            def one(
                core: Any,
                ids: Any = ids,
                addr: Any = addr,
                bits: Any = bits,
                next_: int = following,
            ) -> Any:
                return core.run(ids, addr, bits, next_)

            yield begin, np.stack(list(pool.map(one, cores)), axis=1) * factors


def simulate_hardware(
    trace: TraceFile,
    machines: Sequence[HardwareMachine],
    *,
    ranges: int | Sequence[int] | None = None,
    rows: bool = False,
    output: str | os.PathLike[str] | None = None,
    force: bool = False,
    threads: int | None = None,
    quiet: bool = True,
) -> SimulationResult:
    """`tracekit.simulate` on real processors alone; docs/hardware.md says what they model.

    ``ranges``, ``rows``, ``output``, ``force``, ``threads``, ``quiet``: as there.  Caches,
    predictors and queues are cold at the first row and go on from range to range.
    """
    chosen = tuple(machines)
    blocks = _blocks(trace, chosen, threads, quiet)
    return result_of(trace, chosen, blocks, ranges, rows, output, force)


def _blocks(
    trace: TraceFile, machines: Sequence[HardwareMachine], threads: int | None, quiet: bool
) -> Iterator[tuple[int, F32]]:
    with Progress(Path(trace.path).name, len(trace), quiet=quiet) as progress:
        for begin, cycles in walk_hardware(trace, machines, threads):
            yield begin, cycles
            progress.update(begin + len(cycles))


def simulate(
    trace: TraceFile | str | os.PathLike[str],
    machines: AnyMachineLike | Sequence[AnyMachineLike] | None = None,
    *,
    ranges: int | Sequence[int] | None = None,
    rows: bool = False,
    causes: bool = False,
    output: str | os.PathLike[str] | None = None,
    force: bool = False,
    threads: int | None = None,
    quiet: bool = True,
) -> SimulationResult:
    """Simulate a trace on machines, from cold caches and predictors.

    The simulator follows the trace's committed instructions through a model of gem5's O3 or Minor
    CPU with its caches and memory, or through one of a real processor; nothing in it is fitted to
    times, but for the one factor of a machine that ``tracekit validate --fit`` wrote.  Wrong-path
    instructions, the operating system's own work and other cores are not modelled.

    trace: a feats.zst, open or by its path; real processors need one with machine code, as
        recordings have it.
    machines: one or several, each a `Machine` or a `HardwareMachine`, a name that
        `tracekit.machines` or `tracekit.hardware.hardware_machines` has, or a file; unless given
        the one that the trace was made on, which traces of the gem5 plug-in tell.
    ranges: times of parts of the trace, too: a number of equal ranges, or the increasing rows at
        which ranges begin, the first of which is 0.
    rows: keep the cycles of every row, 4 bytes x rows x machines of memory.
    causes: say what the cycles were spent on (docs/causes.md), in a second walk of the trace; of
        gem5's machines.
    output: write them to this .npy file instead, float32 [rows, machines]; ``force`` replaces one
        that exists.
    threads: of the processor; all that may be used unless given.
    quiet: show no progress on standard error.

    Raises `UsageError` for machines or ranges that are none, for a trace that a machine cannot run,
    and for a file that exists; `FormatError` for a damaged trace.

    >>> import tracekit
    >>> result = tracekit.simulate("feats.zst", ["u007", "o3_small"])
    >>> result
    feats.zst: 6,134 rows on 2 machines; the fastest is u007, 16.5 us
    >>> result.cycles.shape
    (2,)
    """
    chosen = None if machines is None else _chosen(machines)
    real = [m for m in chosen or () if isinstance(m, HardwareMachine)]
    other = [m for m in chosen or () if isinstance(m, Machine)]
    if chosen is None or not real:
        return simulate_gem5(
            trace,
            None if machines is None else other,
            ranges=ranges,
            rows=rows,
            causes=causes,
            output=output,
            force=force,
            threads=threads,
            quiet=quiet,
        )
    if causes:
        raise UsageError(
            f"what cycles were spent on is told of gem5's machines; {real[0].name} is a real one"
        )
    if other and output is not None:
        raise UsageError("rows' cycles of gem5's machines and of real ones: a file for each kind")
    with contextlib.ExitStack() as stack:
        if not isinstance(trace, TraceFile):
            trace = stack.enter_context(TraceFile(trace))
        options: Any = {"ranges": ranges, "rows": rows, "threads": threads, "quiet": quiet}
        found = simulate_hardware(trace, real, output=output, force=force, **options)
        return _joined(chosen, found, simulate_gem5(trace, other, **options)) if other else found


def _chosen(
    machines: AnyMachineLike | Sequence[AnyMachineLike],
) -> list[Machine | HardwareMachine]:
    return [any_machine(m) for m in machine_list(machines, (Machine, HardwareMachine))]


def _joined(
    chosen: Sequence[Machine | HardwareMachine], real: SimulationResult, gem5: SimulationResult
) -> SimulationResult:
    """Both results as one, the machines in the order in which they were named."""
    places: list[int] = []
    count = {True: 0, False: 0}
    for m in chosen:
        kind = isinstance(m, HardwareMachine)
        places.append(count[kind] + (0 if kind else len(real.machines)))
        count[kind] += 1
    kept = None
    if real.cycles_by_row is not None and gem5.cycles_by_row is not None:
        kept = np.concatenate([real.cycles_by_row, gem5.cycles_by_row], axis=1)[:, places]
    return SimulationResult(
        real.path,
        real.rows,
        real.instructions,
        tuple(chosen),
        np.concatenate([real.cycles, gem5.cycles])[places],
        real.breaks,
        np.concatenate([real.cycles_by_range, gem5.cycles_by_range], axis=1)[:, places],
        kept,
    )
