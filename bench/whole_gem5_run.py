"""A static X86 program in gem5, from its first instruction to its last."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

from tracekit.mixture import load_model
from tracekit.plugin import plugin_folder
from tracekit.sim import completed

__all__ = ["whole_run"]


def whole_run(
    gem5: str,
    command: list[str],
    machine: str,
    work: Path,
    folder: str = "m5out",
    seed: int | None = None,
) -> dict[str, float]:
    """Cycles and instructions of ``command`` (a program and its arguments) on a machine of the
    shipped X86 model.  ``folder``: gem5's own, in ``work``; ``seed``: of gem5's random numbers,
    its own unless given.  Ends this program where gem5 does not come to the end of that one."""
    core = next(m for m in load_model(None, "x86").cores if m["name"] == machine)
    parameters = work / f"{machine}.json"
    parameters.write_text(json.dumps(completed(core, "x86")))
    out = work / folder
    script = plugin_folder() / "gem5_patches" / "tracekit_machine.py"
    options = [] if seed is None else ["--random-seed", str(seed)]
    simulator = [gem5, f"--outdir={out}", str(script), str(parameters), "--with-parent", *options]
    ran = subprocess.run([*simulator, "--", *command], capture_output=True, text=True, cwd=work)
    if "exiting with last active thread context" not in ran.stdout:
        told = f"{ran.stdout[-500:]}{ran.stderr[-500:]}"
        raise SystemExit(f"{' '.join(command)} on {machine}: {told}")
    stats = dict(re.findall(r"^(\S+)\s+([\d.]+)", (out / "stats.txt").read_text(), re.M))
    period = round(1000 / float(str(core["clock_ghz"])))
    return {"cycles": int(stats["simTicks"]) / period, "instructions": int(stats["simInsts"])}
