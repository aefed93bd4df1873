"""Long programs that several workers evaluate in pieces: the numbers of one process exactly."""

from __future__ import annotations

import json

import numpy as np
import pytest
import synthetic
from test_sim import MACHINE

import tracekit
from tracekit.cli.main import main
from tracekit.cluster import state_of
from tracekit.dataset import Dataset
from tracekit.dataset.joining import join
from tracekit.evaluation import program_totals, several_workers
from tracekit.model import save_model
from tracekit.perfvec import network
from tracekit.sim import spread

pytest.importorskip("numba", reason="needs the extra infer")
ROWS = (3000, 200, 2100)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Three programs, one of them short, of two machines, in chunks of 256 rows."""
    folder = tmp_path_factory.mktemp("pieces")
    for k, rows in enumerate(ROWS):
        (folder / f"p{k}.txt").write_text(synthetic.text(k, rows, blocks=False))
        tracekit.extract(folder / f"p{k}.txt", folder / f"p{k}.zst", chunk_rows=256)
        with tracekit.open(folder / f"p{k}.zst") as t:
            cycles = np.random.default_rng(k).uniform(0.1, 3, (2, len(t))).astype(np.float32)
        np.save(folder / f"p{k}.npy", cycles)
        targets = [f"a,b={folder / f'p{k}.npy'}"]
        join(str(folder / f"p{k}.zst"), targets, str(folder / f"d{k}.zst"))
    for name in "ab":
        (folder / f"{name}.json").write_text(json.dumps(MACHINE))
    programs = [{"name": f"p{k}", "data": f"d{k}.zst"} for k in range(len(ROWS))]
    machines = {"a": "a.json", "b": "b.json"}
    manifest = {"machines": machines, "programs": programs, "test": ["p0"]}
    (folder / "m.json").write_text(json.dumps(manifest))
    return folder


@pytest.fixture(scope="module", params=["network", "mixture"])
def model(request, data):
    folder = data / request.param
    if request.param == "mixture":
        assert main(["train", "perfvec", str(data / "m.json"), "-o", str(folder), "--quiet"]) == 0
        return folder
    n = len(network.columns())
    spec = network.model_spec(np.zeros(n, np.float32), np.ones(n, np.float32), 8, 2)
    r = np.random.default_rng(3)
    tensors = {k: r.uniform(-0.3, 0.3, s).astype(np.float32) for k, s in spec.tensors().items()}
    machines = [{"name": m, "parameters": MACHINE} for m in "ab"]
    card = network.card("small", spec, machines, {"programs": [{"name": "p2"}]})
    save_model(folder, card, tensors)
    return folder


@pytest.mark.parametrize("more", [[], ["--rows", "1700"]])
def test_evaluation_in_pieces_is_the_same(data, model, more, tmp_path, capsys, monkeypatch):
    command = ["evaluate", str(data / "m.json"), "--model", str(model), "--json", *more]
    assert main(command) == 0
    whole = capsys.readouterr().out

    def single_cores(rows: int, cores: int) -> list[tuple[int, int]]:
        return [(k, k + 1) for k in range(cores)] if rows > 1000 else [(0, cores)]

    monkeypatch.setattr(program_totals, "PIECE_ROWS", 600)
    monkeypatch.setattr(several_workers, "PIECE", 1200)
    for module in (spread, program_totals):
        monkeypatch.setattr(module, "pieces", single_cores)
    for _ in range(2):  # as tasks, and then from what they wrote down
        assert main([*command, "--run", str(tmp_path / "run")]) == 0
        assert capsys.readouterr().out == whole
    kinds = [r.name for r in state_of(tmp_path / "run").done]
    assert sum("evaluated_program" in n for n in kinds) == 1  # the short one
    assert sum("true_sums" in n for n in kinds) >= 4
    own = "network_sums" if model.name == "network" else "core_totals"
    assert sum(own in n for n in kinds) >= 4
    assert main(command) == 0  # in small pieces, one after another
    assert capsys.readouterr().out == whole


def test_blocks_add_up_to_the_sums(data):
    with Dataset(str(data / "d0.zst")) as d:
        for rows in (1, 255, 256, 700, len(d)):
            total = np.zeros(2)
            for first in range(0, d.blocks, 5):
                for block in d.block_sums((first, min(first + 5, d.blocks)), rows):
                    total += block
            assert np.array_equal(total, d.sums(np.array([0, rows]))[0])


def test_a_piece_begins_on_the_grid(data, model):
    if model.name != "network":
        pytest.skip("a mixture has no grid")
    from tracekit import infer

    engine = infer.load(model, dtype="f32", threads=1)
    x = np.zeros((600, len(network.columns())), np.float32)
    with pytest.raises(tracekit.UsageError, match="not on the grid"):
        engine.range_sums(x, 0, (100, 300), 600)
    parts = [engine.range_sums(x, 0, p, 600) for p in ((0, 256), (256, 600))]
    assert np.array_equal(engine.totals_of(np.concatenate(parts)), engine.totals(x, [0, 600])[0])
