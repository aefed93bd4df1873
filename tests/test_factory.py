"""Ground truth as a command, by a stand-in for gem5 (gem5_stand_in.py); by the real one where
TRACEKIT_GEM5 names it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import gem5_stand_in
import numpy as np
import pytest

import tracekit
from tracekit.cli.main import main
from tracekit.dataset import Dataset, load_manifest
from tracekit.errors import FormatError, UsageError
from tracekit.factory import draw_machines, load_plan
from tracekit.factory.drawing import PREDICTORS
from tracekit.plugin import plugin_sources
from tracekit.sim import MACHINE_PARAMETERS, core_row, machine_errors

PLAN = """
seed = 3
validation = ["two"]
[machines]
out_of_order = 2
in_order = 1
use = ["o3_small"]
[window]
instructions = 900
[[programs]]
name = "a"
family = "one"
binary = "bin/prog"
arguments = ["x"]
[[programs]]
name = "b"
family = "two"
binary = "bin/other"
skip = 40
warm = 7
stdin = "in.txt"
files = ["data/words.txt"]
arguments = ["words.txt"]
"""
MACHINES = ["o3_00", "o3_01", "minor_00", "o3_small"]


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    (tmp_path / "bin").mkdir()
    (tmp_path / "data").mkdir()
    for name in ("prog", "other"):
        gem5_stand_in.program(tmp_path / "bin", name)
    (tmp_path / "in.txt").write_text("input")
    (tmp_path / "data" / "words.txt").write_text("some words")
    (tmp_path / "plan.toml").write_text(PLAN)
    gem5_stand_in.install(tmp_path)
    return tmp_path / "plan.toml"


def factory(plan: Path, out: str = "out", *more: str) -> int:
    folder = plan.parent
    gem5 = str(folder / "gem5.opt")
    return main(["factory", str(plan), "--gem5", gem5, "-o", str(folder / out), "-q", *more])


def content(folder: Path) -> dict[str, bytes]:
    """Everything but the records, which hold times."""
    return {
        str(p.relative_to(folder)): p.read_bytes()
        for p in sorted(folder.rglob("*"))
        if p.is_file() and "run" not in p.relative_to(folder).parts[:1]
    }


def said(capsys: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_a_plan_becomes_a_dataset(plan, capsys):
    assert factory(plan, "out", "--json") == 0
    told = said(capsys)
    assert (told["programs"], told["machines"], told["failed"]) == (["a", "b"], MACHINES, [])
    assert (told["rows"], told["runs"]) == (1800, 10)
    manifest = load_manifest(plan.parent / "out" / "manifest.json")
    assert manifest.common_machines() == tuple(MACHINES)
    assert (manifest.families, manifest.validation) == (("one", "two"), {"two"})
    for p in manifest.programs:
        with p.open() as data:
            assert data.machines == tuple(MACHINES) and len(data) == 900
            totals = {}
            for k, m in enumerate(MACHINES):
                path = plan.parent / "out" / "cycles" / f"{p.name}.{m}.npy.zst"
                cycles = tracekit.dataset.read_cycles(path, (m,), 900)[0]
                assert cycles.dtype == np.uint32
                assert np.array_equal(data.cycles()[:, k], cycles)
                totals[m] = int(cycles.sum())
            assert len(set(totals.values())) > 2
    # What the simulator reads is what gem5 was given.
    for m in MACHINES:
        given = json.loads((plan.parent / "out" / "machines" / f"{m}.json").read_text())
        assert np.array_equal(core_row(given, "riscv"), core_row(manifest.machines[m], "riscv"))
    assert not list((plan.parent / "out").rglob("*scratch*"))


def test_the_same_bytes_in_another_folder_and_in_parallel(plan, tmp_path):
    assert factory(plan) == 0
    assert factory(plan, "deeper/down", "--jobs", "3") == 0
    assert content(tmp_path / "out") == content(tmp_path / "deeper" / "down")


def test_an_output_that_is_named_from_here(plan, tmp_path, monkeypatch):
    assert factory(plan) == 0
    monkeypatch.chdir(tmp_path)
    command = ["factory", plan.name, "--gem5", "./gem5.opt", "-o", "from_here", "-q"]
    assert main(command) == 0
    assert content(tmp_path / "out") == content(tmp_path / "from_here")


def test_the_same_bytes_by_dask_s_workers(plan, tmp_path):
    pytest.importorskip("distributed", reason="needs the extra cluster")
    assert factory(plan) == 0
    assert factory(plan, "cluster", "--cluster", "local:2") == 0
    assert content(tmp_path / "out") == content(tmp_path / "cluster")


def test_the_folder_of_the_plan_is_not_in_the_bytes(plan, tmp_path):
    assert factory(plan) == 0
    moved = tmp_path / "elsewhere"
    moved.mkdir()
    for name in ("bin", "data", "in.txt", "plan.toml"):
        (tmp_path / name).rename(moved / name)
    gem5_stand_in.install(moved)
    assert factory(moved / "plan.toml") == 0
    assert content(tmp_path / "out") == content(moved / "out")


def test_what_is_done_is_not_done_again(plan, capsys):
    assert factory(plan) == 0
    (plan.parent / "gem5.opt").with_name("x").touch()
    before = {p: p.stat().st_mtime_ns for p in (plan.parent / "out" / "cycles").iterdir()}
    gone = plan.parent / "out" / "cycles" / "b.o3_01.npy.zst"
    whole = gone.read_bytes()
    gone.unlink()
    assert factory(plan) == 0
    after = {p: p.stat().st_mtime_ns for p in (plan.parent / "out" / "cycles").iterdir()}
    assert {p for p in before if before[p] != after[p]} == {gone} and gone.read_bytes() == whole
    # Another program of the same name is run anew, and only that.
    gem5_stand_in.program(plan.parent / "bin", "other", text="another")
    assert factory(plan) == 0
    last = {p: p.stat().st_mtime_ns for p in (plan.parent / "out" / "cycles").iterdir()}
    assert {p.name.split(".")[0] for p in last if last[p] != after[p]} == {"b"}


def test_a_killed_factory_goes_on(plan, tmp_path):
    assert factory(plan, "whole") == 0
    text = PLAN.replace('"words.txt"]\n', '"words.txt", "slow:"]\n').replace('["x"]', '["x"]')
    (tmp_path / "go").touch()
    plan.write_text(text)
    (tmp_path / "bin" / "go").touch()
    assert factory(plan, "expected") == 0
    (tmp_path / "bin" / "go").unlink()
    command = [sys.executable, "-m", "tracekit", "factory", str(plan), "-q", "-j", "2"]
    command += ["--gem5", str(tmp_path / "gem5.opt"), "-o", str(tmp_path / "out")]
    environment = {**os.environ, "PYTHONPATH": str(Path(tracekit.__file__).parent.parent)}
    with subprocess.Popen(command, env=environment) as p:
        records = tmp_path / "out" / "run" / "tasks.jsonl"
        deadline = time.monotonic() + 60
        while not (records.exists() and records.read_text().count("\n") >= 1):
            assert time.monotonic() < deadline and p.poll() is None
            time.sleep(0.02)
        p.send_signal(signal.SIGKILL)
    (tmp_path / "bin" / "go").touch()
    assert not (tmp_path / "out" / "manifest.json").exists()
    assert factory(plan) == 0
    assert content(tmp_path / "out") == content(tmp_path / "expected")


def test_what_failed_is_told_and_left_out(plan, capsys):
    text = PLAN.replace('["x"]', '["fatal:minor_00", "other-way:o3_01"]')
    text = text.replace('["words.txt"]\n[', '["words.txt"]\n[').rstrip()
    text = text[: text.rindex('["words.txt"]')] + '["fatal:minor_00"]\n'
    plan.write_text(text)
    assert factory(plan, "out", "--json") == 1
    captured = capsys.readouterr()
    told = json.loads(captured.out)
    why = {(f["program"], f["machine"]): f["error"] for f in told["failed"]}
    assert set(why) == {("a", "minor_00"), ("b", "minor_00"), ("a", "o3_01")}
    assert "exit code 1): src/sim/x.cc:7: fatal: out of everything" in why["a", "minor_00"]
    assert "at row 5 of 900 it is at 0x100" in why["a", "o3_01"]
    assert {n["name"] for n in told["left_out"]} == {"minor_00", "a"}
    assert (told["programs"], told["machines"]) == (["b"], ["o3_00", "o3_01", "o3_small"])
    assert "a on o3_01 failed: " in captured.err and "Traceback" not in captured.err
    # Mended, the next call does what failed, and all are there.
    plan.write_text(PLAN)
    assert factory(plan, "out", "--force", "--json") == 0
    assert said(capsys)["machines"] == MACHINES


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ('"killed:atomic"', "gem5 ended (signal 9)"),
        ('"ends:300"', ""),
        ('"fatal:atomic"', "fatal: out of everything"),
        ('"asserts:atomic"', "gem5 ended (signal 6): gem5.opt: src/x.hh:5: void f(): Assertion"),
    ],
)
def test_a_program_without_features(plan, words, why, capsys):
    plan.write_text(PLAN.replace('"x"', words))
    assert factory(plan, "out", "--json") in (0, 1)
    told = said(capsys)
    if words.startswith('"ends'):  # a program that is shorter than its window is all of it
        assert (told["rows"], told["failed"]) == (1200, [])
        return
    assert [(f["program"], f["machine"]) for f in told["failed"]] == [("a", "")]
    assert why in told["failed"][0]["error"] and told["programs"] == ["b"]


def test_a_program_that_ends_while_it_is_skipped(plan, capsys):
    plan.write_text(PLAN.replace('arguments = ["words.txt"]', 'arguments = ["ends:30"]'))
    assert factory(plan, "out", "--json") == 1
    told = said(capsys)
    assert [f["program"] for f in told["failed"]] == ["b"] and told["programs"] == ["a"]


def test_a_dataset_of_another_plan_is_not_replaced(plan, tmp_path, capsys):
    assert factory(plan) == 0
    plan.write_text(PLAN.replace("900", "800"))
    assert factory(plan) == 1
    assert "exists already (--force replaces it)" in capsys.readouterr().err
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "manifest.json").write_text("mine")
    assert factory(plan, "mine") == 1
    assert (tmp_path / "mine" / "manifest.json").read_text() == "mine"
    assert factory(plan, "out", "--force") == 0
    with Dataset(tmp_path / "out" / "data" / "a.zst") as data:
        assert len(data) == 800


def test_training_reads_what_it_writes(plan, tmp_path):
    assert factory(plan) == 0
    manifest = str(tmp_path / "out" / "manifest.json")
    assert main(["train", "perfvec", manifest, "-o", str(tmp_path / "model")]) == 0
    model = tracekit.load_model(tmp_path / "model")
    assert model.arch == "riscv" and list(model.names) == MACHINES


def test_another_s_gem5_configuration_is_a_machine(plan, tmp_path, capsys):
    from test_gem5_config import config, written
    from test_sim import MACHINE

    objects = config({**MACHINE, "rob": 77})
    objects["system.cpu"]["trapLatency"] = 99
    written(tmp_path / "theirs", objects, "ini")
    plan.write_text(PLAN.replace('"o3_small"', '"o3_small", "theirs/config.ini"'))
    assert factory(plan, "out", "--json") == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out)["machines"] == [*MACHINES, "theirs"]
    assert "theirs: system.cpu.trapLatency is 99; 13 is simulated" in captured.err
    assert json.loads((tmp_path / "out/machines/theirs.json").read_text())["rob"] == 77


def test_a_dry_run_says_what_would_be_run(plan, capsys):
    assert main(["factory", str(plan), "--dry-run", "--json"]) == 0
    told = said(capsys)
    assert [m["name"] for m in told["machines"]] == MACHINES
    assert (told["arch"], told["runs"]) == ("riscv", 10)
    assert main(["factory", str(plan), "--dry-run"]) == 0
    assert "10 runs of gem5" in capsys.readouterr().out
    assert not (plan.parent / "out").exists()


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("seed = 3", "sed = 3", "sed: unknown (did you mean seed?)"),
        ("seed = 3", "seed = 1.5", "seed: a whole number"),
        ("in_order = 1", "in_order = -1", "machines.in_order: a whole number from 0 to"),
        ("in_order = 1", 'drawing = "both"', "machines.drawing: one of stratified, random"),
        ("in_order = 1", "same = {robb = 3}", "'robb' is no parameter (did you mean rob?)"),
        ("in_order = 1", 'same = {cpu = "minor"}', "cpu is each machine's own"),
        ("in_order = 1", 'same = {name = "x"}', "name is each machine's own"),
        ("in_order = 1", "same = {ideal_l1d = 1}", "ideal_l1d: gem5 has no counterpart"),
        ("in_order = 1", "same = {width = 13}", "at most 12 wide"),
        ("in_order = 1", "same = {taken_redirects = 1}", "taken_redirects: gem5 has no such"),
        ("in_order = 1", "same = {l1d_kb = 48, l1d_assoc = 4}", "sets are no power of two"),
        ('["o3_small"]', '["o3_smal"]', "no machine has this name, and no file (did you mean"),
        ('["o3_small"]', '["o3_small", "o3_small"]', "machine o3_small is there twice"),
        ("instructions = 900", "instructions = 0", "programs[0].instructions: at least one"),
        ('name = "b"', 'name = "a"', "program a is there twice"),
        ('name = "b"', 'name = "../b"', "names no file"),
        ('validation = ["two"]', 'validation = ["three"]', "no program is of family three"),
        ('"bin/other"', '"in.txt"', "in.txt: is no 64-bit ELF file"),
        ('"bin/other"', '"bin/none"', "bin/none: "),
        ('files = ["data/words.txt"]', 'files = "x"', "programs[1].files: a list of texts"),
    ],
)  # fmt: skip
def test_a_wrong_plan_is_refused_in_one_line(plan, old, new, why, capsys):
    assert old in PLAN
    plan.write_text(PLAN.replace(old, new))
    assert factory(plan) in (1, 2)
    err = capsys.readouterr().err
    assert why in err and err.count("\n") == 1 and not (plan.parent / "out").exists()


def test_programs_are_of_one_instruction_set(plan):
    gem5_stand_in.program(plan.parent / "bin", "other", "arm")
    with pytest.raises(FormatError, match="is for arm, a for riscv: a dataset is of one"):
        load_plan(plan)


@pytest.mark.parametrize(
    "options", [["--jobs", "0"], ["--jobs", "2", "--cluster", "local"], ["--write-patches", "x"]]
)
def test_options_that_mean_nothing(plan, options):
    assert factory(plan, "out", *options) == 2


def test_no_gem5(plan, capsys):
    assert main(["factory", str(plan), "--gem5", "/nowhere/gem5", "-o", "x"]) == 1
    assert "/nowhere/gem5: is no program that can be run" in capsys.readouterr().err
    assert main(["factory", str(plan)]) == 2


def test_the_patches_are_written(tmp_path, capsys):
    assert main(["factory", "--write-patches", str(tmp_path / "p"), "--json"]) == 0
    assert said(capsys)["folder"] == str(tmp_path / "p" / "gem5_patches")
    written = {p.relative_to(tmp_path / "p") for p in (tmp_path / "p").rglob("*") if p.is_file()}
    assert written == set(plugin_sources())
    assert Path("gem5_patches/tracekit_machine.py") in written
    assert main(["factory", "--write-patches", str(tmp_path / "p")]) == 1
    assert main(["factory", "--write-patches", str(tmp_path / "p"), "--force"]) == 0


# ---- drawing


def test_drawn_machines_are_valid_and_follow_from_the_seed():
    for how in ("stratified", "random"):
        some = draw_machines(30, 8, 7, how=how)
        assert some == draw_machines(30, 8, 7, how=how) != draw_machines(30, 8, 8, how=how)
        assert all(machine_errors(m, a) == [] for m in some for a in ("arm", "x86", "riscv"))
        assert [m["cpu"] for m in some] == ["o3"] * 30 + ["minor"] * 8
        assert all(m["iq"] <= m["rob"] or m["iq"] == 8 for m in some)
    with pytest.raises(UsageError, match="drawing is both"):
        draw_machines(1, 0, 0, how="both")


def test_stratified_drawing_has_every_choice():
    """Random drawing of as few machines misses some for most seeds."""
    choices = {p.name: set(p.choices) for p in MACHINE_PARAMETERS}
    missed = 0
    for seed in range(20):
        even = draw_machines(9, 0, seed)
        assert {m["bp"] for m in even} == set(PREDICTORS)
        for key in ("l1d_pf", "l2_pf", "mem"):
            assert {m[key] for m in even} == choices[key]
        assert {m["width"] for m in even} == {1, 2, 3, 4, 5, 6, 8}
        missed += {m["bp"] for m in draw_machines(9, 0, seed, how="random")} != set(PREDICTORS)
    assert missed > 15


def test_the_catalogue_s_parts_are_all_drawn():
    """A predictor that the simulator gets is to be drawn, too."""
    from tracekit import _core
    from tracekit.sim.parameters import PREDICTORS as NUMBERS

    assert {NUMBERS[p] for p in PREDICTORS} == set(range(len(_core.PREDICTORS)))


# ---- the real one


@pytest.mark.skipif("TRACEKIT_GEM5" not in os.environ, reason="TRACEKIT_GEM5 names no gem5.opt")
def test_the_real_gem5(tmp_path, capsys):
    compiler = os.environ.get("TRACEKIT_GEM5_CC", "riscv64-linux-gnu-gcc")
    source = tmp_path / "loop.c"
    source.write_text(
        "int a[4096]; int main(void) { unsigned s = 1; for (int i = 0; i < 20000; i++) "
        "a[(s = s * 1664525u + 1013904223u) >> 20] += (int)s; return a[5] & 1; }\n"
    )
    subprocess.run(
        [compiler, "-O2", "-static", str(source), "-o", str(tmp_path / "loop")], check=True
    )
    (tmp_path / "plan.toml").write_text(
        "seed = 1\n[machines]\nout_of_order = 2\nin_order = 1\n[window]\ninstructions = 20000\n"
        '[[programs]]\nname = "cold"\nbinary = "loop"\n'
        '[[programs]]\nname = "later"\nbinary = "loop"\nskip = 30000\nwarm = 5000\n'
    )
    command = ["factory", str(tmp_path / "plan.toml"), "--gem5", os.environ["TRACEKIT_GEM5"]]
    for out in ("a", "b"):
        assert main([*command, "-o", str(tmp_path / out), "-q", "--json"]) == 0
        assert said(capsys)["rows"] >= 40000
    assert content(tmp_path / "a") == content(tmp_path / "b")


def test_a_program_that_is_linked_dynamically_is_refused(plan):
    where = gem5_stand_in.program(plan.parent / "bin", "other")
    head = bytearray(where.read_bytes().ljust(0x40, b"\0"))
    head[0x20:0x28] = (0x40).to_bytes(8, "little")
    head[0x36:0x3A] = (56).to_bytes(2, "little") + (2).to_bytes(2, "little")
    for kinds, refused in (((6, 1), False), ((6, 3), True)):
        where.write_bytes(head + b"".join(k.to_bytes(4, "little") + bytes(52) for k in kinds))
        if refused:
            with pytest.raises(FormatError, match="other: is linked dynamically"):
                load_plan(plan)
        else:
            assert load_plan(plan).arch == "riscv"
