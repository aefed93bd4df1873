"""bench/factory_programs.py: the programs and the plan that RISC-V's ground truth is made of."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import gem5_stand_in
import pytest

from tracekit.factory import load_plan

ROOT = Path(__file__).resolve().parent.parent
SCRIPT = ROOT / "bench" / "factory_programs.py"
pytestmark = pytest.mark.skipif(not SCRIPT.exists(), reason="needs the sources")


@pytest.fixture(scope="module")
def script() -> Any:
    spec = importlib.util.spec_from_file_location("factory_programs", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_plan_is_one(script, tmp_path):
    (tmp_path / "bin").mkdir()
    for name in script.PROGRAMS:
        gem5_stand_in.program(tmp_path / "bin", name)
    (tmp_path / "plan.toml").write_text(script.plan())
    plan = load_plan(tmp_path / "plan.toml")
    assert plan.arch == "riscv" and len(plan.machines) >= 16
    assert len(plan.programs) >= 25 and len({p.family for p in plan.programs}) >= 12
    assert {p.instructions for p in plan.programs} == {500_000}
    assert {m["cpu"] for m in plan.machines} == {"o3", "minor"}
    said = script.__doc__
    assert f"{len(plan.programs)} programs of {len(script.PROGRAMS)} families" in said


def test_programs_are_those_of_a_plan_or_those_kept_aside(script):
    names = [re.findall(r'name = "(.+)"', p) for p in (script.plan(2), script.plan(without=2))]
    assert sorted(names[0] + names[1]) == sorted(re.findall(r'name = "(.+)"', script.plan()))
    assert len(names[0]) == 32 and len(names[1]) == 10


def test_every_kernel_exists(script):
    for program, kernels in script.PROGRAMS.items():
        text = (script.KERNELS / f"{program}.c").read_text(encoding="utf-8")
        there = set(re.findall(r'\{"(\w+)", \w+\}', text))
        assert set(kernels) <= there, program


def test_programs_of_risc_v_give_what_this_computer_s_do(script, tmp_path):
    """A checksum that differs would be a program that does another thing there."""
    cross, emulator = shutil.which("riscv64-linux-gnu-gcc"), shutil.which("qemu-riscv64")
    host = shutil.which("gcc")
    if not (cross and emulator and host):
        pytest.skip("needs gcc, riscv64-linux-gnu-gcc and qemu-riscv64")
    done = subprocess.run([sys.executable, str(SCRIPT), str(tmp_path)], check=False)
    assert done.returncode == 0 and load_plan(tmp_path / "plan.toml").arch == "riscv"
    script.compile_all(tmp_path / "host", host)
    for program in ("sort", "bits", "dynamic"):
        for kernel, size in script.PROGRAMS[program].items():
            command = [kernel, "1", str(size)]
            said = [
                subprocess.run([*run, *command], check=True, capture_output=True).stdout
                for run in (
                    [emulator, str(tmp_path / "bin" / program)],
                    [str(tmp_path / "host" / program)],
                )
            ]
            assert said[0] == said[1] and len(said[0]) == 17, (program, kernel)
