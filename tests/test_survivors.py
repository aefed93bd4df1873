"""Machines of unknown parameters: what their tuning left open becomes an interval."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import synthetic
from test_sim import MACHINE, extract

import tracekit
from tracekit.calibration import add_machines, tune, write_machine
from tracekit.calibration.search_settings import Round, SearchSettings
from tracekit.errors import FormatError
from tracekit.mixture.model import Mixture
from tracekit.mixture.survivors import SHARED, WIDER, survivor_halves
from tracekit.prediction.intervals import model_halves
from tracekit.sim import walk

SMALL = SearchSettings(
    rounds=(Round(1000, 1, 0),),
    settling_rows=1500,
    last_generations=1,
    offers=2,
    population=16,
    admitted=12,
    survivors=8,
)


def test_the_interval_reaches_the_farthest_survivor():
    survivors = {"mine": {"a": 2.0, "b": 1.0}}
    sums, cycles = np.array([100.0, 150.0]), np.array([180.0, 180.0])
    found = survivor_halves(["other", "mine"], survivors, ["a", "b"], sums, cycles, 0.0)
    assert np.isnan(found[0])
    assert found[1] == pytest.approx(np.log(180 / 150) + SHARED)
    strange = survivor_halves(["mine"], survivors, ["a", "b"], sums, cycles[1:], 0.5)
    assert strange[0] - found[1] == pytest.approx(SHARED * 0.5 * WIDER)
    # Of a single instruction's share of the time it is the same: nothing but ratios counts.
    less = survivor_halves(["mine"], survivors, ["a", "b"], sums / 9, cycles[1:] / 9, 0.0)
    assert less[0] == pytest.approx(found[1])
    nothing = survivor_halves(["mine"], survivors, ["a", "b"], sums * 0, cycles[1:], 0.0)
    assert np.isnan(nothing).all()


def test_a_tuned_machine_has_an_interval(tmp_path):
    first = {**MACHINE, "phys_float": 128, "name": "first"}
    cores = [first, {**first, "rob": 16, "name": "second"}]
    model = Mixture(cores, cores, np.eye(2), {})
    hidden = {**MACHINE, "width": 2, "issue_width": 2, "l1d_lat": 4}
    trace = extract(tmp_path, synthetic.text(5, 1500, blocks=False))
    cycles = np.concatenate([w.cycles for w in walk(trace, [hidden])])[:, 0].astype(float)
    made = tune(model, [(trace, cycles)], "mine", designs=12, searched=4, settings=SMALL)
    assert len(made["survivors"]) == 4
    assert made["survivors"].keys() <= {c["name"] for c in made["cores"]}
    place = tmp_path / "mine.json"
    write_machine(place, made)
    wider = add_machines(model, [place])
    found = tracekit.predict(trace, wider, own_machine=False)
    half = found.intervals.model / found.cycles
    assert np.isnan(half[:2]).all()
    assert half[2] >= np.expm1(SHARED) - 1e-9
    sums = found.representation
    names = [str(c["name"]) for c in wider.cores]
    times = [sums[names.index(c)] * x for c, x in made["survivors"].items()]
    farthest = np.abs(np.log(np.array(times) / found.cycles[2])).max()
    seen = model_halves(wider, sums, found.intervals.strange)[2]
    assert seen == pytest.approx(farthest + SHARED * (1 + WIDER * found.intervals.strange))
    told = found.to_dict()["machines"]
    assert told[0]["model_half_interval"] is None
    assert told[2]["model_half_interval"] == pytest.approx(found.intervals.model[2])
    # Alone it keeps its survivors, also those that its row does not use.
    alone = tracekit.predict(trace, wider.only(["mine"]), own_machine=False)
    assert alone.intervals.model[0] == pytest.approx(found.intervals.model[2])
    assert not wider.only(["first"]).survivors

    old = {k: v for k, v in made.items() if k != "survivors"}
    place.write_text(json.dumps(old))
    before = add_machines(model, [place])
    assert before.survivors == {}
    assert tracekit.predict(trace, before, own_machine=False).intervals is None
    assert (before.table == wider.table).all() and replace(wider).names == before.names
    for bad in ([], {"nobody": 1.0}, {made["cores"][0]["name"]: 0}):
        place.write_text(json.dumps({**made, "survivors": bad}))
        with pytest.raises(FormatError, match="survivors"):
            add_machines(model, [place])
