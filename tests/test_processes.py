"""One open file in several processes, and what importing the package costs."""

from __future__ import annotations

import itertools
import json
import multiprocessing
import pickle
import re
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
import synthetic
from reading_jobs import part

import tracekit

HEAVY = ("torch", "numba", "llvmlite", "pyarrow", "matplotlib", "capstone", "elftools")


@pytest.fixture(scope="module")
def feats(tmp_path_factory):
    folder = tmp_path_factory.mktemp("p")
    (folder / "t").write_text(synthetic.text(5, 3000))
    tracekit.extract(folder / "t", folder / "f.zst", chunk_rows=256)
    return folder / "f.zst"


@pytest.mark.parametrize("method", ["fork", pytest.param("spawn", marks=pytest.mark.slow)])
def test_processes(feats, method):
    with tracekit.open(feats) as f, warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", DeprecationWarning
        )  # fork, in a process that has had threads
        n = len(f)
        f.features("perfvec", (0, 300))  # caches are filled before they are inherited
        edges = np.linspace(0, n, 9).astype(int).tolist()
        jobs = [(f, a, b) for a, b in itertools.pairwise(edges)]
        want = [part(j) for j in jobs]
        with multiprocessing.get_context(method).Pool(3) as pool:
            assert pool.map_async(part, jobs, chunksize=1).get(timeout=120) == want
        assert part(jobs[-1]) == want[-1]  # and this process still reads it


inherited: tracekit.TraceFile


def part_of_inherited(rows: tuple[int, int]) -> bytes:
    return inherited.features("perfvec", rows).tobytes()


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="no fork here")
def test_inherited_file(feats):
    """As a DataLoader's workers have it: the same descriptor in all, nobody's position moved."""
    global inherited
    with tracekit.open(feats) as inherited, warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        rows = [(k * 50, k * 50 + 400) for k in range(50)]
        want = [part_of_inherited(r) for r in rows]
        with multiprocessing.get_context("fork").Pool(4) as pool:
            assert pool.map(part_of_inherited, rows, chunksize=1) == want


def test_pickle(feats):
    with tracekit.open(feats) as f, pickle.loads(pickle.dumps(f)) as g:
        assert g.path == f.path and np.array_equal(f["addr"], g["addr"])


def python(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout


def test_import_is_light():
    """`import tracekit` loads nothing but itself; the commands' parser and reading load nothing
    heavy."""
    show = "import json, sys; print(json.dumps(sorted(sys.modules)))"
    loaded = set(json.loads(python(f"import tracekit; {show}")))
    assert not loaded & {*HEAVY, "numpy", "zstandard", "hypothesis", "tracekit._core", "argparse"}
    loaded = set(json.loads(python(f"import tracekit; tracekit.open; tracekit.extract; {show}")))
    assert not loaded & set(HEAVY)
    parser = "from tracekit.cli.main import create_parser; create_parser('extract')"
    assert not set(json.loads(python(f"{parser}; {show}"))) & set(HEAVY)


def test_version():
    done = subprocess.run(
        [sys.executable, "-m", "tracekit", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout == f"tracekit {tracekit.__version__}\n"
    assert re.fullmatch(r"\d+\.\d+\.\d+\S*", tracekit.__version__)
    source = (Path(tracekit.__file__).parent / "_version.py").read_text()
    assert tracekit.__version__ in source
