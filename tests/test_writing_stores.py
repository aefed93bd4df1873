"""Commands that write several files, or change a folder or a database file by file, through every
failure: strace fails or kills each call in turn, every part is the old one or the new one, whole,
and the next run ends what the failed one began.

The plain run fails two calls of one of them; ``-m slow`` all calls of all.
"""

from __future__ import annotations

import json
import random
import re
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import column_pins
import pytest
import synthetic
from test_sim import MACHINE
from test_writes import LONG, failing

import tracekit
from tracekit.cli.main import main
from tracekit.hardware import HardwareMachine
from tracekit.store import verify

GOLDEN = Path(__file__).parent / "golden"
TRACEKIT = ["-m", "tracekit"]
CALLS = ("write", "pwrite64", "fsync", "fdatasync", "ftruncate", "unlink", "symlink")
CALLS += ("rename", "renameat2", "link", "linkat")
Parts = dict[str, Any]


@dataclass
class Case:
    """``prepare`` makes what lies in the folder before; ``command`` runs in it, ``parts`` are what
    its files say, each of which is the old one or the new one at every moment.  ``more``: parts
    that a second run of the command changes once more."""

    prepare: Callable[[Path], object]
    command: list[str]
    parts: Callable[[Path], Parts]
    needs: tuple[str, ...] = ()
    more: frozenset[str] = frozenset()


def done(*words: str) -> None:
    assert main(list(words)) == 0


def contents(folder: Path) -> Parts:
    """Every file in ``out``, but those under a temporary's name."""
    out = folder / "out"
    files = (p for p in sorted(out.rglob("*")) if p.is_file() and not hidden(p.relative_to(out)))
    return {p.relative_to(out).as_posix(): p.read_bytes() for p in files}


def hidden(path: Path) -> bool:
    return any(re.search(r"\.tracekit-[0-9a-f]{16}\.", part) for part in path.parts)


def simpoints(folder: Path) -> None:
    (folder / "out").mkdir()
    done("simpoints", str(GOLDEN / "feats-v1.zst"), "--interval", "500", "-q",
         "-o", str(folder / "out" / "x"))  # fmt: skip


def texts(folder: Path) -> None:
    (folder / "out").mkdir()
    for k in range(2):
        (folder / f"t{k}.out").write_text(synthetic.text(20 + k, 400 + 100 * k))


def summarised(folder: Path) -> None:
    texts(folder)
    files = [str(folder / f"t{k}.out") for k in range(2)]
    done("extract", *files, "-q", "-o", f"{folder}/run/", "--run", f"{folder}/run")
    (folder / "out" / "s.parquet").write_bytes(b"old")


def extracted(folder: Path) -> Parts:
    """Files of features, which are whole."""
    found = sorted((folder / "out").glob("*.zst"))
    for path in found:
        verify(path)
    return {p.name: p.read_bytes() for p in found}


CALIBRATE = """
import sys
from types import SimpleNamespace
import tracekit.hardware as h
machine = h.HardwareMachine.load("zen4")
h.calibrate = lambda **_: SimpleNamespace(machine=machine, to_dict=dict)
import os
os.environ["XDG_CACHE_HOME"] = "out"
from tracekit.cli.main import main
sys.exit(main(["calibrate", "-q", "--json", "--force", "-o", "out/m.json"]))
"""


def calibrated(folder: Path) -> None:
    from tracekit.hardware.kept import kept_path

    old = json.dumps(HardwareMachine.load("zen5").to_dict())
    name = kept_path().name
    (folder / "out" / "tracekit" / "machines").mkdir(parents=True)
    for path in ("m.json", f"tracekit/machines/{name}"):
        (folder / "out" / path).write_text(old)


VALIDATE = """
import sys
import numpy as np
from tracekit.validation import steps
from tracekit.validation.sampling import Sampled
steps.sampled_rows = lambda trace: Sampled([0, 100], np.array([False, True]))
from tracekit.cli.main import main
sys.exit(main(["validate", "l.json", "-o", "out", "--machine", "m.json", "--json",
               "--rounds", "2", "--steps", "build", "time", "predict", "--write"]))
"""


def validated(folder: Path) -> None:
    """Two programs that are recorded already, and timed once."""
    from tracekit.validation import Validation, draw, load_list

    halves = draw("ab", 5)
    script = "i=0; while [ $i -lt 9000 ]; do i=$((i+1)); done"
    programs = [
        {"name": n, "family": n, "half": halves[n], "command": ["{build:p}"]} for n in ("a", "b")
    ]
    made = {
        "seed": 5,
        "builds": {"p": ["sh", "-c", f"printf '#!/bin/sh\\n{script}\\n' > $0", "{out}"]},
        "programs": programs,
    }
    (folder / "l.json").write_text(json.dumps(made))
    (folder / "m.json").write_text(json.dumps(HardwareMachine.load("zen5").to_dict()))
    out = folder / "out"
    out.mkdir()
    column_pins._tks(folder)
    counts = {"instructions": 10**6, "every": 1, "samples": 9, "distance": 0.0, "foreign": None}
    once = {"user": 0.5, "system": 0.0, "wall": 0.5, "clock": 4.0, "time": 0.0}
    lines = []
    elsewhere = folder / "elsewhere"
    elsewhere.mkdir()
    steps = Validation(load_list(folder / "l.json"), elsewhere)
    steps.build()
    for p in steps.programs:
        n, digest = p.name, steps._digest(p)
        tracekit.extract(folder / "made.tks", out / f"{n}.feats.zst", level="macro")
        counts |= {"seconds": 1.0, "digest": steps._counted(p)}
        (out / f"{n}.counts.json").write_text(json.dumps(counts))
        lines.append(json.dumps({"program": n, **once, "digest": digest}) + "\n")
    (out / "times.jsonl").write_text("".join(lines * 9))  # the second round's own are few


def validation(folder: Path) -> Parts:
    from tracekit.validation.timing import read_times

    out, built = folder / "out", folder / "out" / "build-p"
    checked = HardwareMachine.load(folder / "m.json").checked
    return {
        "times": [t["program"] for t in read_times(out / "times.jsonl")] != [],
        "build": built.read_bytes() if built.exists() else None,
        **{n: set(json.loads(p.read_text())) if (p := out / f"{n}.simulated.json").exists()
           else None for n in ("a", "b")},
        "checked": checked and checked["programs"],
    }  # fmt: skip


def repository(folder: Path) -> None:
    """A machine is published; a second version of it is signed."""
    from tracekit.repository import Repository

    r, keys, machine = (str(folder / n) for n in ("r", "keys", "m.json"))
    Path(machine).write_text(json.dumps({**MACHINE, "name": "m"}))
    done("repo", "init", r, "--root", "1", "1", "--keys", keys)
    for publish in (True, False):
        done("repo", "add", r, machine, "--name", "m")
        done("repo", "sign", r, "--key", keys)
        if publish:
            done("repo", "publish", r, "--keys", keys)
    made = Repository(r)
    done("models", "trust", str(made.root_file(1)), "--fingerprint", made.fingerprint(1),
         "--from", r, "--store", str(folder / "out"))  # fmt: skip


def offered(folder: Path) -> Parts:
    """What a new client finds, and what the publisher sees."""
    from tracekit.repository import ModelStore, Repository

    r = Repository(folder / "r")
    r.status()
    store = folder / "client"
    shutil.rmtree(store, ignore_errors=True)
    fresh = ModelStore.trust(r.root_file(1), r.fingerprint(1), str(folder / "r"), store)
    fresh.update()
    versions = [e.version for e in fresh.entries()]
    fresh.get("m", max(versions))
    shutil.rmtree(store)
    return {"versions": versions, "staged": len(r.entries(staged=True))}


def taken(folder: Path) -> Parts:
    """What a client has, each of which is what was signed."""
    from tracekit.repository import ModelStore

    store = ModelStore(folder / "out")
    here = [e.version for e in store.installed()]
    for version in here:
        store.model("m", version)
    return {"offered": [e.version for e in store.entries()], "here": here}


def database(folder: Path) -> Parts:
    """Tokens of a hub; read from a copy, which recovers from what a kill left."""
    copy = folder / "copy"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(folder / "out", copy)
    with sqlite3.connect(copy / "hub.sqlite") as db:
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        (count,) = db.execute("SELECT count(*) FROM agents").fetchone()
    shutil.rmtree(copy)
    return {"agents": count}


def with_hub(folder: Path) -> None:
    (folder / "out").mkdir()
    done("hub", "token", str(folder / "out" / "hub.sqlite"))


TUF = ("tuf", "cryptography")
CASES = {
    "simpoints": Case(
        simpoints,
        [*TRACEKIT, "simpoints", str(GOLDEN / "feats-v1.zst"), "--interval", "900", "-q",
         "--force", "-o", "out/x"],
        contents, ("sklearn",),
    ),
    "runs": Case(
        summarised, [*TRACEKIT, "runs", "run", "--summary", "out/s.parquet", "--force"],
        contents, ("pyarrow",),
    ),
    "extract": Case(
        texts, [*TRACEKIT, "extract", "t0.out", "t1.out", "-q", "-o", "out/", "--run", "out"],
        extracted,
    ),
    "calibrate": Case(calibrated, ["-c", CALIBRATE], contents),
    "validate": Case(validated, ["-c", VALIDATE], validation),
    "repo add": Case(
        repository, [*TRACEKIT, "repo", "add", "r", "m.json", "--name", "m"], offered, TUF,
        frozenset({"staged"}),
    ),
    "repo publish": Case(
        repository, [*TRACEKIT, "repo", "publish", "r", "--keys", "keys"], offered, TUF,
    ),
    "models get": Case(
        repository, [*TRACEKIT, "models", "get", "m", "--store", "out"], taken, TUF,
    ),
    "hub token": Case(
        with_hub, [*TRACEKIT, "hub", "token", "out/hub.sqlite"], database,
        ("sqlalchemy", "starlette"), frozenset({"agents"}),
    ),
}  # fmt: skip
PLAIN = ("models get",)


def whole(found: Parts, before: Parts, after: Parts, where: object) -> None:
    for name in before.keys() | after.keys():
        assert found.get(name) in (before.get(name), after.get(name)), (where, name)


@pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace")
@pytest.mark.parametrize(
    ("every", "name"),
    [(False, n) for n in PLAIN] + [pytest.param(True, n, marks=LONG) for n in CASES],
)
def test_each_call_that_fails_or_kills(name: str, every: bool, tmp_path: Path) -> None:
    case = CASES[name]
    for package in case.needs:
        pytest.importorskip(package)
    base, work = tmp_path / "base", tmp_path / "work"
    base.mkdir()
    case.prepare(base)

    def fresh() -> None:
        shutil.rmtree(work, ignore_errors=True)
        shutil.copytree(base, work, symlinks=True)

    fresh()
    command = [sys.executable, *case.command]
    before = case.parts(work)
    first, calls = failing(command, CALLS, tmp_path / "log", work)
    if "ptrace" in first.stderr:
        pytest.skip("strace may not trace here")
    assert first.returncode == 0, first.stderr
    after = case.parts(work)
    assert before != after and calls
    ways = ["error=ENOSPC", "error=EIO", "signal=KILL"]
    kill = ways[2:]  # what a failing unlink leaves is only a name more
    moments = [(*c, way) for c in calls for way in (kill if c[0] == "unlink" else ways)]
    if not every:
        moments = random.Random(name).sample(moments, 2)
    for call, n, way in moments:
        fresh()
        failed, _ = failing(command, CALLS, tmp_path / "log", work, f"{call}:{way}:when={n}")
        where = call, n, way, failed.stderr
        assert failed.returncode in (0, 1, -9) and "Traceback" not in failed.stderr, where
        assert failed.stderr.count("\n") <= 3, where
        whole(case.parts(work), before, after, where)
        again = subprocess.run(command, cwd=work, capture_output=True, text=True, timeout=120)
        assert again.returncode == 0, (where, again.stderr)
        found = case.parts(work)
        for part in after.keys() - case.more:
            assert found[part] == after[part], (where, part)
        left = [p for p in work.rglob("*") if hidden(p) or p.name.startswith("tmp")]
        assert not left, (where, left)
