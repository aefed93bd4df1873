"""The machine in a .tkt trace's head: from gem5's objects, by the plug-in's own script and writer,
to `info`, `simulate` and `predict`."""

from __future__ import annotations

import importlib.util
import io
import json
import sys
import types
import zlib
from pathlib import Path

import numpy as np
import pytest
from test_gem5_config import config, written
from test_sim import MACHINE
from test_tkt import HEADER, read, write

import tracekit
from tracekit import _core
from tracekit.cli.main import main
from tracekit.errors import FormatError, UsageError
from tracekit.inputs.tkt import Tkt
from tracekit.sim import gem5_machine, totals

ROOT = Path(__file__).resolve().parent.parent
#: A machine of no model, and the rows that a gem5 wrote in reality.
OWN = {**MACHINE, "rob": 100, "iq": 33, "l1d_kb": 16}
#: The names of the real stream's tables stand in its own header.
REAL = Path(__file__).parent / "golden" / "tkt" / "kern.arm.tkt.zst"


def ini(folder: Path, machine: dict) -> bytes:
    return written(folder, config(machine), "ini").read_bytes()


def with_configuration(raw: bytes, packed: bytes) -> bytes:
    """A stream of a writer that told none, with one."""
    end = 16 + int.from_bytes(raw[12:16], "little")
    head = raw[16:end] + len(packed).to_bytes(4, "little") + packed
    return raw[:12] + len(head).to_bytes(4, "little") + head + raw[end:]


@pytest.fixture(scope="module")
def stream() -> bytes:
    import zstandard

    return zstandard.ZstdDecompressor().decompress(REAL.read_bytes(), max_output_size=1 << 26)


@pytest.fixture(scope="module")
def traced(stream, tmp_path_factory) -> Path:
    """The real trace with the configuration of OWN, extracted."""
    folder = tmp_path_factory.mktemp("own")
    raw = with_configuration(stream, zlib.compress(ini(folder / "m5out", OWN)))
    (folder / "t.tkt").write_bytes(raw)
    tracekit.extract(folder / "t.tkt", folder / "t.zst", strict=True)
    return folder / "t.zst"


@pytest.mark.parametrize("packed", [b"x", b"y" * 300, zlib.compress(b"[system]\n" * 40_000)])
def test_what_the_plug_ins_writer_writes_is_read(packed):
    rows = [(k % 3, 16, 64 * k, []) for k in range(50)]
    raw, plain = write(rows, configuration=packed), write(rows)
    assert raw == with_configuration(plain, packed)
    reader, got = read(raw, [10, 40, len(raw) - 9])
    assert reader.configuration() == packed and reader.complete()
    without, same = read(plain)
    assert without.configuration() == b"" and without.counters() == reader.counters()
    assert all(np.array_equal(got[k], same[k]) for k in same)


def test_fields_of_a_later_writer_are_passed_over():
    raw = with_configuration(write([(0, 0, 0, [])]), b"abc")
    end = 16 + int.from_bytes(raw[12:16], "little")
    more = raw[:12] + (end - 16 + 5).to_bytes(4, "little") + raw[16:end] + b"later" + raw[end:]
    reader, got = read(more)
    assert reader.configuration() == b"abc" and len(got["sid"]) == 1 and reader.complete()


def test_damaged_heads():
    raw = with_configuration(write([]), b"abc")
    end = 16 + int.from_bytes(raw[12:16], "little")
    for size, message in ((4, "shorter than its configuration"), (1 << 20, "more than 512 KiB")):
        bad = raw[: end - 7] + size.to_bytes(4, "little") + raw[end - 3 :]
        with pytest.raises(FormatError, match=message):
            read(bad)
    with pytest.raises(ValueError, match="configuration too large"):
        _core.TktWriter(HEADER | {"configuration": bytes((1 << 19) + 1)})


def test_everybody_knows_the_machine(traced, capsys):
    with tracekit.open(traced) as trace:
        own = tracekit.Machine.of(trace)
        assert own is not None and own.name == "system.cpu"
        assert (own.rob, own.iq, own.l1d_kb) == (100, 33, 16)
        expected = totals(trace, [{**own.to_dict()}])[0]
        assert tracekit.simulate(trace).cycles.tolist() == expected.tolist()
        found = tracekit.predict(trace)
        assert found.machines[-1] == "system.cpu"
        assert found.cycles[-1] == pytest.approx(float(expected[0]), rel=1e-9)
        others = tracekit.predict(trace, own_machine=False)
        assert others.machines == found.machines[:-1]
        assert np.array_equal(others.cycles, found.cycles[:-1])
        assert tracekit.predict(trace, machines=["system.cpu"]).machines == ("system.cpu",)
    assert main(["info", str(traced)]) == 0
    assert "machine    system.cpu: " in capsys.readouterr().out
    assert main(["info", "--json", str(traced)]) == 0
    assert json.loads(capsys.readouterr().out)["machine"]["rob"] == 100
    assert main(["simulate", str(traced), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)[0]["machines"]
    assert [m["name"] for m in said] == ["system.cpu"]
    assert main(["predict", str(traced), "--uarch", "system.cpu", "u007"]) == 0
    assert "system.cpu" in capsys.readouterr().out
    assert main(["predict", str(traced), str(traced), "--json"]) == 0
    assert "system.cpu" not in capsys.readouterr().out


def test_what_is_not_simulated_is_said(stream, tmp_path, capsys):
    objects = config(OWN)
    objects["system.cpu"]["trapLatency"] = 99
    text = written(tmp_path / "m5out", objects, "ini").read_bytes()
    (tmp_path / "t.tkt").write_bytes(with_configuration(stream, zlib.compress(text)))
    tracekit.extract(tmp_path / "t.tkt", tmp_path / "t.zst", count=100)
    assert main(["info", str(tmp_path / "t.zst")]) == 0
    assert "system.cpu.trapLatency is 99; 13 is simulated" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("packed", "why"),
    [
        (b"no zlib", "configuration is damaged"),
        (zlib.compress(b"[a]\n" * 9)[:-6], "cut off, or larger"),
        (zlib.compress(b"[root]\ntype=Root\n"), "no O3 or Minor CPU"),
        (zlib.compress(bytes(17 << 20)), "cut off, or larger than 16 MiB"),
    ],
)
def test_a_trace_of_no_known_machine_is_read_all_the_same(packed, why, stream, tmp_path, capsys):
    (tmp_path / "t.tkt").write_bytes(with_configuration(stream, packed))
    tracekit.extract(tmp_path / "t.tkt", tmp_path / "t.zst", count=100, strict=True)
    with tracekit.open(tmp_path / "t.zst") as trace:
        assert tracekit.Machine.of(trace) is None and len(trace) == 100
        with pytest.raises(UsageError, match=f"does not tell its own: .*{why}"):
            tracekit.simulate(trace)
    assert main(["info", str(tmp_path / "t.zst")]) == 0
    assert why in capsys.readouterr().out


def test_a_trace_without_one(tmp_path, golden):
    tracekit.extract(golden / "lua.arm.trace.xz", tmp_path / "t.zst", count=100)
    with pytest.raises(UsageError, match=r"t.zst: no machine is named, and the trace does not"):
        tracekit.simulate(tmp_path / "t.zst")


class Thing:
    """One of gem5's objects, as far as the script looks at it."""

    def __init__(self, path: str, values: dict) -> None:
        self._path, self._values = path, values

    def path(self) -> str:
        return self._path

    def print_ini(self, file: io.StringIO) -> None:
        print(f"[{self._path}]", file=file)
        for key, value in self._values.items():
            text = str(value).lower() if isinstance(value, bool) else value
            print(f"{key}={text}", file=file)
        print(file=file)


def test_the_script_tells_every_tracer_the_configuration(tmp_path, monkeypatch):
    """tracekit_run.py as gem5 runs it, on objects that stand for gem5's."""
    told = []

    class BaseO3CPU(Thing):
        pass

    class Tracer:
        def __init__(self, **values: object) -> None:
            self.values = values

        def getCCObject(self):
            return types.SimpleNamespace(configuration=told.append)

    things = [(BaseO3CPU if p == "system.cpu" else Thing)(p, v) for p, v in config(OWN).items()]
    root = types.SimpleNamespace(descendants=lambda: iter(things))
    objects = types.ModuleType("m5.objects")
    objects.BaseCPU = objects.BaseO3CPU = BaseO3CPU
    objects.Root = types.SimpleNamespace(getInstance=lambda: root)
    objects.System = type("System", (), {})
    objects.TracekitTracer = Tracer
    objects.TracekitO3Probe = lambda **values: types.SimpleNamespace(**values)
    m5 = types.ModuleType("m5")
    m5.objects, m5.instantiate = objects, lambda: "instantiated"
    monkeypatch.setitem(sys.modules, "m5", m5)
    monkeypatch.setitem(sys.modules, "m5.objects", objects)
    script = tmp_path / "their_config.py"
    script.write_text("import m5\nassert m5.instantiate() == 'instantiated'\n")
    monkeypatch.setattr(sys, "argv", ["tracekit_run.py", str(script)])
    monkeypatch.setattr(sys, "path", [*sys.path])
    place = ROOT / "gem5_patches" / "tracekit_run.py"
    spec = importlib.util.spec_from_file_location("tracekit_run", place)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.main()

    assert len(told) == 1
    source = Tkt()
    source.feed(write([], configuration=told[0], isa="arm", cpu_name="system.cpu"))
    found = source.stats()["machine"]
    expected, _ = gem5_machine(written(tmp_path / "m5out", config(OWN), "ini"))
    assert found == {**expected, "name": "system.cpu"}
