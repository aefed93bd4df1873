"""The torch engine: its results beside the network's and the CPU engine's, its number formats."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tracekit.errors import TracekitError, UsageError
from tracekit.model import Card, ModelSpec
from tracekit.neuroscalar import history, instructions, presets

torch = pytest.importorskip("torch")


def test_what_float16_cannot_hold_is_no_answer():
    """Standardised values behind 65,504 would give NaN; bfloat16 holds them."""
    from tracekit.infer_torch.engine import TorchEngine
    from tracekit.infer_torch.network import Network

    spec = presets.paper_spec(hidden=24)
    columns = tuple(e.column for e in spec.inputs)
    card = Card("x", spec, columns, microarchitectures=[{"name": "a"}])
    torch.manual_seed(0)
    tensors = Network(spec, columns).tensors()
    x = np.full((30, 13), 1e6, np.float32)
    x[10:] = 1
    engine = TorchEngine(card, tensors, "cpu", "f16")
    with pytest.raises(TracekitError, match="cycles: 30 of the rows 0 to 30 are NaN in f16"):
        list(engine.feed(iter([x]), ["cycles"]))
    assert len(list(engine.feed(iter([x[10:]]), ["cycles"]))) == 1
    engine = TorchEngine(card, tensors, "cpu", "bf16")
    (found,) = engine.feed(iter([x]), ["cycles"])
    assert np.isfinite(found["cycles"]).all()


def random_network(spec, columns, seed=0):
    from tracekit.infer_torch.network import Network

    torch.manual_seed(seed)
    return Network(spec, columns)


def test_both_directions_are_torchs(tmp_path):
    """One window: the golden rows that training wrote, by the network and both engines."""
    infer = pytest.importorskip("tracekit.infer")
    from tracekit.infer_torch.engine import TorchEngine

    spec = presets.paper_spec(hidden=24, bidirectional=True)
    columns = tuple(e.column for e in spec.inputs)
    net = random_network(spec, columns)
    card = Card("x", spec, columns, microarchitectures=[{"name": "a"}], extra={"lookahead": 60})
    x = np.random.default_rng(0).integers(0, 9, (700, 13)).astype(np.float32)
    with torch.no_grad():
        whole = net.head(None, net(torch.from_numpy(x)[None])[0])[0].numpy()
    for chunk in (700, 300):
        found = []
        for make in (infer.Engine, TorchEngine):
            options = {"dtype": "f32"} if make is infer.Engine else {"device": "cpu"}
            it = make(card, net.tensors(), chunk=chunk, warmup=60, **options)
            out = {"cycles": np.zeros((700, 1), np.float32)}
            it.run_range(x, 0, 0, 700, chunk, out, None)
            found.append(out["cycles"])
        np.testing.assert_allclose(found[0], found[1], rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(found[0], whole, rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("rows", [0, 1, 300, 1100])
@pytest.mark.parametrize("preset", ["default", "paper"])
def test_engines_agree_with_the_network(preset, rows, tmp_path):
    infer = pytest.importorskip("tracekit.infer")
    from tracekit.infer_torch.engine import TorchEngine

    if preset == "paper":
        spec, columns = presets.paper_spec(hidden=32), tuple(f"c{k}" for k in range(13))
        inputs = [{**e.to_dict(), "column": c} for e, c in zip(spec.inputs, columns, strict=True)]
        spec = ModelSpec.parse({**spec.to_dict(), "inputs": inputs})
    else:
        spec = presets.default_spec(["a", "b"], 24, scale=[0.9, 1.1])
        columns = instructions.columns(["a", "b"]) + history.columns(["a", "b"])
    net = random_network(spec, columns)
    r = np.random.default_rng(rows)
    x = r.integers(0, 30, (rows, len(columns))).astype(np.float32)
    machines = [{"name": str(k)} for k in range(spec.heads[0].width_out)]
    card = Card("x", spec, columns, microarchitectures=machines)
    with torch.no_grad():
        v, _ = net(torch.from_numpy(x)[None])
        wanted = {h.name: net.head(h.name, v)[0].numpy() for h in spec.heads}
        cut, state = rows // 3, None
        parts = []
        for part in (x[:cut], x[cut:]):  # state carries over
            out, state = net(torch.from_numpy(part)[None], state)
            parts.append(out[0])
        np.testing.assert_allclose(torch.cat(parts).numpy(), v[0].numpy(), atol=1e-5)
    numba = infer.Engine(card, net.tensors(), dtype="f32", threads=1, chunk=350)
    gpu = TorchEngine(card, net.tensors(), "cpu", chunk=350, lanes=2)
    for engine in (numba, gpu):
        for name, want in wanted.items():
            found = {name: np.zeros_like(want)}
            for low in range(0, rows, 700):
                high = min(low + 700, rows)
                part = {name: found[name][low:high]}
                engine.run_range(x, 0, low, high, 350, part, None)
            near = np.isclose(found[name], want, rtol=1e-3, atol=1e-3)
            assert near.all() if name == "mean" or rows < 2 else near.mean() > 0.99
    half = TorchEngine(card, net.tensors(), "cpu", "bf16", chunk=350)
    found = list(infer.Stream(half, ["cycles"]).feed([x[: rows // 2], x[rows // 2 :]]))
    got = np.concatenate([f["cycles"] for f in found]) if found else np.zeros((0, len(machines)))
    assert got.shape == wanted["cycles"].shape
    if rows:
        assert abs(got.mean() - wanted["cycles"].mean()) < 0.2 * wanted["cycles"].mean() + 0.05
    gpu = TorchEngine(card, net.tensors(), "cpu", chunk=5, warmup=30, lanes=1)
    cuts = [0, rows // 3, rows // 2, rows]
    blocks = [x[a:b] for a, b in itertools.pairwise(cuts)]
    fed = list(gpu.feed(iter(blocks), ["cycles"]))
    streamed = list(infer.Stream(gpu, ["cycles"]).feed(blocks))
    assert all(len(f["cycles"]) == 240 for f in fed[:-1])
    one, other = (np.concatenate([f["cycles"] for f in k] or [x[:, :1]]) for k in (fed, streamed))
    assert one.shape == other.shape and len(one) == rows
    near = np.isclose(one, other, rtol=1e-3, atol=1e-3)
    assert near.all() if rows < 2 else near.mean() > 0.99
    if rows > 1:
        with pytest.raises(UsageError):
            list(gpu.feed(iter([x, x[:, 1:]]), ["cycles"]))
        next(gpu.feed(iter(blocks), ["cycles"]))  # what is left unread ends with it
    with pytest.raises(UsageError, match="outputs is 'cycles'; a list of names"):
        next(gpu.feed(iter(blocks), "cycles"))
    with pytest.raises(UsageError):
        TorchEngine(card, net.tensors(), "cuda")
    with pytest.raises(UsageError):
        TorchEngine(card, net.tensors(), "cpu", "int8")
