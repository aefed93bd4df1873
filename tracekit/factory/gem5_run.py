"""One run of gem5: a program on a machine, or on the atomic CPU; its trace as features, or as the
cycles of each row once every row is that of the features."""

from __future__ import annotations

import io
import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import zstandard

from tracekit.dataset import first_difference
from tracekit.errors import TracekitError
from tracekit.extraction import Extraction
from tracekit.extraction_types import Options
from tracekit.io.output import linked_folder, scratch, write_bytes, write_json
from tracekit.plugin import plugin_folder
from tracekit.store.reader import TraceFile

__all__ = ["RunOptions", "functional_run", "timed_run"]

#: What tracekit_machine.py says of a simulation's end, and of a traced region that is complete.
_SAID, _COMPLETE = "tracekit_machine.py: ", "tracekit: the traced region is complete"
_EXITED = "exiting with last active thread context"
#: Bytes of gem5's output that are looked through for what it said last.
_TAIL = 1 << 16
#: What gem5's messages of its end begin with.
_FATAL = re.compile(
    r"(?:.*: )?(?:fatal|panic|error|AttributeError|ImportError|\w+Error)\b.*"
    r"|.*Assertion .* failed.*"
)
_TRACE = "trace.tkt"
#: Instructions that a timed CPU traces behind the window: the Minor CPU counts those that trap, the
#: atomic one does not, so that its window is a few rows shorter.
_SPARE = 1000
#: All that an untimed CPU has of a machine.
_ATOMIC = {"clock_ghz": 1.0}


@dataclass(frozen=True)
class RunOptions:
    """What of a program is run: see `PlannedProgram`, whose fields these are."""

    arguments: Sequence[str]
    skip: int
    warm: int
    instructions: int


def functional_run(
    gem5: str, binary: str, files: Sequence[str], stdin: str | None, o: RunOptions, output: str
) -> dict[str, Any]:
    """The features of the program's window to ``output``, by gem5's atomic CPU.  Returns ``rows``;
    TracekitError says why there are none."""
    with scratch([Path(output).parent]) as folder:
        trace = _gem5(gem5, folder, None, binary, files, stdin, o)
        _extracted(trace, output, Path(binary).name, None)
    with TraceFile(output) as features:
        return {"rows": len(features)}


def timed_run(
    gem5: str,
    machine: Mapping[str, Any],
    features: str,
    binary: str,
    files: Sequence[str],
    stdin: str | None,
    o: RunOptions,
    output: str,
) -> dict[str, Any]:
    """The cycles of each row of ``features`` on ``machine`` to ``output`` (.npy.zst, uint32).

    Returns ``rows`` and ``cycles``.  TracekitError says why there are none; where the instructions
    are not those of the features, at which row they part.
    """
    name = f"{Path(features).stem} on {machine['name']}"
    with scratch([Path(output).parent]) as folder:
        trace = _gem5(gem5, folder, machine, binary, files, stdin, o)
        _extracted(trace, str(folder / "timed.zst"), name, round(1000 / machine["clock_ghz"]))
        with TraceFile(features) as wanted, TraceFile(folder / "timed.zst") as timed:
            _compare(wanted, timed, name)
            cycles = _cycles(timed, name)[: len(wanted)]
    array = io.BytesIO()
    np.lib.format.write_array(array, cycles, allow_pickle=False)
    write_bytes(Path(output), zstandard.compress(array.getvalue(), 9), force=True)
    return {"rows": len(cycles), "cycles": int(cycles.sum(dtype=np.int64))}


def _extracted(trace: Path, output: str, name: str, clock: int | None) -> None:
    """No path of this computer goes into the file: the same run gives the same bytes anywhere."""
    options = Options(level="micro", force=True, strict=True, clock_ps=clock, overlap=False)
    Extraction(trace, output, options, called=f"{name}.tkt").run()


def _compare(wanted: TraceFile, timed: TraceFile, name: str) -> None:
    row = first_difference(wanted, timed)
    if row == len(wanted):
        return
    at = [f"{t['pc'][row]:#x}" if row < len(t) else "the end" for t in (timed, wanted)]
    raise TracekitError(
        f"at row {row:,} of {len(wanted):,} it is at {at[0]}, the atomic CPU at {at[1]}",
        path=name,
        hint="a program that reads the time or its own speed takes other ways on other machines",
    )


def _cycles(timed: TraceFile, name: str) -> npt.NDArray[np.uint32]:
    ticks, clock = timed.targets("ticks"), timed.clock_ps
    off = ticks % clock != 0
    if off.any():
        row = int(off.argmax())
        raise TracekitError(f"row {row:,} retires {ticks[row] % clock} ps off the clock", path=name)
    cycles: npt.NDArray[np.uint32] = (ticks // clock).astype(np.uint32)
    return cycles


def _gem5(
    gem5: str,
    folder: Path,
    machine: Mapping[str, Any] | None,
    binary: str,
    files: Sequence[str],
    stdin: str | None,
    o: RunOptions,
) -> Path:
    """Runs it in ``folder``; the trace."""
    folder = folder.absolute()  # gem5 runs in another one
    here = linked_folder(folder / "run", (binary, *files, *([stdin] if stdin else [])))
    write_json(folder / "machine.json", dict(machine or _ATOMIC))
    scripts = plugin_folder() / "gem5_patches"
    command = [gem5, f"--outdir={folder / 'm5out'}", str(scripts / "tracekit_run.py")]
    command += ["--out", _TRACE, "--cpu", r"^system\.cpu$", "--exit"]
    insts = o.instructions if machine is None else o.instructions + _SPARE
    command += ["--start-inst", str(o.warm), "--insts", str(insts)]
    command += [str(scripts / "tracekit_machine.py"), str(folder / "machine.json"), "--with-parent"]
    command += ["--skip", str(o.skip), *(["--functional"] if machine is None else [])]
    command += ["--stdin", Path(stdin).name] if stdin else []
    command += ["--", f"./{Path(binary).name}", *o.arguments]
    _run(command, here, Path(binary).name)
    trace = folder / "m5out" / _TRACE
    if not trace.exists():
        raise TracekitError("gem5 wrote no trace", path=Path(binary).name)
    return trace


def _run(command: Sequence[str], cwd: Path, name: str) -> None:
    """gem5 to its end; TracekitError with what it said where that is not a window's."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    try:
        gem5 = subprocess.Popen(
            command, cwd=cwd, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )  # fmt: skip
    except OSError as e:
        raise TracekitError(f"cannot start: {e.strerror}", path=command[0]) from None
    tail = b""
    with gem5:
        try:
            assert gem5.stdout is not None
            while piece := os.read(gem5.stdout.fileno(), _TAIL):
                tail = (tail + piece)[-_TAIL:]
            code = gem5.wait()
        except BaseException:
            gem5.kill()  # it would run on for hours
            raise
    lines = tail.decode("utf-8", "replace").splitlines()
    said = [line.removeprefix(_SAID) for line in lines if line.startswith(_SAID)]
    if code == 0 and said and said[-1] in (_COMPLETE, _EXITED):
        return
    if said:
        raise TracekitError(said[-1][:300], path=name)
    fatal = [line for line in lines if _FATAL.fullmatch(line)]
    last = (fatal or [line for line in lines if line.strip()] or ["it said nothing"])[-1]
    how = f"exit code {code}" if code >= 0 else f"signal {-code}"
    raise TracekitError(f"gem5 ended ({how}): {last.strip()[:300]}", path=name)
