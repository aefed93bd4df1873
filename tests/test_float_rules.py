"""Rules with floats are compiled without fused multiply-adds, so that aarch64, which has them in
its baseline, gives the same cycles and features as x86-64, which has not."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
COMPILER = "aarch64-linux-gnu-g++"
FUSED = re.compile(r"^\s+fn?m(?:add|sub|la|ls)\b", re.M)
#: Those that compilers fuse when they may, in csrc's folder of the cores.
SOURCES = ("memory_model.cpp",)


def flags() -> list[str]:
    """FLAGS of setup.py."""
    for node in ast.parse((ROOT / "setup.py").read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "FLAGS":
            return re.findall(r"-[\w=+-]+", ast.unparse(node.value))
    raise AssertionError("setup.py has no FLAGS")


def assembly(source: Path, options: list[str]) -> str:
    command = [COMPILER, *options, "-I", str(ROOT / "csrc"), "-S", "-o", "-", str(source)]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=300).stdout


@pytest.mark.skipif(shutil.which(COMPILER) is None, reason=f"no {COMPILER}")
@pytest.mark.parametrize("name", SOURCES)
def test_no_multiplication_is_fused_on_aarch64(name):
    (source,) = (ROOT / "csrc").rglob(name)
    options = flags()
    assert not FUSED.search(assembly(source, options))
    options.remove("-ffp-contract=off")
    assert FUSED.search(assembly(source, options))  # it is the option that does it
