"""The timing cores give the cycles that they gave (golden/cores), so much off gem5's, and what was
made with them is of these cores."""

from __future__ import annotations

import bless
import core_extremes as extremes
import core_pins as pins
import core_stamps as stamps
import numpy as np
import pytest
import shared_heads

import tracekit
from tracekit import sim
from tracekit.mixture import model
from tracekit.model.card import load_card, load_file

RUN = "run tests/bless.py"
STORED = pins.stored()


@pytest.mark.parametrize("name", pins.names())
def test_cycles(name):
    want = {m: tuple(p) for m, p in STORED["cycles"][name].items()}
    found = pins.pins_of(name)
    moved = {m: (want.get(m), p) for m, p in found.items() if want.get(m) != p}
    assert not moved and want.keys() == found.keys(), RUN


def test_every_kind_is_pinned():
    machines = [*pins.MACHINES.values(), *pins.variants()]
    for key, kinds in (("bp", pins.PREDICTORS), ("l1d_pf", pins.FIRST_LEVEL),
                       ("l2_pf", pins.SECOND_LEVEL), ("mem", pins.MEMORIES)):  # fmt: skip
        assert {m[key] for m in machines} == set(kinds), key
    rows = np.array([sim.core_row(m) for m in machines])
    at = [name for name, _, _ in sim.PARAMETERS].index
    for key in ("predictor", "l1d_prefetch", "l2_prefetch", "in_order"):
        assert len(set(rows[:, at(key)])) == {"predictor": 9, "l1d_prefetch": 4, "l2_prefetch": 5,
                                              "in_order": 2}[key]  # fmt: skip
    # A pin that no other machine shares tells the machines apart.
    for of in STORED["cycles"].values():
        drawn = [tuple(p) for m, p in of.items() if m.startswith("drawn")]
        assert len(set(drawn)) == len(drawn)


def test_cycles_of_machines_anywhere_in_their_ranges():
    assert extremes.cycles() == STORED["extreme_cycles"], RUN
    assert extremes.causes() == STORED["extreme_causes"], RUN


def test_predictions():
    assert extremes.predictions() == STORED["predictions"], RUN


def test_uops_of_x86_instructions():
    assert pins.uops() == STORED["uops"], RUN


#: Percent: means over machines of the absolute difference from gem5's cycles, of cold starts.
BOUNDS = {"zstd.arm": 2.5, "hashjoin.arm": 4.0, "chase_big.x86": 2.0, "sqlite_join.x86": 2.5,
          "hash-chained.riscv": 3.3, "interpreter-switch.arm": 3.5}  # fmt: skip


@pytest.mark.parametrize("name", pins.TRACES)
def test_errors_against_gem5(name):
    """Of the total, machine by machine, and of the rows: most have gem5's own cycles."""
    errors = pins.gem5_errors(name)
    assert errors == STORED["gem5_errors"][name], RUN
    assert np.mean(np.abs(list(errors.values()))) < BOUNDS[name]
    ours, theirs = pins.timed(name, "micro")[:, :, 0].T, pins.gem5_cycles(name)
    assert ours.shape == theirs.shape
    assert (np.abs(ours - theirs) <= 1).mean() > 0.85


def test_errors_against_gem5_of_shared_programs(shared):
    want = shared_heads.stored()
    for arch, programs in want.items():
        assert list(programs) == shared_heads.programs(arch)
        for program, values in programs.items():
            assert shared_heads.compared(arch, program) == values, (program, RUN)
        assert np.mean([v["mean_error"] for v in programs.values()]) < 9


def test_what_was_made_with_the_cores_is_of_these_cores():
    """A core whose cycles move needs a new number of the feature sets, new tables of the shipped
    models and new residuals; ``made`` tells whether they were made again."""
    want, found = stamps.stored(), stamps.current({n: pins.pins_of(n) for n in pins.names()})
    for kind, entries in found.items():
        for name, entry in entries.items():
            stamp = want[kind].get(name, {})
            assert stamp.get("made") == entry["made"], (name, "is not stamped;", RUN)
            assert stamp["cores"] == entry["cores"], (name, "is of other cores;", RUN)
            for trace, times in entry.get("cycles", {}).items():
                np.testing.assert_allclose(stamp["cycles"][trace], times, rtol=1e-6)


@pytest.mark.parametrize("shipped_as", ["default_arm", "default_x86", "default_x86_micro"])
def test_the_models_golden_rows_are_what_the_cores_give(shared, tmp_path, shipped_as):
    """The shipped model's golden rows are of programs of the shared traces: walked again."""
    arch, level, _ = stamps.MODELS[shipped_as]
    folder = model.default_model_path(arch, level)
    card = load_card(folder)
    rows = load_file(folder, card, "golden.safetensors")["input"]
    program = card.training["programs"][0]["name"]
    text = shared_heads.folder(arch) / "exec" / f"{program}.xz"
    target = tmp_path / "feats.zst"
    tracekit.extract(str(text), str(target), level=level)
    with tracekit.open(str(target)) as trace:
        few = model.load_model(None, arch, level).cores[::7]
        sums = sim.totals(trace, few)[0] / len(trace)
    assert np.array_equal(sums.astype(np.float32), rows[0][::7])


OLD = {
    "feature_sets": {"cores-1": {"made": "cores-1", "cores": "a"}},
    "models": {"default_arm": {"made": "table", "cores": "a"}},
}


def test_nothing_of_other_cores_is_stamped():
    changed = {
        kind: {n: {**e, "cores": "b"} for n, e in entries.items()} for kind, entries in OLD.items()
    }
    result, late = bless._stamped(OLD, changed, set())
    assert result == OLD and late == ["cores-1", "default_arm"]
    changed["feature_sets"] = {"cores-2": {"made": "cores-2", "cores": "b"}}
    changed["models"]["default_arm"]["made"] = "another table"
    result, late = bless._stamped(OLD, changed, set())
    assert late == [] and result["models"] == changed["models"]
    assert result["feature_sets"] == {**OLD["feature_sets"], **changed["feature_sets"]}
    changed["models"]["default_arm"]["made"] = "table"
    assert bless._stamped(OLD, changed, {"default_arm"})[1] == []


def test_a_number_is_raised_in_its_source(tmp_path, capsys):
    source = tmp_path / "m.py"
    source.write_text('A = 1\nFEATURE_SET = "cores-9"\n')
    assert bless._bump(source, "cores-9") == "cores-10"
    assert source.read_text() == 'A = 1\nFEATURE_SET = "cores-10"\n'
    with pytest.raises(SystemExit, match="not 'cores-9'"):
        bless._bump(source, "cores-9")
    assert bless._show("x", {"a": {"b": [1, 2]}, "c": 1}, {"a": {"b": [1, 3]}, "d": 1}) == ["a b"]
    assert "a b: [1, 2] -> [1, 3]" in capsys.readouterr().out
