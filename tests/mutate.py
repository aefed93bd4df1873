"""Mutation testing: does a test fail where one constant, comparison or operator is changed?

    PYTHONPATH=. python tests/mutate.py [--skip 9] [--limit 40] [--only TEXT] [--mutant M] [--named]

Each mutant is compiled (its own object files alone, then the link), and the tests of its area run,
fastest first, up to the first failure, in a copy of the tree under --work.  That is kept: a run
that was stopped goes on where it was.  The shared traces are not used.  mutants.json names the
mutants that change nothing, with the reason, and ten changes of the cores' rules that must be
caught (--named).  Exit code 1: fewer than 95 % of those that change something were caught.
"""

from __future__ import annotations

import argparse
import json
import os
import queue
import re
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import mutants
from mutants import Mutant

ROOT = Path(__file__).resolve().parent.parent
DATA = Path(__file__).parent / "mutants.json"
#: Test files of each area, fastest first; one that has a mutant's file in its name goes first.
TESTS = {
    "cores": (
        "core_pins", "predictors", "uop_cracking", "sim", "sim_memory", "wrong_paths", "causes",
        "why", "plugins", "parameters", "view", "gem5_config", "warm", "segments", "runs",
    ),
    "features": (
        "column_pins", "feats_format", "features", "gem5_lines", "row_classes", "native_rows",
        "stack_distance", "lossless", "extract",
    ),
    "parsers": (
        "column_pins", "perfvec_authors", "gem5_lines", "text_paths", "extract", "champsim",
        "native_rows", "drmemtrace", "tkt", "tks", "lossless", "bad_input",
    ),
}  # fmt: skip
#: Tests of processes and signals fail where the machine is busy, and would catch anything.
TIMED = "not interrupt and not kill and not job and not pipe"
SEED, COUNT, ENOUGH = 21, 300, 0.95
CPU_SECONDS, WALL_SECONDS, MEMORY = 120, 3600, 6 << 30
#: Folders of tracekit._core's sources; the second is written by setup.py.
_SOURCES = ("csrc/", "build/bind/")
_INCLUDE = re.compile(rb'^#include "([^"]+)"', re.M)


#: Stands for the compiler while setup.py runs: keeps its arguments, makes empty outputs.
_RECORDER = """#!/bin/sh
echo "$@" >> "$TRACEKIT_COMMANDS"
while [ $# -gt 0 ]; do if [ "$1" = -o ]; then : > "$2"; fi; shift; done
"""


_CHILDREN: set[int] = set()  # each leads a session of its own


def _stop(number: int, _: Any) -> None:
    """Ends what runs, and the run; the next one goes on from the results."""
    for child in list(_CHILDREN):
        os.killpg(child, signal.SIGKILL)
    os._exit(128 + number)


def _copy(folder: Path) -> None:
    """Brings the files that git tracks up to date."""
    names = subprocess.check_output(["git", "ls-files", "-z"], cwd=ROOT).decode().split("\0")
    for name in filter(None, names):
        source, target = ROOT / name, folder / name
        if not source.is_file():
            continue
        if not target.exists() or target.read_bytes() != source.read_bytes():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target)


def commands(work: Path) -> list[list[str]]:
    """The arguments that setup.py gives its compiler for tracekit._core: one list an object, the
    link's last."""
    folder, recorder, log = work / "commands", work / "recorder.sh", work / "commands.txt"
    _copy(folder)
    recorder.write_text(_RECORDER, encoding="utf-8")
    recorder.chmod(0o755)
    log.unlink(missing_ok=True)
    compilers = dict.fromkeys(("CC", "CXX", "LDSHARED", "LDCXXSHARED"), str(recorder))
    done = subprocess.run(
        [sys.executable, "setup.py", "-q", "build_ext", "--inplace", "--force"], cwd=folder,
        env={**os.environ, **compilers, "TRACEKIT_COMMANDS": str(log)}, capture_output=True,
    )  # fmt: skip
    if done.returncode:
        raise SystemExit(f"setup.py: {done.stderr.decode()[-2000:]}")
    lines = [shlex.split(line) for line in log.read_text(encoding="utf-8").splitlines()]
    lines = [w for w in lines if "-o" in w]  # the others ask what the compiler can do
    objects = [w for w in lines if "-c" in w and w[w.index("-c") + 1].startswith(_SOURCES)]
    (link,) = (w for w in lines if "-c" not in w and "/_core." in w[w.index("-o") + 1])
    at = link.index("-o") + 1
    link[at] = f"tracekit/{Path(link[at]).name}"  # in place
    return [*objects, ["-shared", *(w for w in link if w != "-shared")]]


class Tree:
    """A built copy of the repository in which one mutant at a time lives."""

    def __init__(self, folder: Path, known: list[list[str]]) -> None:
        self.root = folder
        _copy(folder)
        made = folder.parent / "commands" / _SOURCES[1]
        shutil.copytree(made, folder / _SOURCES[1], dirs_exist_ok=True)
        for library in (ROOT / "tracekit").rglob("*.so"):
            shutil.copy2(library, folder / library.relative_to(ROOT))
        self.env = {**os.environ, "PYTHONPATH": str(folder), "TRACEKIT_SHARED": "/nonexistent",
                    "CCACHE_BASEDIR": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}  # fmt: skip
        self.compiler = shlex.split(os.environ.get("CXX", "g++"))
        self.compile = {w[w.index("-c") + 1]: w for w in known[:-1]}
        quick = ["-fuse-ld=lld"] if shutil.which("ld.lld") else []
        self.link = [*self.compiler[-1:], *known[-1], *quick]
        self.uses = {s: self._includes(s) for s in self.compile}
        self._build()

    def _build(self) -> None:
        """The objects: the repository's own where they are newer than their sources."""
        for kept in self.root.glob("build/**/*.kept"):  # of a run that was stopped
            kept.replace(kept.with_suffix(".o"))
        for source, words in self.compile.items():
            name = words[words.index("-o") + 1]
            ready, target = ROOT / name, self.root / name
            target.parent.mkdir(parents=True, exist_ok=True)
            changed = max((self.root / used).stat().st_mtime for used in self.uses[source])
            if ready.exists() and ready.stat().st_mtime > changed:
                shutil.copy2(ready, target)
                continue
            old = not target.exists() or target.stat().st_mtime < changed
            if old and self._run([*self.compiler, *words]):
                raise SystemExit(f"{source} does not compile")
        if self._run(self.link):
            raise SystemExit("the tree does not link")

    def _includes(self, source: str) -> set[str]:
        """Every file of csrc that a source takes in."""
        out, todo = {source}, [source]
        while todo:
            for m in _INCLUDE.finditer((self.root / todo.pop()).read_bytes()):
                name = f"csrc/{m[1].decode()}"
                if name not in out and (self.root / name).exists():
                    out.add(name)
                    todo.append(name)
        return out

    def _run(self, command: list[str], output: Any = subprocess.DEVNULL) -> int:
        """Exit status; of a signal, below 0."""

        def limits() -> None:
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
            resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS + 5))

        child = subprocess.Popen(
            command, cwd=self.root, env=self.env, stdout=output, stderr=subprocess.DEVNULL,
            stdin=subprocess.DEVNULL, start_new_session=True, preexec_fn=limits,
        )  # fmt: skip
        _CHILDREN.add(child.pid)
        try:
            return child.wait(WALL_SECONDS)
        except subprocess.TimeoutExpired:
            return -9
        finally:
            if child.poll() is None:
                os.killpg(child.pid, signal.SIGKILL)
                child.wait()
            _CHILDREN.discard(child.pid)

    def failing(self, area: str, stem: str = "") -> str:
        """Which of the area's tests fails first, "" where none does; those with ``stem`` in their
        names run first."""
        tests = [f"tests/test_{t}.py" for t in TESTS[area]]
        tests.sort(key=lambda t: stem not in t)
        options = ["-q", "-x", "-p", "no:cacheprovider", "--hypothesis-profile=ci"]
        options += ["-k", TIMED]
        with tempfile.TemporaryFile() as output:
            status = self._run([sys.executable, "-m", "pytest", *options, *tests], output)
            output.seek(0)
            text = output.read().decode("utf-8", "replace")
        if status == 0:
            return ""
        told = re.findall(r"^(?:FAILED|ERROR) (\S+)", text, re.M)
        return told[0] if told else f"signal {-status}" if status < 0 else f"exit code {status}"

    def run(self, mutant: Mutant, area: str) -> tuple[str, str]:
        """("caught" | "survived" | "does not compile", what told)."""
        path = self.root / mutant.path
        kept = path.read_text(encoding="utf-8")
        objects: list[Path] = []
        try:
            path.write_text(mutant.applied(kept), encoding="utf-8")
            if path.suffix != ".py":
                for source in [s for s, of in self.uses.items() if mutant.path in of]:
                    words = [w for w in self.compile[source] if w != "-g"]
                    target = self.root / words[words.index("-o") + 1]
                    target.rename(target.with_suffix(".kept"))
                    objects.append(target)
                    if self._run([*self.compiler[-1:], *words, "-O1", "-w"]):
                        return "does not compile", source
                if not objects or self._run(self.link):
                    return "does not compile", "link"
            failed = self.failing(area, path.stem)
            return ("caught", failed) if failed else ("survived", "")
        finally:
            path.write_text(kept, encoding="utf-8")
            for target in objects:
                target.with_suffix(".kept").replace(target)


def place(mutant: Mutant) -> tuple[str, str]:
    """Its line without the indentation, and the change in it."""
    line = (ROOT / mutant.path).read_text(encoding="utf-8").split("\n")[mutant.line - 1]
    at = mutant.column - (len(line) - len(line.lstrip()))
    return line.strip(), f"{at}: {mutant.before} -> {mutant.after}"


def one(text: str) -> tuple[str, list[Mutant]]:
    """The area and the mutant that ``str`` of it tells."""
    m = re.fullmatch(r"(\S+):(\d+):(\d+) (\S+) -> (\S+)", text)
    areas = [a for a, (folders, _) in mutants.AREAS.items() if text.startswith(folders)]
    if m is None or not areas:
        raise SystemExit(f"no mutant: {text}")
    return areas[0], [Mutant(m[1], int(m[2]), int(m[3]) - 1, m[4], m[5])]


class Known:
    """mutants.json: what changes nothing, and the changes that must be caught."""

    def __init__(self) -> None:
        data = json.loads(DATA.read_text(encoding="utf-8"))
        self.named: list[dict[str, str]] = data["named"]
        self.reasons = {
            (Path(e["file"]).name, e["line"], e["change"]): e["reason"] for e in data["equivalent"]
        }

    def reason(self, mutant: Mutant) -> str | None:
        """Why a mutant is no other program; found by the line's text, wherever it stands."""
        return self.reasons.get((Path(mutant.path).name, *place(mutant)))

    def changes(self) -> list[Mutant]:
        """The named changes as mutants."""
        out = []
        for e in self.named:
            (path,) = ROOT.glob(f"csrc/**/{e['file']}")
            lines = path.read_text(encoding="utf-8").split("\n")
            (number,) = (i for i, line in enumerate(lines, 1) if e["before"] in line)
            column = lines[number - 1].index(e["before"])
            name = path.relative_to(ROOT).as_posix()
            out.append(Mutant(name, number, column, e["before"], e["after"]))
        return out


class Results:
    """One line of JSON a mutant, kept beside the trees."""

    def __init__(self, path: Path) -> None:
        self.path, self._lock = path, threading.Lock()
        self.of: dict[str, str] = {}  # by mutant
        if path.exists():
            for line in path.read_text(encoding="utf-8").splitlines():
                entry = json.loads(line)
                self.of[entry["mutant"]] = entry["result"]

    def put(self, mutant: str, result: str, told: str, seconds: float) -> None:
        with self._lock:
            self.of[mutant] = result
            with self.path.open("a", encoding="utf-8") as f:
                entry = {"mutant": mutant, "result": result, "by": told}
                entry["seconds"] = round(seconds, 1)
                f.write(json.dumps(entry) + "\n")


def _one(queued: list[Mutant], area: str, trees: queue.Queue[Tree], known: Known,
         results: Results, redo: bool) -> tuple[Mutant, str]:  # fmt: skip
    """The first mutant of a slot that compiles, and what became of it."""
    for mutant in queued:
        name = str(mutant)
        if known.reason(mutant) is not None:
            return mutant, "equivalent"
        result = results.of.get(name)
        if result is None or (redo and result == "survived"):
            tree = trees.get()
            try:
                begin = time.monotonic()
                result, told = tree.run(mutant, area)
            finally:
                trees.put(tree)
            results.put(name, result, told, time.monotonic() - begin)
        if result != "does not compile":
            return mutant, result
    raise SystemExit(f"no mutant of {area} compiles")


def _parser() -> argparse.ArgumentParser:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    p.add_argument("--limit", type=int, default=COUNT, help="the first N mutants")
    p.add_argument("--skip", type=int, default=0, help="of these, all but the first N")
    p.add_argument("--only", default="", help="of these, those with this text in file and change")
    p.add_argument("--named", action="store_true", help="the named changes instead")
    p.add_argument(
        "--mutant",
        action="append",
        default=[],
        metavar="M",
        help="this one instead, as it was printed: FILE:LINE:COLUMN OLD -> NEW",
    )
    p.add_argument("--seed", type=int, default=SEED)
    p.add_argument("--jobs", type=int, default=2, help="trees, and mutants at a time")
    p.add_argument("--work", type=Path, default=ROOT / "build" / "mutate")
    p.add_argument("--redo", action="store_true", help="run again what survived")
    p.add_argument("--list", action="store_true", help="show the mutants and run none")
    p.add_argument("--json", action="store_true", help="the result as JSON")
    return p


def main() -> int:
    args = _parser().parse_args()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _stop)
    known = Known()
    if args.named:
        work = [("cores", [m]) for m in known.changes()]
    elif args.mutant:
        work = [one(text) for text in args.mutant]
    else:
        of = {area: mutants.drawn(ROOT, area, args.seed) for area in mutants.AREAS}
        work = [(area, of[area][k]) for area, k in mutants.slots(args.limit) if k < len(of[area])]
        work = work[args.skip :]
    work = [(a, q) for a, q in work if args.only in str(q[0])]
    if args.list:
        for area, queued in work:
            print(f"{area:9} {queued[0]}")
        return 0
    args.work.mkdir(parents=True, exist_ok=True)
    results = Results(args.work / f"results-{args.seed}.jsonl")
    trees: queue.Queue[Tree] = queue.Queue()
    known_commands = commands(args.work)
    for k in range(min(args.jobs, len(work))):
        trees.put(Tree(args.work / f"tree{k}", known_commands))
    out: dict[str, list[str]] = {"caught": [], "survived": [], "equivalent": []}
    for area in sorted({a for a, _ in work}):
        if failed := trees.queue[0].failing(area):
            raise SystemExit(f"{failed} fails as it is")
    begin = time.monotonic()
    with ThreadPoolExecutor(args.jobs) as pool:
        runs = [pool.submit(_one, q, a, trees, known, results, args.redo) for a, q in work]
        for k, run in enumerate(runs, 1):
            mutant, result = run.result()
            out[result].append(str(mutant))
            seconds = time.monotonic() - begin
            print(f"{k}/{len(work)} {seconds:6.0f} s {result:10} {mutant}", file=sys.stderr)
    return _report(out, args.json)


def _report(out: dict[str, Any], as_json: bool) -> int:
    caught, survived = len(out["caught"]), len(out["survived"])
    share = caught / max(1, caught + survived)
    if as_json:
        print(json.dumps({**out, "caught": caught, "share": round(share, 4)}))
    else:
        print(f"{caught} of {caught + survived} caught ({100 * share:.1f} %), "
              f"{len(out['equivalent'])} change nothing")  # fmt: skip
        for name in out["survived"]:
            print(f"survived: {name}")
    return 0 if share >= ENOUGH else 1


if __name__ == "__main__":
    sys.exit(main())
