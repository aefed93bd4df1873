"""Instructions, history, scores, comparisons and the readout of a distribution against oracles;
training, prediction and comparison of small programs from end to end."""

from __future__ import annotations

import importlib
import itertools
import json

import numpy as np
import pytest
import synthetic
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import comparisons, distribution
from oracles import lstm as oracle
from oracles.macro import groups
from test_sim import MACHINE

import tracekit
import tracekit.model
from tracekit.cli.main import main
from tracekit.cluster import state_of
from tracekit.dataset.joining import join
from tracekit.errors import FormatError, UsageError
from tracekit.model import Card, ModelSpec
from tracekit.neuroscalar import ab, history, instructions, presets
from tracekit.neuroscalar.metrics import group_medians, score
from tracekit.neuroscalar.model import CycleModel
from tracekit.neuroscalar.readout import apply_mean_map, best_share, fit_mean_map
from tracekit.sim import TIMING, walk

A, B = {**MACHINE, "name": "a"}, {**MACHINE, "name": "b", "width": 1, "l1d_lat": 6}
SLOW = settings(max_examples=8)
walk_module = importlib.import_module("tracekit.sim.trace_walk")


def extract(folder, seed, rows, level="micro", size=24):
    source = folder / f"{seed}.txt"
    source.write_text(synthetic.text(seed, rows, blocks=False, size=size))
    tracekit.extract(str(source), str(folder / f"{seed}.{level}.zst"), level=level, force=True)
    return tracekit.open(str(folder / f"{seed}.{level}.zst"))


# ---- instructions


@SLOW
@given(st.integers(0, 2**32), st.integers(1, 400), st.integers(2, 200))
def test_instructions_are_the_macro_level(tmp_path_factory, seed, rows, block):
    folder = tmp_path_factory.mktemp("t")
    micro, macro = (extract(folder, seed, rows, level) for level in ("micro", "macro"))
    starts, end = instructions.instruction_starts(micro)
    s, ids, fault = micro.statics, micro["static_id"], micro["fault"]
    last = (s.has("IsLastMicroop") | ~s.has("IsMicroop"))[ids]
    wanted = groups(list(zip(micro["pc"], last, fault, s.has("IsSyscall")[ids], strict=True)))
    assert starts.tolist() == [g[0] for g in wanted][: len(macro)]
    assert micro["pc"][starts].tolist() == macro["pc"].tolist()
    y = np.arange(2 * len(micro)).reshape(2, -1)
    sums = instructions.to_rows(micro, y)
    assert sums[0].tolist() == [sum(g) for g in wanted][: len(macro)]
    cut = seed % (len(micro) + 1)  # targets of the first rows only
    left = instructions.to_rows(micro, y[:, :cut])
    whole = sum(g[-1] < cut for g in wanted[: len(macro)])
    assert left.tolist() == sums[:, :whole].tolist()

    whole = np.concatenate([b.values for b in instructions.blocks(micro, [A, B])])
    assert whole.shape == (len(macro), len(instructions.columns(["a", "b"])))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(walk_module, "BLOCK", block)
        parts = list(instructions.blocks(micro, [A, B]))
    assert [b.begin for b in parts] == np.cumsum([0, *(len(b.values) for b in parts)])[:-1].tolist()
    np.testing.assert_array_equal(np.concatenate([b.values for b in parts]), whole)
    # against the walk, instruction by instruction
    timed = np.concatenate([w.cycles for w in walk(micro, [A, B], timed=True)])
    own = whole[:, : 2 * len(TIMING)].reshape(-1, 2, len(TIMING))
    for k, (a, b) in enumerate(itertools.pairwise([*starts.tolist(), end])):
        cycles, margin, gap, wait, latency = np.moveaxis(timed[a:b], 2, 0)
        before = np.cumsum(cycles, axis=0) - cycles
        assert own[k, :, 0].tolist() == cycles.sum(axis=0).tolist()
        assert own[k, :, 1].tolist() == (margin + before).max(axis=0).tolist()
        assert own[k, :, 2].tolist() == gap.sum(axis=0).tolist()
        assert own[k, :, 3].tolist() == wait.max(axis=0).tolist()
        assert own[k, :, 4].tolist() == latency.max(axis=0).tolist()
    shared = whole[:, 2 * len(TIMING) :]
    assert shared[:, 1].tolist() == np.diff([*starts.tolist(), end]).tolist()
    assert shared[:, 2].tolist() == macro["is_mem"].tolist()


def test_a_macro_file_serves_as_it_is(tmp_path):
    macro = extract(tmp_path, 5, 300, "macro")
    found = list(instructions.blocks(macro, [A]))
    keys = np.concatenate([b.key for b in found])
    assert len(keys) == len(macro)
    assert len(set(keys.tolist())) == len(set(macro["static_id"].tolist()))
    again = np.concatenate(
        [b.key for b in instructions.blocks(extract(tmp_path, 5, 200, "macro"), [A])]
    )
    assert keys[: len(again)].tolist() == again.tolist()  # whatever the numbering of the file


# ---- history


@settings(max_examples=40)
@given(st.data())
def test_history_is_the_other_parts_means(data):
    n = data.draw(st.integers(1, 40))
    r = np.random.default_rng(data.draw(st.integers(0, 99)))
    key, y = r.integers(0, 4, n).astype(np.uint64), r.integers(0, 3, (n, 2))
    core, part = r.integers(0, 3, (n, 2)).astype(np.float32), r.integers(-1, 3, n)
    found = history.leave_one_out([key], y, core, part).astype(float)
    assert found.shape[1] == len(history.columns(["a", "b"])) / 2
    for i in range(n):
        others = (key == key[i]) & (part >= 0) & ((part != part[i]) | (part[i] < 0))
        if others.sum() < history.LEAST:
            assert not found[i].any()
            continue
        wanted = [np.log1p(others.sum())]
        for m in range(2):
            v = y[others, m]
            wanted += [(v == 0).mean(), np.log1p(v).mean(), (v == core[others, m]).mean()]
        np.testing.assert_allclose(found[i], wanted, rtol=2e-3, atol=1e-3)


@settings(max_examples=40)
@given(st.integers(0, 99), st.lists(st.integers(1, 9), min_size=1, max_size=5))
def test_tables_are_what_held_out_rows_get(seed, cuts):
    r = np.random.default_rng(seed)
    n = 200
    key, first = r.integers(0, 3, n).astype(np.uint64), r.integers(0, 2, n).astype(np.float32)
    y, core = r.integers(0, 9, (n, 1)), r.integers(0, 9, (n, 1)).astype(np.float32)
    whole = history.Keys().of(key, first)
    keys, at = history.Keys(), 0
    for cut in [*cuts, n]:  # a path does not depend on the blocks
        part = keys.of(key[at : at + cut], first[at : at + cut])
        assert all(np.array_equal(a, b[at : at + cut]) for a, b in zip(part, whole, strict=True))
        at += cut
    part = np.where(np.arange(n) < 150, 0, -1)
    tables = history.make_tables([([k[:150] for k in whole], y[:150], core[:150])])
    wanted = history.leave_one_out(list(whole), y, core, part)[150:]
    np.testing.assert_array_equal(tables.look_up([k[150:] for k in whole]), wanted)
    again = history.Tables.of(tables.tensors(), 1, "x")
    np.testing.assert_array_equal(again.look_up([k[150:] for k in whole]), wanted)
    assert not tables.look_up([np.full(2, 99, np.uint64)] * 2).any()


def test_tables_that_are_none():
    key = np.arange(9, dtype=np.uint64) // 3
    good = history.make_tables([([key] * 2, np.ones((9, 1)), np.ones((9, 1)))]).tensors()
    history.Tables.of(good, 1, "x")
    for name, value in (
        ("inst.key", good["inst.key"][::-1].copy()),
        ("inst.key", good["inst.key"].astype(np.int32)),
        ("path.values", good["path.values"][:, :-1]),
        ("path.values", good["path.values"] * np.float16(np.nan)),
    ):
        with pytest.raises(FormatError, match="table"):
            history.Tables.of({**good, name: value}, 1, "x")
    with pytest.raises(FormatError, match="path"):
        history.Tables.of({k: v for k, v in good.items() if k != "path.key"}, 1, "x")


# ---- scores and comparisons

CYCLES = st.lists(st.tuples(st.integers(0, 60), st.floats(0, 60)), min_size=1, max_size=30)


@settings(max_examples=60)
@given(CYCLES)
def test_scores(rows):
    truth, found = (np.array(c, np.float64) for c in zip(*rows, strict=True))
    s = score(found, truth)
    n = len(rows)
    assert s.mae == pytest.approx(sum(abs(p - t) for t, p in rows) / n)
    assert s.rmse == pytest.approx((sum((p - t) ** 2 for t, p in rows) / n) ** 0.5)
    for value, most in ((s.acc_round, 0), (s.within_1, 1), (s.within_2, 2)):
        assert value == pytest.approx(sum(abs(round(p) - t) <= most for t, p in rows) / n)
    assert s.rel5 == pytest.approx(sum(abs(p - t) <= 0.05 * max(t, 1) for t, p in rows) / n)
    if truth.sum():
        assert s.total == pytest.approx(found.sum() / truth.sum() - 1)
        assert score(found, truth, truth).total == pytest.approx(0)
    constant = score(np.full(n, truth.mean()), truth)
    assert np.isnan(constant.rae) or constant.rae == pytest.approx(1)


def test_medians_of_groups():
    names, medians = group_medians(np.array([2, 1, 2, 2, 1]), np.array([5.0, 1, 0, 9, 4]))
    assert names.tolist() == [1, 2] and medians.tolist() == [1, 5]


@settings(max_examples=60)
@given(st.integers(0, 999), st.integers(1, 40), st.integers(2, 4))
def test_comparisons(seed, rows, machines):
    r = np.random.default_rng(seed)
    truth = r.integers(0, 3, (rows, machines))
    cycles = r.integers(0, 3, (rows, machines)) + r.choice([0.0, 0.25], (rows, machines))
    mean = r.random((rows, machines))
    names = [f"m{k}" for k in range(machines)]
    cut = r.integers(0, rows + 1)
    parts = [
        ab.count(names, cycles[s], mean[s], truth[s]) for s in (slice(0, cut), slice(cut, rows))
    ]
    found = ab.report(ab.merge(parts))
    match, strict, differ, agree, full, best, most, most_strict = comparisons.shares(
        cycles.tolist(), mean.tolist(), truth.tolist()
    )
    every = rows * len(found["pairs"])
    pooled = found["pooled"]
    assert pooled["match"] == pytest.approx(match / every)
    assert pooled["match_majority"] == pytest.approx(most / every)
    assert pooled["strict"] == pytest.approx(strict / max(differ, 1))
    assert pooled["strict_majority"] == pytest.approx(most_strict / max(differ, 1))
    assert found["kendall"] == pytest.approx(agree / every)
    assert (found["full"], found["best"]) == pytest.approx((full / rows, best / rows))
    constant = max((truth[:, k] == truth.min(axis=1)).mean() for k in range(machines))
    assert found["best_constant"] == pytest.approx(constant)
    assert found["cycles"] == pytest.approx(dict(zip(names, truth.sum(axis=0), strict=True)))
    first = ab.report(ab.merge(parts), without=[("m1", "m0")])["pooled"]
    if machines == 2:
        assert first["match"] == 0
    alone = ab.predictions(names, cycles, mean)
    assert alone["ranking"][0] == names[int(mean.sum(axis=0).argmin())]
    assert sum(alone["pairs"][0][k] for k in ("fewer", "equal", "more")) == pytest.approx(1)


@settings(max_examples=40)
@given(st.integers(0, 999), st.integers(1, 4), st.integers(2, 4))
def test_pairs_by_how_far_they_are_apart(seed, programs, machines):
    r = np.random.default_rng(seed)
    names = tuple(f"m{k}" for k in range(machines))
    totals = r.choice([1000.0, 1002, 1005, 1020, 1200], (2, programs, machines))
    counts = [ab.Counts(names, true=t, found=f) for t, f in zip(*totals, strict=True)]
    for entry in ab.by_difference(counts):
        right, used, every = 0, 0, 0
        for true, found in zip(*totals.tolist(), strict=True):
            for (t, f), (u, g) in itertools.combinations(list(zip(true, found, strict=True)), 2):
                every += 1
                if abs(t - u) > entry["above"] * (t + u) / 2:
                    used += 1
                    right += (f > g) - (f < g) if t > u else (f < g) - (f > g)
        assert entry["share"] == used / every
        assert entry["kendall"] == pytest.approx(right / used if used else np.nan, nan_ok=True)


def test_a_picture(tmp_path):
    pytest.importorskip("matplotlib")
    from tracekit.neuroscalar.plotting import compare_plot

    r = np.random.default_rng(0)
    names = ["a", "b", "c"]
    counts = [ab.count(names, *r.integers(0, 3, (3, 50, 3))) for _ in range(4)]
    programs = {f"p{k}": {"ab": ab.report(c)} for k, c in enumerate(counts)}
    result = {"seen": False, "ab": ab.report(ab.merge(counts)), "programs": programs}
    compare_plot(result, str(tmp_path / "x.svg"))
    text = (tmp_path / "x.svg").read_text()
    assert text.startswith("<?xml") and len(text) > 10_000
    with pytest.raises(UsageError):
        compare_plot(result, str(tmp_path / "x.txt"))


# ---- readouts


@settings(max_examples=40)
@given(st.integers(0, 99), st.integers(1, 400))
def test_a_mean_map_keeps_the_sum(seed, rows):
    r = np.random.default_rng(seed)
    truth = r.poisson(1.3, rows).astype(float)
    found = np.where(truth > 2, truth, 0) + r.choice([0, 0.5], rows)
    entry = json.loads(json.dumps(fit_mean_map(found, truth)))
    mapped = apply_mean_map(entry, found)
    assert mapped.sum() == pytest.approx(truth.sum())
    if rows > 200 and truth.sum():  # no single factor does as well
        error = np.abs(mapped - truth).mean()
        assert error <= np.abs(truth.mean() - truth).mean() + 1e-9
        moved = apply_mean_map(entry, found + r.normal(0, 1e-3, rows)).sum()
        assert moved == pytest.approx(truth.sum(), rel=0.05)


def test_the_share_with_the_smallest_error():
    truth = np.array([[100.0, 200], [300, 400]])
    assert best_share(truth, 2 * truth, truth) == 0
    assert best_share(2 * truth, truth, truth) == 0.9
    assert best_share(1.1 * truth, 0.9 * truth, truth) == 0.5


@pytest.mark.parametrize(
    "entry",
    [
        None,
        {},
        {"knots": [1, 0], "values": [1, 2]},
        {"knots": [1], "values": [1, 2]},
        {"knots": [], "values": []},
        {"knots": [1], "values": [float("nan")]},
        {"knots": "x", "values": []},
    ],
)
def test_maps_that_are_none(entry):
    with pytest.raises(FormatError):
        apply_mean_map(entry, np.zeros(3))


def distribution_model(exact, machines, readout, seed=0):
    r = np.random.default_rng(seed)
    head = {
        "name": "cycles", "type": "distribution", "targets": True, "exact": exact,
        "readout": readout, "cap": 50.0, "scale": (0.5 + np.arange(machines)).tolist(),
        "layers": [{"type": "linear", "name": "o", "out": machines * (exact + 2)}],
    }  # fmt: skip
    spec = ModelSpec.parse(
        {
            "inputs": [{"column": c, "transform": "value"} for c in "xyz"],
            "layers": [{"type": "linear", "name": "l", "out": 7}],
            "heads": [head],
        }
    )
    assert ModelSpec.parse(json.loads(json.dumps(spec.to_dict()))) == spec
    card = Card(
        "d", spec, tuple("xyz"), microarchitectures=[{"name": str(k)} for k in range(machines)]
    )
    return card, {n: r.standard_normal(s).astype(np.float32) for n, s in spec.tensors().items()}


def wanted_of(made, x):
    card, t = made
    head = card.spec.heads[0]
    raw = oracle.stack(
        [{"type": "linear", "name": "l"}, {"type": "linear", "name": "o"}], x.astype(float), t
    )
    n, k = head.width_out, head.exact
    return np.array(
        [
            distribution.read(
                row[: n * (k + 1)].reshape(n, k + 1).tolist(), row[n * (k + 1) :].tolist(),
                head.readout, head.scale, head.cap,
            )
            for row in raw
        ]
    )  # fmt: skip


@settings(max_examples=12)
@given(
    st.sampled_from(["median", "mode", "mean"]),
    st.integers(1, 17),
    st.integers(1, 3),
    st.integers(0, 9),
)
def test_the_engine_reads_a_distribution(readout, exact, machines, seed):
    infer = pytest.importorskip("tracekit.infer")
    made = distribution_model(exact, machines, readout, seed)
    x = np.random.default_rng(seed).standard_normal((70, 3)).astype(np.float32)
    found = infer.Engine(*made, dtype="f32", threads=1).predict(x)
    near = np.isclose(found, wanted_of(made, x), rtol=1e-4, atol=1e-4)
    assert near.all() if readout == "mean" else near.mean() > 0.98  # a probability of just 0.5


def test_a_head_whose_sizes_do_not_fit():
    card, _ = distribution_model(4, 2, "mean")
    entry = card.spec.to_dict()
    for key, value in (
        ("exact", 3), ("exact", 0), ("scale", [1.0]), ("scale", []), ("scale", [1.0, -1.0]),
        ("cap", 0), ("readout", "max"), ("extra", 1),
    ):  # fmt: skip
        broken = json.loads(json.dumps(entry))
        broken["heads"][0][key] = value
        with pytest.raises(FormatError, match="heads"):
            ModelSpec.parse(broken)


def test_the_papers_parameters():
    assert presets.paper_spec().parameters() == 1_073_348
    spec = presets.default_spec(["a", "b"], 32)
    known = set(instructions.columns(["a", "b"]) + history.columns(["a", "b"]))
    assert {e.column for e in spec.inputs} <= known


# ---- training


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Four programs of two families: cycles are core a's, and core b's and one more."""
    folder = tmp_path_factory.mktemp("data")
    programs: dict[str, list] = {"micro": [], "macro": []}
    for k in range(4):
        for level, entries in programs.items():
            trace = extract(folder, k, 1500, level, size=14 + 4 * k)
            if level == "micro":
                cycles = np.concatenate([w.cycles for w in walk(trace, [A, B])]).T
                cycles[1, 1:] += 1
                whole = instructions.to_rows(trace, cycles)
            y = cycles if level == "micro" else whole
            np.save(folder / f"{k}.{level}.npy", y.astype(np.float32))
            target = f"a,b={folder / f'{k}.{level}.npy'}"
            join(str(folder / f"{k}.{level}.zst"), [target], str(folder / f"{k}.{level}.data.zst"))
            entries.append(
                {"name": f"p{k}", "family": f"f{k // 2}", "data": f"{k}.{level}.data.zst"}
            )
    for m in (A, B):
        (folder / f"{m['name']}.json").write_text(json.dumps(m))
    for level, entries in programs.items():
        for test in ([], ["f1"]):
            (folder / f"{level}{len(test)}.json").write_text(
                json.dumps(
                    {
                        "machines": {"a": "a.json", "b": "b.json"},
                        "programs": entries,
                        "test": test,
                    }
                )
            )
    return folder


@pytest.fixture
def small(monkeypatch):
    """Blocks of 50 rows, so that short programs have held-out ones."""
    from tracekit.neuroscalar import program_rows

    monkeypatch.setattr(program_rows, "BLOCK", 50)


OPTIONS = ("--batch", "8", "--window", "64", "--target", "48", "--threads", "1", "--quiet")


def train(data, manifest, out, *more):
    cache = str(data / "cache")
    return main(
        ["train", "neuroscalar", str(data / manifest), "-o", str(data / out), "--cache", cache,
         *OPTIONS, *more]
    )  # fmt: skip


def many_predicted(data, level, model, capsys):
    """Two traces by this process, as tasks and in pieces: the same to the last bit."""
    from tracekit.neuroscalar import trace_totals

    paths = [str(data / f"{k}.{level}.zst") for k in (0, 1)]
    command = ["predict", *paths, "--model", str(model), "--json"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tracekit.infer.engine.CHUNK", 64)
        patch.setattr("tracekit.infer.engine.WINDOW", 64)
        patch.setattr(trace_totals, "PIECE_ROWS", 512)
        assert main(command) == 0
        whole = capsys.readouterr().out
        run = data / f"{model.name}.run"
        for _ in range(2):
            assert main([*command, "--run", str(run)]) == 0
            assert capsys.readouterr().out == whole
        tasks = [r.name for r in state_of(run).done]
        parts = [-(-len(tracekit.open(p)) // 512) for p in paths]
        # Simulated cores' columns go through the whole of a trace.
        assert len(tasks) == (2 if level == "micro" else sum(parts)) and min(parts) > 1
        assert main([*command[:2], *command[3:]]) == 0
        first = json.loads(capsys.readouterr().out)
        assert first == {"schema": first["schema"], **json.loads(whole)["files"][0]}
        assert main([*command, "--save", str(data / "x.npy")]) == 2
        assert main([*command[:2], *command[3:], "--save", "x.npy", "--run", str(run)]) == 2
        capsys.readouterr()
    with tracekit.open(paths[0]) as trace:
        mean = CycleModel(model, threads=1).predict(trace)["mean"]
    for m, total in zip(json.loads(whole)["files"][0]["machines"], mean.sum(axis=0), strict=True):
        assert m["cycles"] == pytest.approx(total, rel=1e-3)


def test_default_from_end_to_end(data, small, capsys):
    pytest.importorskip("torch")
    infer = pytest.importorskip("tracekit.infer")
    more = ("--steps", "60", "--check", "20", "--width", "16", "--rate", "0.01")
    assert train(data, "micro0.json", "m", *more) == 0
    capsys.readouterr()
    infer.load(data / "m", verify=True)
    events = [json.loads(line) for line in (data / "m" / "metrics.jsonl").read_text().splitlines()]
    assert [e["event"] for e in events][-1] == "saved"
    losses = [e["loss"] for e in events if e["event"] == "step"]
    assert losses[-1] < 0.6 * losses[0]

    card = tracekit.model.load_card(data / "m")
    card.extra["core_share"] = 0.25
    tracekit.model.save_card(data / "m", card, {})
    with tracekit.open(str(data / "0.micro.zst")) as trace:  # in blocks, the cores' beside them
        model = CycleModel(data / "m", device="cpu", threads=1)
        rows = np.concatenate(list(model.rows(trace)))
        mixed = model.predict(trace)["mean"]
        plain = model.engine.predict(rows, "mean")
        core = rows[:, [0, len(TIMING)]]
    np.testing.assert_allclose(mixed, 0.75 * plain + 0.25 * core, rtol=1e-5)
    card.microarchitectures.reverse()  # each would show the other's numbers
    tracekit.model.save_card(data / "m", card, {})
    with pytest.raises(FormatError, match="microarchitectures"):
        CycleModel(data / "m", device="cpu")
    card.microarchitectures.reverse()
    tracekit.model.save_card(data / "m", card, {})

    argv = ["evaluate", str(data / "micro0.json"), "--model", str(data / "m"), "--work",
            str(data / "cache"), "--json"]  # fmt: skip
    for more in (["--rows", "3"], ["--sample", "3"]):
        assert main([*argv, *more]) == 2 and "means nothing" in capsys.readouterr().err
    assert main(argv) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["seen"] and set(found["programs"]) == {"p0", "p1", "p2", "p3"}
    answers = found["machines"]["b"]
    model, zero = (answers[k]["mean_of_programs"] for k in ("model", "always 0"))
    assert model["acc_round"] > zero["acc_round"] + 0.3  # b is never 0 there
    assert {"constant", "op-class table", "table by instruction"} < set(answers)
    assert found["ab"]["pairs"][0]["match"] > 0.7
    alone = found["ab_of_cores"]
    assert set(alone) == set(found["ab"])
    by_scores = sum(
        e["ab"]["cycles"]["b"] * (1 + e["machines"]["b"]["simulated core"]["total"])
        for e in found["programs"].values()
    )
    assert alone["predicted"]["b"] == pytest.approx(by_scores)
    assert alone["predicted"]["b"] != pytest.approx(found["ab"]["predicted"]["b"])

    # no LSTM, no int8; corrections for bf16, and the mean's totals
    micro = [str(data / f"{k}.micro.data.zst") for k in (0, 1)]
    assert main(["quantize", str(data / "m"), micro[0], "--test", micro[1], "--json"]) == 0
    formats = json.loads(capsys.readouterr().out)["formats"]
    assert [(f["dtype"], f["corrected"]) for f in formats] == [
        ("f32", False), ("bf16", False), ("bf16", True)
    ]  # fmt: skip
    assert all(f["total_moves"] < 0.05 and f["rounds_alike"] > 0.9 for f in formats)
    trace = str(data / "1.micro.zst")
    argv = ["predict", trace, "--model", str(data / "m"), "--save", str(data / "c.npy"), "--json"]
    assert main(argv) == 0
    shown = json.loads(capsys.readouterr().out)
    saved = np.load(data / "c.npy")
    assert saved.shape == (shown["instructions"], 2)
    assert [m["name"] for m in shown["machines"]] == ["a", "b"]
    assert saved.sum(0, dtype=float) == pytest.approx([m["cycles"] for m in shown["machines"]])
    many_predicted(data, "micro", data / "m", capsys)
    assert main(["predict", trace, "--model", str(data / "m"), "--uarch", "c"]) == 2
    assert main(["compare", str(data / "m"), trace, "--json"]) == 0
    compared = json.loads(capsys.readouterr().out)["programs"][trace]
    assert compared["cycles"]["a"] == pytest.approx(shown["machines"][0]["cycles"], rel=1e-6)
    assert compared["rows"] == shown["instructions"]
    assert main(["compare", str(data / "m"), trace]) == 0
    assert main(["compare", str(data / "m"), "--manifest", str(data / "micro0.json"), "--cache",
                 str(data / "cache"), "--without", "a", "b"]) == 0  # fmt: skip
    assert "Kendall" in capsys.readouterr().out
    assert main(["compare", str(data / "m")]) == 2 and main(["compare", trace]) == 2


def test_unseen_families_and_no_history(data, small, capsys):
    pytest.importorskip("torch")
    pytest.importorskip("tracekit.infer")
    assert train(data, "micro1.json", "u", "--steps", "4", "--check", "2", "--width", "8",
                 "--no-history", "--machines", "b") == 0  # fmt: skip
    capsys.readouterr()
    argv = ["evaluate", str(data / "micro1.json"), "--model", str(data / "u"), "--split",
            "families", "--sample", "2", "--work", str(data / "cache"), "--json"]  # fmt: skip
    assert main(argv) == 0
    found = json.loads(capsys.readouterr().out)
    assert not found["seen"] and set(found["programs"]) == {"p2", "p3"}
    assert "table by instruction" not in found["machines"]["b"]
    assert not (data / "u" / "history.safetensors").exists()
    # models of one machine each, compared
    assert train(data, "micro1.json", "ua", "--steps", "4", "--check", "2", "--width", "8",
                 "--machines", "a") == 0  # fmt: skip
    capsys.readouterr()
    folders = [str(data / "ua"), str(data / "u")]
    assert main(["compare", *folders, "--manifest", str(data / "micro1.json"), "--split",
                 "families", "--cache", str(data / "cache"), "--json"]) == 0  # fmt: skip
    found = json.loads(capsys.readouterr().out)
    assert found["ab"]["machines"] == ["a", "b"] and len(found["ab"]["pairs"]) == 1
    assert main(["compare", *folders, str(data / "3.micro.zst"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["machines"] == ["a", "b"]
    assert main(["compare", folders[0], folders[0], str(data / "3.micro.zst")]) == 2


def test_arrays_of_other_cores_are_made_again(data, tmp_path, monkeypatch):
    from tracekit.dataset import load_manifest
    from tracekit.neuroscalar import program_rows

    programs = load_manifest(data / "micro0.json").programs[:1]

    def columns():
        rows = program_rows.read_default(programs, [A], tmp_path, held=frozenset(), threads=1)
        return np.array(rows[0].columns)

    made = columns()
    (kept,) = tmp_path.glob("*/columns.npy")
    np.save(kept, made + 1)
    np.testing.assert_array_equal(columns(), made + 1)  # as they lie there
    monkeypatch.setattr(program_rows, "cores_digest", lambda: "other cores")
    np.testing.assert_array_equal(columns(), made)


def test_training_goes_on_where_it_was(data, small):
    pytest.importorskip("torch")
    from tracekit.dataset import load_manifest
    from tracekit.train import neuroscalar as module

    options = module.Options(
        machines=("a",), steps=4, batch=4, window=32, target=24, check=2, width=8, threads=1
    )
    manifest = load_manifest(data / "micro0.json")

    def go(name):
        module.train_neuroscalar(manifest, data / name, options, cache=data / "cache")
        return tracekit.model.load_tensors(data / name, tracekit.model.load_card(data / name))

    class Killed(Exception):
        pass

    def killed(event):
        if event["event"] == "step" and event["step"] == 4:
            raise Killed

    whole = go("whole")
    with pytest.raises(Killed):  # after step 2's checkpoint, before step 4's
        module.train_neuroscalar(
            manifest, data / "cut", options, cache=data / "cache", report=killed
        )
    assert not (data / "cut" / "card.json").exists()
    resumed = go("cut")
    for name, value in whole.items():
        np.testing.assert_allclose(resumed[name], value, atol=1e-6)
    other = module.Options(**{**vars(options), "seed": 1})
    with pytest.raises(UsageError, match="another run"):
        module.train_neuroscalar(manifest, data / "cut", other, cache=data / "cache")
    (data / "cut" / "checkpoint.pt").unlink()
    go("cut")
    slow = load_manifest(data / "micro0.json")
    slow.machines["a"] = {**slow.machines["a"], "rob": 40}
    with pytest.raises(UsageError, match="another run"):
        module.train_neuroscalar(slow, data / "cut", options, cache=data / "cache")
    events: list[str] = []
    for _ in range(2):  # what has ended is replaced, whatever it was
        module.train_neuroscalar(
            manifest, data / "cut", other, force=True, report=lambda e: events.append(e["event"])
        )
    assert "resumed" not in events and events.count("saved") == 2
    (data / "cut" / "checkpoint.pt").write_bytes(b"no checkpoint")
    with pytest.raises((FormatError, UsageError)):
        module.train_neuroscalar(manifest, data / "cut", options, cache=data / "cache")


def test_paper_from_end_to_end(data, small, capsys):
    pytest.importorskip("torch")
    pytest.importorskip("tracekit.infer")
    more = ("--preset", "paper", "--steps", "6", "--check", "3", "--width", "16")
    assert train(data, "macro0.json", "n", *more, "--machines", "a") == 0
    assert train(data, "macro0.json", "n2", *more) == 2  # two machines
    assert train(data, "micro0.json", "n3", *more, "--machines", "a") == 2  # micro-ops
    capsys.readouterr()
    argv = ["evaluate", str(data / "macro0.json"), "--model", str(data / "n"), "--work",
            str(data / "cache"), "--json"]  # fmt: skip
    assert main(argv) == 0
    answers = json.loads(capsys.readouterr().out)["machines"]["a"]
    assert answers["model"]["pooled"]["rows"] == answers["always 0"]["pooled"]["rows"] > 0
    assert main(["quantize", str(data / "n"), str(data / "0.macro.data.zst"), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    formats = report["formats"]
    assert [f["dtype"] for f in formats] == ["f32", "bf16", "bf16", "int8", "int8"]
    other = str(data / "1.macro.data.zst")
    argv = ["quantize", str(data / "n"), str(data / "0.macro.data.zst"), "--test", other]
    argv += ["--force", "--json"]
    assert main(argv) == 0
    tested = json.loads(capsys.readouterr().out)
    assert (report["tested_on"], tested["tested_on"]) == ("calibration", "other files")
    assert tested["formats"][0]["mae"] != formats[0]["mae"]
    cycles = np.load(data / "0.macro.npy")[0]
    with tracekit.open(str(data / "0.macro.zst")) as trace:
        found = CycleModel(data / "n", dtype="f32", threads=1).predict(trace)["cycles"][:, 0]
    assert formats[0]["mae"] == pytest.approx(np.abs(found - cycles).mean())
    # fewer rows than the file has: targets and predictions are those of the same, the first
    argv = ["quantize", str(data / "n"), str(data / "0.macro.data.zst"), "--rows", "300"]
    argv += ["--force", "--json"]
    assert main(argv) == 0
    first = json.loads(capsys.readouterr().out)["formats"][0]["mae"]
    assert first == pytest.approx(np.abs(found - cycles)[:300].mean(), rel=1e-3)
    many_predicted(data, "macro", data / "n", capsys)
    assert main(["predict", str(data / "0.micro.zst"), "--model", str(data / "n")]) == 2


# ---- torch beside the engine


def test_both_directions_from_end_to_end(data, small, capsys):
    pytest.importorskip("torch")
    pytest.importorskip("tracekit.infer")
    more = ("--preset", "paper", "--steps", "6", "--check", "3", "--width", "16", "--machines", "a")
    assert train(data, "macro0.json", "b", *more, "--bidirectional") == 0
    assert train(data, "micro0.json", "b2", *more[2:], "--bidirectional") == 2  # of the paper's
    card = tracekit.model.load_card(data / "b")
    assert card.spec.bidirectional and card.lookahead() == 8  # half of 64 - 48
    events = [json.loads(line) for line in (data / "b" / "metrics.jsonl").read_text().splitlines()]
    capsys.readouterr()
    argv = ["evaluate", str(data / "macro0.json"), "--model", str(data / "b"), "--work",
            str(data / "cache"), "--split", "validation", "--json"]  # fmt: skip
    assert main(argv) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["split"] == "validation" and found["seen"]
    mae = found["machines"]["a"]["model"]["pooled"]["mae"]
    assert mae == pytest.approx(events[-1]["mae"], rel=0.5)
    with tracekit.open(str(data / "0.macro.zst")) as trace:
        engine, other = (
            CycleModel(data / "b", device=device, dtype="f32", threads=1).predict(trace)["cycles"]
            for device in ("cpu", "torch")
        )
    assert engine.shape == other.shape
    # both run whole windows, of different chunks
    np.testing.assert_allclose(engine, other, atol=0.05)
