"""Measuring this computer: what finds sizes, what settles, the kernels, the file."""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import struct
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tracekit.cli.main import main
from tracekit.errors import TracekitError, UsageError
from tracekit.hardware import HardwareMachine
from tracekit.hardware.measure import (
    branches,
    calibrate,
    computer,
    front_end,
    loads_and_stores,
    memory,
    shared_core,
    timing,
)
from tracekit.hardware.measure import library as library_module
from tracekit.hardware.measure import settling as settling_module
from tracekit.hardware.measure.bench import PAGE, Bench, Experiment, family, first_above
from tracekit.hardware.measure.form_kernels import include_text
from tracekit.hardware.measure.kernels import Kernel, kernel
from tracekit.hardware.measure.library import Call, form_kernels, snippets, time_calls
from tracekit.hardware.measure.machine_file import parameters_of, schedulers_of
from tracekit.hardware.measure.processor import nearest_machine
from tracekit.hardware.measure.settling import Settling
from tracekit.hardware.measure.timing import Run
from tracekit.hardware.measure.windows import paired_nops, window

ROOT = Path(__file__).resolve().parent.parent
LIBRARY = Path(library_module.__file__).with_name(library_module.NAME)
pytestmark = pytest.mark.skipif(not LIBRARY.exists(), reason="the library was not built")
X86 = pytest.mark.skipif(library_module.isa() != "x86", reason="x86's machine code")


@pytest.fixture(scope="module")
def bench() -> Bench:
    return Bench(16)


# ---- what finds a size


@settings(max_examples=80)
@given(st.integers(3, 1020), st.floats(1.6, 3.0), st.integers(0, 2**31))
def test_a_window_is_where_two_misses_begin_to_follow_one_another(
    size: int, slower: float, seed: int
) -> None:
    noise = np.random.default_rng(seed)

    def time_of(n: int) -> float:
        return (500 if n <= size else 500 * slower) * (1 + 0.03 * noise.random())

    if size >= 24:  # the first three sizes are what one miss takes
        assert window(time_of) == size
    assert window(lambda n: 500.0) is None


@settings(max_examples=80)
@given(st.integers(1, 3000), st.integers(1, 40))
def test_a_threshold_is_found_to_the_step(size: int, step: int) -> None:
    found = first_above(lambda n: float(n > size), [2**k for k in range(13)], 0.5, step)
    assert found is not None and size < found <= size + max(step, 1)
    assert first_above(lambda n: 0.0, [1, 2, 4], 0.5) is None


def test_a_spike_is_no_threshold() -> None:
    spikes = iter([0.0, 9.0] + [0.0] * 50)
    assert first_above(lambda n: next(spikes), [2**k for k in range(6)], 0.5) is None


# ---- what settles


def _settled(bench: Bench, rounds: list[dict[str, float]], seconds: float = 60.0) -> Settling:
    values = iter(rounds)
    e = Experiment("e", "an experiment", lambda b: next(values), 0.05, 0.1)
    settling = Settling(bench, time.monotonic() + seconds, lambda *a: None)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(settling_module, "SHARE", 0)  # whoever else computes here
        settling.run([e])
    return settling


def test_two_rounds_that_agree_settle(bench: Bench) -> None:
    found = _settled(bench, [{"a": 10.0, "b": 3.0}, {"a": 10.2, "b": 3.0}]).outcomes
    assert found["a"].settled and found["a"].value == pytest.approx(10.1)
    assert found["b"].rounds == [3.0, 3.0]


def test_rounds_that_disagree_are_repeated(bench: Bench) -> None:
    found = _settled(bench, [{"a": v} for v in (10.0, 20.0, 40.0, 19.9)]).outcomes["a"]
    assert found.settled and found.value == pytest.approx(19.95) and len(found.rounds) == 4


def test_what_never_agrees_is_not_settled(bench: Bench) -> None:
    found = _settled(bench, [{"a": 2.0**k} for k in range(9)]).outcomes["a"]
    assert not found.settled and len(found.rounds) == 6


def test_one_round_in_too_little_time_is_not_settled(bench: Bench) -> None:
    found = _settled(bench, [{"a": 1.0}] * 9, seconds=-1.0).outcomes["a"]
    assert not found.settled and len(found.rounds) == 1


def test_a_clock_that_jumps_is_repeated_and_then_refused(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settling_module, "SHARE", 0)  # whoever else computes here

    def jumps(b: Bench) -> dict[str, float]:
        b.timer.ns_per_cycle += [0.25] * 5 + [0.5] * 5
        return {"a": 1.0}

    rounds = Settling(bench, time.monotonic() + 9, lambda *a: None)
    with pytest.raises(TracekitError, match=r"the clock moved by 100%, 8 times in a row"):
        rounds.run([Experiment("e", "steps", jumps)])
    assert rounds.notes[0] == "steps: repeated, the clock moved by 100%"


def test_a_busy_neighbour_is_refused(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    cpu = max(os.sched_getaffinity(0))
    code = f"import os\nos.sched_setaffinity(0, {{{cpu}}})\nprint(1, flush=True)\nwhile True: pass"
    monkeypatch.setattr(computer, "_PATIENCE", 1)
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as other:
        try:
            assert other.stdout is not None and other.stdout.readline()
            with pytest.raises(TracekitError, match=f"another program takes .* of processor {cpu}"):
                calibrate(cpu=cpu, megabytes=16)
        finally:
            other.kill()
    assert cpu in os.sched_getaffinity(0) and len(os.sched_getaffinity(0)) > 0


def test_a_timing_waits_until_no_thread_shares_the_core(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    slower, done = iter([1.5, 1.3, 1.05]), iter(range(9))
    waited, shared = bench.timer.waited, bench.timer.shared
    monkeypatch.setattr(bench.timer, "slower", lambda: next(slower))
    assert bench.timer.undisturbed(lambda: next(done)) == 2
    assert bench.timer.waited > waited and bench.timer.shared == shared
    monkeypatch.setattr(bench.timer, "alone", False)
    assert bench.timer.undisturbed(lambda: next(done)) == 3  # without a look


def test_a_core_that_stays_shared_is_refused(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing, "_PATIENCE", -1.0)
    monkeypatch.setattr(bench.timer, "slower", lambda: 2.0)
    chain = Experiment("e", "steps", lambda b: {"a": b.cycles(["chain_add"] * 64, 64, rounds=1)})
    settling = Settling(bench, time.monotonic() + 9, lambda *a: None)
    with pytest.raises(TracekitError, match="steps: another thread shares the core, 8 times"):
        settling.run([chain])


def test_a_slower_core_is_seen(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    assert bench.timer.slower() > 0
    core = bench.timer._core
    assert core is not None
    monkeypatch.setattr(core, "_least", core._least / 2)  # a moment in which it was twice as fast
    assert bench.timer.slower() > 1.5


def test_one_wrong_look_is_no_best_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = iter([*[1.0] * 100, 0.5, 1.02, 1.01, 1.0, 0.7, 0.69, 0.68, 1.0])
    monkeypatch.setattr(shared_core, "_look", lambda: next(looks, 1.0))
    monkeypatch.setattr(shared_core, "_LOOKS", 98)
    core = shared_core.SharedCore()
    assert core.slower() == pytest.approx(1.02) and not core.shared()
    assert core.slower() == pytest.approx(1.0)  # three looks in a row: a better moment
    assert core.slower() == pytest.approx(1 / 0.7) and core.shared()


def test_a_look_is_of_a_steady_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    chain = iter([2.0, 1.0, 1.0, 1.01, 1.5, 1.5, 9.0])
    free = iter([0.1, 0.8, 0.81, 0.2, 1.3])
    monkeypatch.setattr("tracekit._core.add_chain_seconds", lambda rounds: next(chain))
    monkeypatch.setattr("tracekit._core.free_adds_seconds", lambda rounds: next(free))
    assert shared_core._look() == pytest.approx(0.8)
    chain = iter(float(2**k) for k in range(99))
    monkeypatch.setattr("tracekit._core.add_chain_seconds", lambda rounds: next(chain))
    monkeypatch.setattr("tracekit._core.free_adds_seconds", lambda rounds: 1.0)
    assert shared_core._look() == pytest.approx(2 / (2**11 + 2**12))  # none was steady: the last


@pytest.mark.parametrize("line", [32, 64, 128])
@pytest.mark.parametrize("arriving", [4.0, 7.1])
def test_a_line_ends_where_a_second_load_misses(line: int, arriving: float) -> None:
    """``arriving``: cycles of a load whose line is still on its way."""

    class Latencies:
        rng = np.random.default_rng(0)

        def latency(self, offsets: np.ndarray) -> float:
            near = np.diff(offsets[:2])[0] < 1024 and len(offsets) > 256
            if not near:
                return 14.0
            same = offsets[0] // line == offsets[1] // line
            return (14.0 + (arriving if same else 13.2)) / 2

    assert memory._line(Latencies(), 32 << 10) == line  # type: ignore[arg-type]


@pytest.mark.parametrize(("nops", "mixed", "slots"), [(12, 6, 2), (8, 7.6, 1), (8, 5.5, 1)])
def test_two_nops_may_be_one_slot(nops: float, mixed: float, slots: int) -> None:
    class Widths:
        def cycles(self, body: list[str], steps: int) -> float:
            return 1 / (nops if set(body) == {"wide_nop"} else mixed)

    assert paired_nops(Widths()) == slots  # type: ignore[arg-type]


# ---- kernels


@pytest.mark.skipif(library_module.isa() != "x86", reason="x86's lines of code")
@pytest.mark.parametrize(
    ("last", "step", "found"),
    [
        (12, 1.5, {"line_step_cycles": 1.5, "line_together": 12, "line_more_cycles": 3.0}),
        (8, 1.0, {"line_step_cycles": 1.0, "line_together": 8, "line_more_cycles": 2.5}),
        (12, 0.5, {"line_step_cycles": 0.0}),
    ],
)
def test_the_instructions_of_a_line_that_come_together(
    last: int, step: float, found: dict[str, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Lines:
        def cycles(self, body: int, steps: int, rounds: int) -> float:
            return 1.5 if body <= last else 1.5 + step

    assert all(len(front_end._lines(n)) == 16 * 64 for n in range(5, 16))
    monkeypatch.setattr(front_end, "_lines", lambda count: count)
    assert front_end.lines(Lines()) == found  # type: ignore[arg-type]


def test_a_chain_of_additions_takes_a_cycle_each(bench: Bench) -> None:
    assert bench.cycles(["chain_add"] * 100, 100) == pytest.approx(1.0, rel=0.1)
    assert bench.cycles(family("result", 96), 96) < 0.8


def test_an_unknown_instruction_is_told_and_not_fatal(bench: Bench) -> None:
    wrong = {"x86": b"\x0f\x0b", "arm": b"\x00\x00\x00\x00"}[library_module.isa()]
    k = kernel(wrong)
    for _ in range(2):
        assert time_calls([Call(k.entry, 0, 0, bench.scratch, 1)], 3) is None
    for run in (Run(k), Run(k, count=16)):
        known = Run(kernel(["chain_add"] * 100, 100), count=16)
        first, second = bench.timer.cycles_many([run, known])
        assert first is None and second == pytest.approx(1.0, rel=0.2)
    assert bench.cycles(["chain_add"] * 100, 100) == pytest.approx(1.0, rel=0.1)


def test_a_ring_is_walked_whole(bench: Bench) -> None:
    offsets = bench.lines(64 * PAGE)
    bench.ring(offsets)
    at, seen = int(offsets[0]), set()
    while at not in seen:
        seen.add(at)
        at = int(bench.data.words[at // 8]) - bench.data.address
    assert seen == set(offsets.tolist())


def test_every_snippet_is_there_and_short() -> None:
    assert all(0 < len(code) <= 400 for code in snippets().values())
    for name in ("enter", "leave", "again", "jump", "call", "ret", "nop", "chain_add", "chase_a"):
        assert name in snippets()


def test_the_pieces_for_aarch64_run_under_emulation(tmp_path: Path) -> None:
    """That each builds, ends and takes time is all that an emulator can say."""
    compiler, emulator = shutil.which("aarch64-linux-gnu-gcc"), shutil.which("qemu-aarch64")
    source = ROOT / "csrc" / "hardware" / "measure"
    if compiler is None or emulator is None or not source.exists():
        pytest.skip("needs the sources, aarch64-linux-gnu-gcc and qemu-aarch64")
    host = tmp_path / "host"
    package = Path(library_module.__file__).parent
    forms = (package / "forms_arm.txt").read_text().splitlines()
    (tmp_path / "forms.inc").write_text(include_text(forms, "arm"))
    files = [ROOT / "tests" / "measure_host.c", *sorted(source.glob("*.c"))]
    flags = ["-std=c11", "-D_GNU_SOURCE", "-O2", "-static", f"-I{source}", f"-I{tmp_path}"]
    subprocess.run([compiler, *flags, "-o", str(host), *map(str, files)], check=True)
    done = subprocess.run([emulator, str(host)], capture_output=True, text=True, check=True)
    lines = [line.split(";") for line in done.stdout.splitlines()]
    assert len(forms) >= 300 and {line[0] for line in lines} > set(forms)
    assert [(name, signal) for name, signal, _ in lines if signal != "0"] == []
    assert all(float(ns) > 0 for _, _, ns in lines)
    for name in ("chain_add", "chase_a", "forward64", "stride_chain", "random_load", "bits_branch"):
        assert any(line[0] == name for line in lines)


@pytest.mark.skipif(library_module.isa() != "x86", reason="kernels of x86-64 forms")
def test_form_kernels_hold_the_form_that_they_name() -> None:
    capstone = pytest.importorskip("capstone")
    assert capstone
    from tracekit.hardware.forms import decode_form

    kernels = form_kernels()
    named = {k.form for k in kernels}
    listed = (Path(library_module.__file__).parent / "forms_x86.txt").read_text().split("\n")[:-1]
    assert len(listed) >= 700 and named <= set(listed) and len(named) > 0.99 * len(listed)
    for k in kernels:
        at, seen = 0, 0
        while at < len(k.body):
            one = decode_form(k.body[at : at + 15], "x86")
            assert one.length, (k.form, k.body.hex())
            seen += one.form == k.form
            at += one.length
        assert seen == k.instances, (k.form, seen, k.instances)


def _run(code: bytes) -> list[tuple[int, str]]:
    """What a body of jumps, moves and instructions that do nothing executes: places and names."""
    known = {n: c for n, c in snippets().items() if n.startswith("move") or n == "nop"}
    at, out = 0, []
    while at < len(code):
        name = next((n for n, c in known.items() if code[at : at + len(c)] == c), "jump")
        out.append((at, name))
        if name == "jump":
            assert code[at] == 0xE9
            at += struct.unpack("<i", code[at + 1 : at + 5])[0]
            at += 5
        else:
            at += len(known[name])
    assert at == len(code)
    return out


def _body(k: Kernel) -> bytes:
    code = ctypes.string_at(k.pages.address, k.pages.size)[k.loop - k.entry :]
    return code[: code.index(snippets()["again"][:4])]


@X86
@pytest.mark.parametrize(("count", "before"), [(3, 0), (3, 2), (9, 0), (14, 5)])
def test_pieces_are_entered_by_jumps_in_the_line_that_they_should_be(
    count: int, before: int
) -> None:
    ran = _run(front_end._entered(count, before))
    moves = [at // 64 for at, name in ran if name.startswith("move")]
    assert len(moves) == 32 * count and sum(n == "jump" for _, n in ran) == 32 + (before > 0)
    for k in range(32):
        lines = moves[k * count : (k + 1) * count]
        assert [x - lines[0] for x in lines] == [0] * before + [before > 0] * (count - before)


@X86
def test_jumps_in_a_random_order_are_each_executed_once() -> None:
    ran = _run(_body(branches._jumps(300, 16, np.random.default_rng(1))))
    places = [at // 16 for at, name in ran if name == "jump"]
    assert sorted(places) == list(range(300)) and places != sorted(places)


@X86
def test_a_table_s_places_have_sizes_of_their_own_and_one_end() -> None:
    k, where = branches._table(np.random.default_rng(1))
    code = _body(k)
    starts = [int(w) - k.loop for w in where]
    assert len(starts) == 16 and len(set(np.diff(starts).tolist())) > 4
    assert all(_run(code[s:])[1:] == [] for s in starts)


# ---- the machine


def test_values_become_parameters_within_their_ranges() -> None:
    found = {
        "l1d_kb": 48.0,
        "load_latency": 3.99,
        "mispredict_cycles": 19.5,
        "memory_cycles": 500.0,
        "memory_read_bytes": 10.0,
        "memory_misses": 32.2,
        "nop_per_cycle": 7.96,
        "mixed_per_cycle": 6.1,
        "forward_renamed_cycles": 0.5,
        "forward_cycles": 6.98,
        "forward_wider_cycles": 13.97,
        "l2_latency": 13.42,
        "waiting_add": 82.0,
        "tlb_l2": 1e9,
        "l3_there": 0.0,
        "indexed_load_cycles": 3.99,
        "scaled_load_cycles": 4.98,
        "call_return_cycles": 4.13,
        "taken_cycles": 0.52,
        "pair_cycles": 0.53,
        "result_per_cycle": 5.98,
        "float_add_cycles": 2.0,
        "float_multiply_cycles": 3.0,
        "float_both_cycles": 5.99,
        "indirect_cycles": 4.02,
        "indirect_period": 2048,
        "line_step_cycles": 1.5,
        "line_together": 12,
        "line_more_cycles": 3.06,
    }
    got = parameters_of(found, 0.25)
    assert got["scaled_latency"] == 1 and got["return_penalty"] == 3
    assert got["wakeup_cycles"] == 1.2 and got["add_forward"] == 1
    assert got["clock_ghz"] == 4.0 and got["l1d_kb"] == 48 and got["load_latency"] == 4.0
    assert got["memory_ns"] == 125 and got["memory_gb_s"] == 40 and got["l2_misses"] == 78
    assert got["width"] == 8 and got["memory_renaming"] == 2 and got["forward_fail"] == 7.0
    assert got["l2_latency"] == 13.4 and got["mispredict_penalty"] == 19.5
    assert got["tlb_l2"] == 1 << 20 and got["l3_kb"] == 0 and "retire_width" not in got
    assert (got["op_cache_width"], got["op_cache_entry"], got["op_cache_more"]) == (12, 6, 1)
    assert got["indirect_entries"] == 3 * 2048 and got["indirect_cycles"] == 3
    never = parameters_of({"indirect_cycles": 4.0, "taken_cycles": 0.5}, 0.25)
    assert never["indirect_entries"] == 65536
    assert parameters_of({"line_step_cycles": 0.0}, 0.25)["op_cache_more"] == 0
    entered = {"entered_cycles": 1.03, "entered_two_cycles": 2.09}
    entered |= {"entry_together": 9, "entry_more_cycles": 2.02}
    one = parameters_of({"line_step_cycles": 0.0, **entered}, 0.25)
    assert (one["op_cache_entry"], one["op_cache_entry_cycles"]) == (9, 1)
    assert one["next_line_cycles"] == 1
    both = parameters_of({**found, **entered}, 0.25)
    assert (both["op_cache_entry"], both["op_cache_entry_cycles"]) == (6, 0)
    HardwareMachine.load("zen5").replace(**both)
    paired = {"nop_per_cycle": 11.93, "mixed_per_cycle": 5.99}
    assert parameters_of(paired, 0.25)["width"] == 6
    assert "rob" not in got and "l3_kb" not in parameters_of({"memory_cycles": 500.0}, 0.25)
    base = HardwareMachine.load("zen5")
    schedulers = schedulers_of(base, found)
    assert [s["entries"] for s in schedulers][1:] == [s.entries for s in base.schedulers][1:]
    assert schedulers[0]["entries"] == 84
    several = schedulers_of(HardwareMachine.load("zen4"), {"waiting_add": 90.0})
    assert [s["entries"] for s in several][:5] == [23, 23, 23, 23, 64]


@pytest.mark.parametrize(
    ("one", "near", "half", "commits", "block"),
    [
        (1.0, 1.0, 1.0, 1, 64),
        (1.0, 2.0, 1.0, 2, 32),
        (1.0, 2.0, 2.0, 2, 64),
        (2.0, 2.0, 2.0, 2, 64),
    ],
)
def test_stores_that_go_together(
    one: float, near: float, half: float, commits: int, block: int
) -> None:
    names = ("store_per_cycle", "store_near_per_cycle", "store_half_per_cycle")
    got = parameters_of(dict(zip(names, (one, near, half), strict=True)), 0.25)
    assert (got["store_commits"], got["store_block"]) == (commits, block)


def test_the_nearest_machine_is_known() -> None:
    name, _ = nearest_machine()
    assert HardwareMachine.load(name).isa == library_module.isa()


def test_wrong_requests_end_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = str(tmp_path / "here.json")
    other = "neoverse_n1" if library_module.isa() == "x86" else "zen5"
    with pytest.raises(UsageError, match="this computer is"):
        calibrate(base=HardwareMachine.load(other), megabytes=16)
    with pytest.raises(UsageError, match="processor 4000 is not among those of this process"):
        calibrate(cpu=4000, megabytes=16)
    assert main(["calibrate", "-o", out, "--seconds", "0"]) == 2
    assert "--seconds is 0; more than 0" in capsys.readouterr().err
    assert main(["calibrate", "-o", out, "--base", "nothing"]) == 2
    assert "no real processor has this name" in capsys.readouterr().err
    assert not Path(out).exists()


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_this_computer_is_measured(tmp_path: Path) -> None:
    """The truth of an AMD family 26; elsewhere that it ends with a machine."""
    out = tmp_path / "here.json"
    done = subprocess.run(
        [sys.executable, "-m", "tracekit", "calibrate", "-o", str(out), "--json"],
        capture_output=True,
        text=True,
        check=True,
    )
    told = json.loads(done.stdout)
    machine = HardwareMachine.load(out)
    assert told["machine"]["rob"] == machine.rob and told["seconds"] < 200
    assert len(machine.measured) > 250 or library_module.isa() != "x86"
    if "(family 26," in machine.cpu:
        assert told["values"]["line_bytes"]["value"] == 64
        assert (machine.l1d_kb, machine.l2_kb) == (48, 1024)
        assert abs(machine.load_latency - 4) <= 1 and abs(machine.l2_latency - 14) <= 2
        assert machine.rob == pytest.approx(448, rel=0.1)


@pytest.mark.parametrize(
    ("anywhere", "on_the_stack", "pairs", "renaming", "loads"),
    [(0.5, 0.5, 64.0, 2, None), (6.1, 1.0, 12.0, 1, 12), (6.1, 6.2, 0.0, 0, 0)],
)
def test_which_loads_are_renamed(anywhere, on_the_stack, pairs, renaming, loads) -> None:
    """Zen 5; Zen 3, which knows twelve loads besides those of its stack; no renaming."""
    got = parameters_of(
        {
            "forward_renamed_cycles": anywhere,
            "forward_stack_cycles": on_the_stack,
            "forward_cycles": 7.0,
            "renamed_loads": pairs,
        },
        0.25,
    )
    assert got["memory_renaming"] == renaming and got.get("rename_loads") == loads


def test_pairs_that_are_renamed_are_counted() -> None:
    """Up to the first number of pairs of which one is slow."""

    class Processor:
        def cycles(self, body: list[str], steps: int) -> float:
            assert body == ["forward64"] * steps
            return 1.0 if steps <= 12 or steps == 24 else 6.2

    found = loads_and_stores._renamed_loads(Processor(), 3.5)  # type: ignore[arg-type]
    assert found == {"renamed_loads": 12.0}
