"""The torch engine's number formats.  Its results are compared in tests/test_neuroscalar.py."""

from __future__ import annotations

import numpy as np
import pytest

from tracekit.errors import TracekitError
from tracekit.model import Card
from tracekit.neuroscalar import presets

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
