"""In notebooks: tables whose texts are texts, and nothing printed from threads."""

from __future__ import annotations

import html.parser
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

import tracekit
from tracekit import progress
from tracekit.causes import explain, what_if
from tracekit.causes.why import why

BAD = "<img src=x onerror=alert(1)>&\"'"


@pytest.fixture(scope="module")
def files(tmp_path_factory, golden) -> tuple[Path, tracekit.ExtractionResult]:
    """A trace under a name that is markup, and what extract gave."""
    path = tmp_path_factory.mktemp("notebook") / BAD.replace("/", "")
    return path, tracekit.extract(golden / "lua.arm.trace.xz", path, chunk_rows=256)


class Tags(html.parser.HTMLParser):
    """The tags of a text, in pairs, and its words."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.open: list[str] = []
        self.words = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        assert not attrs
        self.tags.add(tag)
        self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words += data


def test_tables(files):
    path, result = files
    machines = [tracekit.Machine.load("u007").replace(name=f"{BAD}{k}") for k in range(2)]
    with tracekit.open(path) as trace:
        model = tracekit.load_model()
        shown = {
            "trace": (trace, "6,134 (micro)"),
            "machine": (machines[0], "reorder buffer"),
            "simulation": (tracekit.simulate(trace, machines), "CPI"),
            "prediction": (tracekit.predict(trace, model, by="phase", phases=3), "by phase"),
            "extraction": (result, "6,134 rows"),
            "model": (model, "u007"),
            "why": (why(trace, machines[0]), "cycles on"),
            "what if": (what_if(trace, machines[0], ["rob=512", "width*2"]), "rob=512"),
            "difference": (
                explain(trace, trace, machines[0], machines[1].replace(rob=8)),
                "by function and cause",
            ),
            "curve": (tracekit.miss_ratio_curve(tracekit.stack_distance([1, 2, 2, 1])), "50.00 %"),
        }
        for name, (thing, said) in shown.items():
            tags = Tags(thing._repr_html_())
            assert tags.tags <= {"table", "caption", "tr", "td", "th"} and not tags.open, name
            assert said in tags.words, name
            assert "\n" not in repr(thing) and "tracekit.causes" not in repr(thing), name
            if name not in ("model", "curve", "difference"):
                assert "onerror" in tags.words, name


class Watched:
    """A stream that notes which thread writes."""

    def __init__(self) -> None:
        self.threads: set[str] = set()
        self.text = ""

    def write(self, text: str) -> int:
        self.threads.add(threading.current_thread().name)
        self.text += text
        return len(text)

    def flush(self) -> None:
        pass

    def isatty(self) -> bool:
        return False


def test_only_the_callers_thread_prints(golden, tmp_path, monkeypatch):
    """Progress is due at every step, with threads at work."""
    out, err = Watched(), Watched()
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", err)
    monkeypatch.setattr(progress, "PLAIN_EVERY", 0.0)
    source, feats = golden / "lua.arm.trace.xz", tmp_path / "t.zst"
    tracekit.extract(source, feats, quiet=False, overlap=True, chunk_rows=256)
    tracekit.simulate(feats, ["u007", "o3_small", "u001"], threads=3, causes=True, quiet=False)
    tracekit.predict(feats, threads=3, quiet=False)
    assert err.threads == {threading.current_thread().name} and err.text.count("\n") > 3
    assert out.threads == set()
    before = err.text
    tracekit.simulate(feats, "u007", threads=3)
    tracekit.predict(feats, threads=3)
    assert err.text == before


def test_bars_in_notebooks(monkeypatch):
    """tqdm's bar for notebooks, where one runs; no thread of its own is started."""
    pytest.importorskip("tqdm")
    made = []
    runs = [False]
    kernel = SimpleNamespace(IPKernelApp=SimpleNamespace(initialized=lambda: runs[0]))
    monkeypatch.setitem(sys.modules, "ipykernel", sys)
    monkeypatch.setitem(sys.modules, "ipykernel.kernelapp", kernel)
    monkeypatch.setattr(progress, "_bar", lambda *a: made.append(a))
    with progress.Progress("x", 3):  # imported by something else: this process is no kernel
        pass
    assert not made
    runs[0] = True
    with progress.Progress("x", 3):
        pass
    with progress.Progress("x", 3, quiet=True):
        pass
    assert made == [("x", 3, "rows")]
