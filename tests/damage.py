"""Damaged inputs in one process, over every reader and every loader: errors of tracekit's own
family may come out, and nothing else.

    python tests/damage.py [--inputs 200000] [--seed 1] [--only NAME ...] [--keep FOLDER]

Every input is a small sample of its format, damaged in one to four places by the seed; the same
seed makes the same inputs.  What raises anything else, or takes over PATIENCE seconds, is kept in a
folder.  tests/test_damage.py has a few thousand of them in plain pytest.
"""

from __future__ import annotations

import argparse
import gzip
import json
import lzma
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import zstandard

ROOT = Path(__file__).resolve().parent.parent
sys.path += [str(ROOT / "tests"), str(ROOT / "csrc" / "fuzz"), str(ROOT)]  # after what is installed

import samples  # noqa: E402
import synthetic  # noqa: E402
from drmemtrace_records import rec, thread_of  # noqa: E402

import tracekit  # noqa: E402
from tracekit.errors import TracekitError  # noqa: E402
from tracekit.io.files import parse_json  # noqa: E402
from tracekit.store import frames  # noqa: E402

#: Seconds that one input may take.
PATIENCE = 20
#: What numbers and places are replaced by.
HOSTILE: list[Any] = [
    *(None, True, -1, 0, 1, 7, 2**31, 2**53 + 1, 2**63, 2**64, 10**30, -(10**30), 10**400, 1.5),
    *(1e300, -1e300, float("nan"), float("inf"), "", "x", "5", "\x1b[31m", "a\nb", "\ud800", "/"),
    *([], {}, [1, 2, 3], {"a": 1}, [[]], [None] * 8, [-1] * 8, ["x"], {"name": []}),
]
WORDS = [
    b"0",
    b"-1",
    b"18446744073709551616",
    b"9" * 40,
    b"0x",
    b"\x1b[2J",
    b"\0",
    b"\xff\xfe",
    b":",
]


@dataclass
class Reader:
    """``of``: samples by file name; ``read`` gets the folder with one of them written to NAME."""

    name: str
    of: list[bytes]
    read: Callable[[Path], object]
    kind: str = "binary"  # or "text", "json"
    beside: dict[str, bytes] | None = None  # files that lie in the folder


# ---- damage


def damaged(r: random.Random, reader: Reader) -> bytes:
    """One of the reader's samples with one to four changes."""
    data = r.choice(reader.of)
    if reader.kind == "json" and r.random() < 0.8:
        return json_damage(r, data)
    out = bytearray(data)
    for _ in range(r.choice((1, 1, 1, 2, 4))):
        change = r.choice(_TEXT if reader.kind != "binary" and r.random() < 0.6 else _BYTES)
        change(r, out, reader)
    return bytes(out)


def _flip(r: random.Random, out: bytearray, _: Reader) -> None:
    if out:
        out[r.randrange(len(out))] ^= 1 << r.randrange(8)


def _byte(r: random.Random, out: bytearray, _: Reader) -> None:
    if out:
        out[r.randrange(len(out))] = r.choice((0, 1, 0x7F, 0x80, 0xFF, r.randrange(256)))


def _number(r: random.Random, out: bytearray, _: Reader) -> None:
    """A field of 1, 2, 4 or 8 bytes becomes an extreme."""
    size = r.choice((1, 2, 4, 8))
    top = 1 << 8 * size
    value = r.choice((0, 1, top - 1, top >> 1, (top >> 1) - 1, r.randrange(top)))
    at = r.randrange(len(out) + 1)
    out[at : at + size] = value.to_bytes(size, "little")


def _cut(r: random.Random, out: bytearray, _: Reader) -> None:
    del out[r.randrange(len(out) + 1) :]


def _drop(r: random.Random, out: bytearray, _: Reader) -> None:
    at = r.randrange(len(out) + 1)
    del out[at : at + r.choice((1, 2, 8, 64, 400))]


def _twice(r: random.Random, out: bytearray, _: Reader) -> None:
    at = r.randrange(len(out) + 1)
    out[at:at] = out[at : at + r.choice((1, 4, 64, 900))] * r.choice((1, 1, 2, 30))


def _insert(r: random.Random, out: bytearray, _: Reader) -> None:
    at = r.randrange(len(out) + 1)
    out[at:at] = r.randbytes(r.choice((1, 2, 8, 100)))


def _other(r: random.Random, out: bytearray, reader: Reader) -> None:
    """The rest is another sample's."""
    other = r.choice(reader.of)
    out[r.randrange(len(out) + 1) :] = other[r.randrange(len(other) + 1) :]


def _word(r: random.Random, out: bytearray, _: Reader) -> None:
    """A word becomes a hostile one, or another word of the text."""
    found = bytes(out).replace(b":", b" ").replace(b",", b" ").split()
    if found:
        old = r.choice(found)
        at = out.find(old, r.randrange(len(out)))
        if at >= 0:
            out[at : at + len(old)] = r.choice([*WORDS, r.choice(found)])


def _line(r: random.Random, out: bytearray, _: Reader) -> None:
    """A line goes elsewhere, away, or comes often."""
    lines = bytes(out).split(b"\n")
    one = lines.pop(r.randrange(len(lines)))
    for _k in range(r.choice((0, 1, 1, 50))):
        lines.insert(r.randrange(len(lines) + 1), one)
    out[:] = b"\n".join(lines)


_BYTES = (_flip, _flip, _byte, _number, _cut, _drop, _twice, _insert, _other)
_TEXT = (_word, _word, _line)


def json_damage(r: random.Random, data: bytes) -> bytes:
    """A place in the JSON (or TOML's) value gets a hostile one, goes, or gets a new name."""
    value = json.loads(data)
    for _ in range(r.choice((1, 1, 2))):
        value = _changed(r, value)
    text = json.dumps(value, ensure_ascii=r.random() < 0.5)
    return text.encode("utf-8", "surrogatepass")


def _changed(r: random.Random, value: Any) -> Any:
    if isinstance(value, dict | list) and value and r.random() < 0.9:
        out: Any = dict(value) if isinstance(value, dict) else list(value)
        key = r.choice(list(out)) if isinstance(out, dict) else r.randrange(len(out))
        what = r.random()
        if what < 0.1:
            del out[key]
        elif what < 0.2 and isinstance(out, dict):
            out[r.choice(["", "x", "\x1b]0;t\a", key + "x", key.upper()])] = out.pop(key)
        else:
            out[key] = _changed(r, out[key])
        return out
    deep: Any = r.choice(HOSTILE)
    for _ in range(r.choice((0, 0, 0, 0, 0, 3, 500))):
        deep = [deep]
    return deep


# ---- readers


def extracting(name: str, **options: Any) -> Callable[[Path], object]:
    def read(folder: Path) -> object:
        out = folder / "out"
        tracekit.extract(folder / name, out, force=True, **options)
        with tracekit.open(out) as f:
            return [f[n] for n in ("pc", "addr", "taken") if n in f.columns], f.statics

    return read


def everything(path: Path) -> object:
    """All columns, features and targets of a feats.zst."""
    with tracekit.open(path) as f:
        for n in f.columns:
            if f.timed or n not in tracekit.schema.STAGES:
                f[n]
        f.features("perfvec-ref"), f.features("neuroscalar")
        if f.timed:
            f.targets("ticks")
        return repr(list(f.statics))


def traces() -> Iterator[Reader]:
    def of(target: str, skip: int = 0) -> list[bytes]:
        return [s[skip:] for s in samples.of(target)]

    text = [s[:4000] for k, s in enumerate(samples.gem5_samples()) if k != 3]  # 3: parts alone
    yield Reader("gem5 text", text, extracting("gem5 text"), "text")
    yield Reader("gem5 text, macro", text, extracting("gem5 text, macro", level="macro"), "text")
    yield Reader("tkt", of("fuzz_tkt", 2), extracting("tkt"))
    yield Reader("tkt, macro", of("fuzz_tkt", 2), extracting("tkt, macro", level="macro"))
    native = {"level": "macro"}
    yield Reader("tks", recordings(), extracting("tks", **native))
    yield Reader("drmemtrace", [drmemtrace()], extracting("drmemtrace", **native))
    champsim = of("fuzz_champsim", 1)
    yield Reader("t.champsimtrace", champsim[:1], extracting("t.champsimtrace", **native))
    execlog, lackey = of("fuzz_text_streams", 1)
    yield Reader("execlog", [execlog], extracting("execlog", isa="x86", **native), "text")
    yield Reader("lackey", [lackey], extracting("lackey", **native), "text")
    main, stores = samples.perfvec_samples()[0].split(b"\f")
    name = "t.txt"
    yield Reader(name, [main], extracting(name), "text", beside={"t.sq.txt": stores})
    packed = [f(text[0]) for f in (gzip.compress, lzma.compress, zstandard.compress)]
    yield Reader("packed text", packed, extracting("packed text"))
    archives = [p.read_bytes() for p in (ROOT / "tests/golden/drmemtrace").glob("*.zip")]
    yield Reader("t.zip", archives, extracting("t.zip", count=400, **native))


def drmemtrace() -> bytes:
    """One thread: header, instructions with accesses and branches, footer."""
    body = b""
    for k in range(60):
        body += rec((10, 10, 48, 49, 15)[k % 5], 4, 0x402000 + 4 * (k % 20))
        body += rec(k & 1, 8, 0x7000 + 8 * k) * (k % 3 == 0)
    return thread_of(body)


def recordings() -> list[bytes]:
    """Whole .tks: head, blocks, end."""
    from oracles.tks_blocks import code_block, epoch_block

    from tracekit import _core
    from tracekit.inputs.tks import MAPS, TksWriter

    codes = [(0x401000, b"\x74\x10"), (0x401002, b"\x02\x2f"), (0x401000, b"\x0f\x05")]
    rows = [(k % 3, k % 4, [(0x7000 + 8 * k, 8, k & 1)] * (k % 3)) for k in range(40)]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "r.tks"
        with TksWriter(path, arch="x86", meta={"command": ["x"]}) as w:
            w.block(code_block(0, codes))
            w.text(MAPS, {"pid": 1, "maps": [[0x400000, 0x500000, 0, "/bin/true", None]]})
            for n in range(2):
                fields = [n, 1, 1, *[0] * (len(_core.EPOCH_FIELDS) - 3)]
                w.block(epoch_block(fields, rows))
            w.close({"epochs": 2})
        return [path.read_bytes()]


def features(folder: Path) -> bytes:
    (folder / "t").write_text(synthetic.text(11, 300))
    tracekit.extract(folder / "t", folder / "made", chunk_rows=256, force=True)
    return (folder / "made").read_bytes()


def stored(folder: Path) -> Iterator[Reader]:
    """feats.zst: damaged as bytes; and with an index that is damaged and whose checksums are
    right."""
    from tracekit.store.verification import verify

    made = features(folder)
    offset, _ = frames.parse_trailer(made[-frames.TRAILER_SIZE :], "", 0)
    with tracekit.open(folder / "made") as f:
        index = json.dumps(f.index).encode()

    def read(at: Path) -> object:
        return verify(at), everything(at)

    def indexed(at: Path) -> object:
        try:
            value = parse_json((at / "index").read_bytes())
            frame = frames.json_frame(frames.INDEX, value)
        except (ValueError, UnicodeError):  # NaN and such: no index can be made of it
            return None
        whole = made[:offset] + frame + frames.trailer_frame(offset, len(frame))
        (at / "f").write_bytes(whole)
        return read(at / "f")

    yield Reader("feats", [made], lambda at: read(at / "feats"))
    yield Reader("index", [index], indexed, "json")


def tensors() -> bytes:
    from tracekit.model.tensors import safetensors_bytes

    values = {"a": np.arange(6, dtype=np.float32).reshape(2, 3), "b": np.arange(4, dtype=np.int8)}
    return b"".join(safetensors_bytes(values))


def loaders() -> Iterator[Reader]:
    from tracekit.calibration.host import load_natives
    from tracekit.calibration.machine_rows import FORMAT, VERSION, add_machines
    from tracekit.dataset import load_manifest
    from tracekit.dataset.arrays import read_cycles
    from tracekit.exploration.dse import load_known, load_space
    from tracekit.mixture import load_model
    from tracekit.mixture.model import default_model_path
    from tracekit.model import load_card, read_safetensors
    from tracekit.sim.machine import load_machine

    shipped = default_model_path("arm")
    card = (shipped / "card.json").read_bytes()
    whole = json.loads(card)
    model = load_model()
    base = dict(model.cores[0])
    machine = json.dumps(base).encode()
    space = {"base": base, "vary": {"l1d_kb": [16, 32], "rob": [64, 128]}}
    known = {"p": {"0": 5.0, "1": 7}}
    tuned = {
        "format": FORMAT,
        "version": VERSION,
        "columns": [c["name"] for c in model.cores],
        "cores": [{**base, "name": "own"}],
        "row": [0.0] * len(model.cores) + [1.0],
        "machine": {**base, "name": "mine"},
    }
    manifest = {
        "machines": {"a": "m.json", "b": None},
        "programs": [{"name": "p", "data": "f.zst", "family": "q"}, {"name": "o", "data": "g"}],
        "validation": ["q"],
        "test": [],
    }
    natives = [{"name": f"p{k}", "command": ["./p", "x"], "family": "f"} for k in range(3)]
    small = {**whole, "training": {}}

    def one(name: str, of: Any, read: Callable[[Path], object], kind: str = "json") -> Reader:
        data = of if isinstance(of, bytes) else json.dumps(of).encode()
        return Reader(name, [data], lambda at: read(at / name), kind)

    yield one("machine", machine, load_machine)
    yield one("space", space, load_space)
    yield one("known", known, load_known)
    yield one("mine.json", tuned, lambda p: add_machines(model, [p]))
    yield one("natives", {"programs": natives}, load_natives)
    beside = {"m.json": machine, "f.zst": b"", "g": b""}
    yield Reader("manifest", [json.dumps(manifest).encode()],
                 lambda at: load_manifest(at / "manifest"), "json", beside)  # fmt: skip
    toml = 'validation = ["q"]\n[machines]\na = "m.json"\n[[programs]]\nname = "p"\ndata = "g"\n'
    toml += 'family = "q"\n'
    yield Reader("m.toml", [toml.encode()], lambda at: load_manifest(at / "m.toml"), "text", beside)
    folder = {p.name: p.read_bytes() for p in shipped.iterdir()}
    yield Reader("card.json", [card], load_model, "json", folder)
    yield Reader("card.json", [json.dumps(small).encode()], load_card, "json", folder)
    yield one("t.safetensors", tensors(), read_safetensors, "binary")
    array = array_bytes()
    for name, data in (("c.npy", array), ("c.npy.zst", zstandard.compress(array))):
        yield one(name, data, lambda p: read_cycles(p, ("a", "b"), 5), "binary")


def array_bytes() -> bytes:
    with tempfile.TemporaryFile() as f:
        np.save(f, np.arange(10, dtype=np.uint16).reshape(2, 5))
        f.seek(0)
        return f.read()


def programs() -> Iterator[Reader]:
    """ELF files: code, symbols, names; with DWARF where there is a compiler's own."""
    import test_isa_elf

    from tracekit.isa.elf import ElfImage
    from tracekit.symbols import AddressMap

    def read(at: Path) -> object:
        with ElfImage(at / "elf") as elf:
            elf.symbols(), elf.build_id, elf.piece(elf.entry), elf.code(elf.entry)
            starts = [begin for begin, _, _ in elf.loaded()][:3]
        names = AddressMap.of_binary(str(at / "elf"))
        return [(names.name(a + d), names.frames(a + d)) for a in starts for d in (0, 4, 9)]

    yield Reader("elf", [test_isa_elf.GOOD], read)


POLICY = """
[programs]
executables = ["/usr/bin/*"]
[budget]
cpu = 0.01
disk_mb = 50
[predict]
designs = ["ns_8w"]
"""


def of_fleets_and_processors(folder: Path) -> Iterator[Reader]:
    """Real processors, validation, SimPoint's files, runs, policies and messages of agents."""
    from test_fleet_messages import batch

    from tracekit.agent.policy import read_policy
    from tracekit.cli.main import main as command
    from tracekit.cluster.run_folder import ASKED, TASKS
    from tracekit.cluster.summary import state_of, table
    from tracekit.fleet.messages import parse_batch
    from tracekit.hardware import HardwareMachine
    from tracekit.simpoint import read_points, read_vectors
    from tracekit.validation import draw, load_list
    from tracekit.validation.sampling import read_counts
    from tracekit.validation.timing import medians, read_times

    def one(name: str, of: Any, read: Callable[[Path], object], kind: str = "json") -> Reader:
        data = of if isinstance(of, bytes) else json.dumps(of).encode()
        return Reader(name, [data], lambda at: read(at / name), kind)

    def processor(path: Path) -> object:
        machine = HardwareMachine.load(path)
        return repr(machine), machine.checked_on_hardware, machine._repr_html_()

    known = HardwareMachine.load("zen4").replace(checked={"mean": 0.1})
    yield one("real.json", known.to_dict(), processor)
    halves = draw("ab", 5)
    own = [{"name": n, "family": n, "half": halves[n], "command": ["{build:p}"]} for n in "ab"]
    groups = [{"name": "g", "versions": ["a", "b"]}]
    listed = {"seed": 5, "builds": {"p": ["cc", "-o", "{out}"]}, "programs": own, "groups": groups}
    listed["environment"] = {"A": "b"}
    yield one("list.json", listed, load_list)
    counts = {"instructions": 9, "every": 1, "samples": 1, "distance": 0.1, "foreign": None}
    yield one("counts.json", {**counts, "seconds": 1.0, "digest": "0" * 16}, read_counts)
    time_of = {"program": "a", "user": 0.5, "system": 0.0, "wall": 0.5, "clock": 4.0, "time": 0.0}
    time_of["digest"] = "0" * 16
    times = (json.dumps(time_of) + "\n").encode() * 4
    yield one("times.jsonl", times, lambda p: medians(read_times(p)), "text")
    yield one("v.bb", b"T:1:40 :2:60 \nT:2:100 \n", read_vectors, "text")
    lists = {"p.simpoints": b"0 0\n7 1\n", "p.weights": b"0.25 0\n0.75 1\n"}
    for name, data in lists.items():
        yield Reader(name, [data], lambda at: read_points(at / "p.simpoints", at / "p.weights", 9),
                     "text", lists)  # fmt: skip
    user = '[agent]\nuser = "nobody"\n' if os.geteuid() == 0 else ""
    yield one("policy.toml", (POLICY + user).encode(), read_policy, "text")
    yield one("batch", batch().to_bytes(), lambda p: parse_batch(p.read_bytes()))
    (folder / "run.out").write_text(synthetic.text(11, 100))
    run = folder / "run"
    words = ["extract", str(folder / "run.out"), "-q", "-o", f"{run}/", "--run", str(run)]
    if command(words) != 0:
        raise ValueError("no run to be damaged")

    def state(at: Path) -> object:
        found = state_of(at)
        return found.to_dict(), table(found.traces, found.totals())

    made = {name: (run / name).read_bytes() for name in (ASKED, TASKS)}
    yield Reader(ASKED, [made[ASKED]], state, "json", made)
    yield Reader(TASKS, [made[TASKS]], state, "text", made)


def all_readers(folder: Path) -> list[Reader]:
    more = of_fleets_and_processors(folder)
    return [*traces(), *stored(folder), *loaders(), *programs(), *more]


# ---- running


@contextmanager
def alarm(seconds: int) -> Iterator[None]:
    def late(_number: int, _frame: object) -> None:
        raise TimeoutError(f"over {seconds} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def one_input(reader: Reader, data: bytes, folder: Path) -> str | None:
    """What came out that should not have, else None."""
    for name, content in (reader.beside or {}).items():
        if name != reader.name:
            (folder / name).write_bytes(content)
    (folder / reader.name).write_bytes(data)
    try:
        with alarm(PATIENCE):
            reader.read(folder)
    except TracekitError:
        pass
    except Exception as e:
        return f"{type(e).__name__}: {e}\n{traceback.format_exc()}"
    return None


def run(
    inputs: int, seed: int, keep: Path, only: list[str] | None = None, say: bool = False
) -> tuple[int, dict[str, list[str]]]:
    """(inputs run, findings by reader); what was found is in ``keep``."""
    found: dict[str, list[str]] = {}
    done = 0
    with tempfile.TemporaryDirectory(prefix="damage-") as temporary:
        folder = Path(temporary)
        readers = [x for x in all_readers(folder) if only is None or x.name in only]
        for number, reader in enumerate(readers):
            r = random.Random(f"{seed} {number} {reader.name}")
            share = inputs // len(readers) + (number < inputs % len(readers))
            place = folder / str(number)
            place.mkdir()
            began = time.monotonic()
            for _ in range(share):
                data = damaged(r, reader)
                wrong = one_input(reader, data, place)
                done += 1
                if wrong is not None:
                    seen = found.setdefault(reader.name, [])
                    seen.append(wrong)
                    keep.mkdir(parents=True, exist_ok=True)
                    (keep / f"{reader.name.replace(' ', '_')}.{len(seen)}").write_bytes(data)
            shutil.rmtree(place)
            if say:
                took = time.monotonic() - began
                wrong_ones = len(found.get(reader.name, []))
                print(
                    f"{reader.name:<18}{share:>8} inputs {took:7.1f} s  {wrong_ones} findings",
                    flush=True,
                )
    return done, found


def main() -> int:
    p = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    p.add_argument("--inputs", type=int, default=200_000)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--only", nargs="+")
    p.add_argument("--keep", type=Path, default=Path("build/damage"))
    args = p.parse_args()
    done, found = run(args.inputs, args.seed, args.keep, args.only, True)
    for name, wrong in found.items():
        for text in {w.splitlines()[0]: w for w in wrong}.values():  # one of each
            print(f"--- {name}\n{text[-3000:]}")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    print(f"{done} inputs, {sum(map(len, found.values()))} findings, {peak} MB at most")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
