"""Simulation points: gem5's vectors, SimPoint's files, clusters of the alike, weighted times."""

from __future__ import annotations

import json

import numpy as np
import pytest
import synthetic
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import simpoint_probe
from test_sim import extract

import tracekit
from tracekit import simpoint
from tracekit.cli.main import main
from tracekit.errors import FormatError, UsageError
from tracekit.prediction import check_one_program, weighted
from tracekit.simpoint import vectors as vectors_module


def committed(trace):
    statics = trace.statics
    ends = statics.ends()
    for i in trace["static_id"].tolist():
        if ends[i]:
            yield int(statics.pc[i]), bool(statics.branch[i])


def lines(vectors, folder):
    simpoint.write_vectors(folder / "x.bb", vectors, force=True)
    return (folder / "x.bb").read_text()


@settings(max_examples=25)
@given(st.integers(0, 2**32), st.integers(1, 500), st.integers(1, 120), st.integers(1, 40))
def test_vectors_are_those_of_gem5s_probe(tmp_path_factory, seed, rows, length, block):
    folder = tmp_path_factory.mktemp("t")
    trace = extract(folder, synthetic.text(seed, rows, blocks=False))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(vectors_module, "_ROWS", block)
        found = simpoint.block_vectors(trace, length)
    instructions = list(committed(trace))
    assert found.count.sum() + found.left_out == len(instructions)
    want = simpoint_probe.profile(instructions, length)
    if want:
        assert lines(found, folder) == want
    else:  # shorter than an interval
        assert len(found) == 1 and found.left_out == 0
    ends = trace.statics.ends()[trace["static_id"]]
    for k, (a, b) in enumerate(zip(found.rows, found.rows[1:], strict=False)):
        assert ends[a:b].sum() == found.instructions[k]


def two_phases(intervals=24, blocks=6):
    """Vectors of a program in two phases, by turns of four intervals."""
    rng = np.random.default_rng(0)
    block, count, begin = [], [], [0]
    for k in range(intervals):
        first = blocks * (k // 4 % 2)
        block += range(first + 1, first + blocks + 1)
        count += rng.integers(90, 110, blocks).tolist()
        begin.append(len(block))
    as_array = [np.array(v, np.int64) for v in (block, count, begin)]
    return simpoint.BlockVectors(*as_array, 600)


def test_phases_are_found_and_the_files_say_them(tmp_path):
    pytest.importorskip("sklearn")
    vectors = two_phases()
    points = simpoint.choose(vectors)
    assert len(points) == 2 and [p.weight for p in points] == [0.5, 0.5]
    assert [p.interval // 4 % 2 for p in points] == [0, 1]
    assert simpoint.choose(vectors) == points  # seeded
    names = tmp_path / "x.simpoints", tmp_path / "x.weights"
    simpoint.write_points(*names, points)
    assert simpoint.read_points(*names, len(vectors)) == points
    assert list(simpoint.read_weights(names[1]).items()) == [(0, 0.5), (1, 0.5)]
    simpoint.write_vectors(tmp_path / "x.bb", vectors)
    again = simpoint.read_vectors(tmp_path / "x.bb")
    for name in ("block", "count", "begin"):
        assert np.array_equal(getattr(again, name), getattr(vectors, name))
    assert simpoint.choose(again) == points


def test_one_phase_is_one_cluster():
    same = two_phases(3)
    assert [(p.interval // 4, p.weight) for p in simpoint.choose(same, most=1)] == [(0, 1.0)]


def test_score_falls_where_clusters_split_what_is_alike():
    pytest.importorskip("sklearn")
    from tracekit.phases.clustering import _clusterings, bic
    from tracekit.simpoint.clusters import projected

    points = projected(two_phases(), 15, 1)
    scores = [bic(points, *c) for c in _clusterings(points, 3, 1)]
    assert scores[1] > scores[0] + 100 and scores[2] < scores[1] + 40


@pytest.mark.parametrize(
    ("points", "weights", "why"),
    [
        ("0 0\n", "0.4 0\n", r"x\.weights: the weights add up to 0\.4, not to 1"),
        ("0 0\n30 1\n", "0.5 0\n0.5 1\n", r"x\.simpoints:2: interval 30 of a program that has 24"),
        ("0 0\n1 1\n", "1 0\n", r"x\.simpoints:2: cluster 1 has no weight in "),
        ("0 0\n", "0.5 0\n0.5 1\n", r"x\.simpoints: no interval for cluster 1"),
        ("0 0\n0 0\n", "1 0\n", r"x\.simpoints:2: cluster 0 a second time"),
        ("0\n", "1 0\n", r"x\.simpoints:1: no line of an interval and a cluster"),
        ("0 0\n", "1..2 0\n", r"x\.weights:1: no line of a weight and a cluster"),
        ("0 0\n", "0.5 0\n0.5 0\n", r"x\.weights:2: cluster 0 a second time"),
    ],
)
def test_lists_that_do_not_fit(tmp_path, points, weights, why):
    (tmp_path / "x.simpoints").write_text(points)
    (tmp_path / "x.weights").write_text(weights)
    with pytest.raises(FormatError, match=why):
        simpoint.read_points(tmp_path / "x.simpoints", tmp_path / "x.weights", 24)


LONG = "T:1:99999999999999999999 \n"


@pytest.mark.parametrize("text", ["", "T:1:0 \n", "T:1:2 x\n", "X:1:2\n", "T\n", LONG])
def test_vectors_that_are_none(tmp_path, text):
    (tmp_path / "x.bb").write_text(text)
    with pytest.raises(FormatError, match=r"x\.bb(:1)?: no vector"):
        simpoint.read_vectors(tmp_path / "x.bb")


def test_command(tmp_path, capsys):
    pytest.importorskip("sklearn")
    extract(tmp_path, synthetic.text(5, 900, blocks=False))
    (feats,) = tmp_path.glob("*.zst")
    out = tmp_path / "x"
    options = ["--interval", "50", "--warmup", "20", "--vectors", "code", "-o", str(out)]
    assert main(["simpoints", str(tmp_path / "t.txt"), *options, "--json", "-q"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert abs(sum(p["weight"] for p in found["points"]) - 1) < 1e-12
    for p in found["points"]:
        warm = min(20, p["begin"])
        said = f"-s {p['begin'] - warm} -t {warm + p['instructions']};"
        assert any(said in line for line in found["arguments"]["champsim"])
    assert f"{out}.simpoints,{out}.weights,50,20" in found["arguments"]["gem5"][1]
    # The same from features, from the vectors, and from the points themselves.
    lists = ["--points", f"{out}.simpoints", "--weights", f"{out}.weights"]
    for args in ([str(feats), "--vectors", "code"], [f"{out}.bb"], [str(feats), *lists]):
        assert main(["simpoints", *args, "--interval", "50", "--json", "-q"]) == 0
        again = json.loads(capsys.readouterr().out)["points"]
        kept = [{k: p[k] for k in again[0]} for p in found["points"]]
        assert again == kept
    assert main(["simpoints", str(feats), "-q"]) == 0
    assert "walked whole" in capsys.readouterr().out
    assert main(["simpoints", str(feats), "-q", "--points", "x"]) == 2
    assert "--points and --weights go together" in capsys.readouterr().err


def test_times_add_up_by_weights(tmp_path, capsys):
    folders = [tmp_path / n for n in "abc"]
    paths = []
    for k, folder in enumerate(folders):
        folder.mkdir()
        paths.append(extract(folder, synthetic.text(k, 200 + 100 * k, blocks=False)).path)
    results = [tracekit.predict(p, machines=["u007", "o3_small"]) for p in paths[:2]]
    one = weighted(results, [0.25, 0.75], 1000)
    cpi = 0.25 * results[0].cpi + 0.75 * results[1].cpi
    assert np.allclose(one.cpi, cpi) and np.allclose(one.cycles, 1000 * cpi)
    assert weighted(results, [0.25, 0.75]).instructions == sum(r.instructions for r in results)
    with pytest.raises(UsageError, match="2 weights for 1 trace"):
        weighted(results[:1], [0.5, 0.5])
    with pytest.raises(UsageError, match=r"add up to 0\.8"):
        weighted(results, [0.5, 0.3])
    (tmp_path / "x.weights").write_text("0.25 0\n0.75 1\n")
    command = ["predict", paths[0], paths[0], "--weights", str(tmp_path / "x.weights"), "-q"]
    assert main([*command, "--json", "--instructions", "1000"]) == 0
    found = json.loads(capsys.readouterr().out)["total"]
    alone = tracekit.predict(paths[0])
    assert np.allclose([m["cpi"] for m in found["machines"]], alone.cpi)
    assert found["instructions"] == 1000
    assert main([*command[:3], "--instructions", "5"]) == 2
    assert "means nothing without --weights" in capsys.readouterr().err
    assert main(["predict", "--weights", "x", "--", "true"]) == 2
    assert "--weights: means nothing but for feats.zst files" in capsys.readouterr().err


def test_a_trace_of_another_program(tmp_path):
    def program(name, what):
        folder = tmp_path / name
        folder.mkdir()
        rows = [
            f"{500 * k:7d}: system.cpu: {0x400000 + 4 * k:#x}    :   {what + f' x1, x2, #{k}':<24} "
            ": IntAlu :   flags=(IsInteger)\n"
            for k in range(8)
        ]
        return extract(folder, "".join(rows)).path

    a, b, c = program("a", "add"), program("b", "add"), program("c", "sub")
    check_one_program([a, b])
    with pytest.raises(UsageError, match=r"8 of the 8 places .* a trace of another program"):
        check_one_program([a, b, c])


def test_an_interval_that_the_vectors_contradict_is_refused(tmp_path):
    simpoint.write_vectors(tmp_path / "x.bb", two_phases())
    assert simpoint.read_vectors(tmp_path / "x.bb", 500).length == 500
    for length in (77, 5000):
        with pytest.raises(UsageError, match=r"intervals of \d+ instructions; there are 599 in"):
            simpoint.read_vectors(tmp_path / "x.bb", length)
