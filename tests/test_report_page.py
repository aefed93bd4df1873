"""The report: what it holds, that it asks for nothing, and that a browser draws it."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
import shutil
import subprocess

import numpy as np
import pytest
import synthetic
from test_sim import MACHINE, extract, line

from tests.test_record import _why_not
from tracekit.causes import stacks
from tracekit.cli.main import main
from tracekit.errors import UsageError
from tracekit.report import Report, collect, page
from tracekit.report.collect import MOST_FUNCTIONS, MOST_LINES
from tracekit.report.loop import hottest_loop, pipeline
from tracekit.report.notes import intervals, notes
from tracekit.sim import KeptRows, totals, walk

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
MACHINES = [MACHINE, {**MACHINE, "name": "<img src=x onerror=alert(1)>", "width": 1, "rob": 16}]
EVIL = "</script><script>document.title='caught'</script>"


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    return extract(tmp_path_factory.mktemp("t"), synthetic.text(7, 3000, blocks=False))


@pytest.fixture(scope="module")
def data(trace):
    return collect(trace, MACHINES, title=EVIL)


def test_parts_add_up(data):
    assert len(data["machines"]) == 2
    for k, m in enumerate(data["machines"]):
        assert sum(m["causes"]) == m["cycles"]
        assert sum(map(sum, data["phases"]["machines"][k])) == m["cycles"]
        assert sum(f["machines"][k][0] for f in data["functions"]) == m["cycles"]
    assert data["phases"]["edges"][-1] == data["rows"] == 3000
    gains = [e["gain"] for e in data["limits"]["effects"]]
    assert gains == sorted(gains, reverse=True)
    assert all(0 <= r <= 1 for k in ("data", "fetch") for r in data["mrc"][k])


def test_much_code_is_counted_and_not_shown(tmp_path):
    rows = []
    for k in range(6000):
        pc = 0x400000 + 4 * k + 4096 * (k // 20)
        rows.append(re.sub(r"0x4000\w\w", hex(pc), line(k, f"movz x{k % 8}, #0")))
    found = collect(extract(tmp_path, "".join(rows)), [MACHINE])
    shown = sum(len(f["lines"]) for f in found["functions"])
    assert len(found["functions"]) == MOST_FUNCTIONS
    assert found["functions_left"] == 300 - MOST_FUNCTIONS
    assert shown == MOST_LINES


def test_the_page_asks_for_nothing(data):
    text = page(data)
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", text)
    assert EVIL not in text
    assert text.count("</script>") == 2
    policy = html.unescape(re.search(r'Policy" content="([^"]+)"', text)[1])
    for kind in ("style", "script"):
        body = re.search(rf"<{kind}>(.*?)</{kind}>", text, re.S)[1]
        digest = base64.b64encode(hashlib.sha256(body.encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in policy
    script = re.search(r"<script>(.*?)</script>", text, re.S)[1]
    assert not re.search(
        r"innerHTML|outerHTML|insertAdjacent|document\.write|\beval\b|Function\(", script
    )


PROGRAM = """
void _start(void) {
  volatile int sum = 0;
  for (int i = 0; i < 300; ++i) sum += i;
  __asm__("mov $60, %eax; xor %edi, %edi; syscall");
}
"""


def dump(text, folder):
    """The page as a browser draws it, and what the browser says."""
    path = folder / "r.html"
    path.write_text(text, encoding="utf-8")
    done = subprocess.run(
        [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr",
         f"--user-data-dir={folder / 'profile'}", "--dump-dom", path.as_uri()],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    return done.stdout, done.stderr


def loop(rounds, body=6):
    """A loop of divisions, a branch behind them, and other code around it."""
    out = []
    for k in range(rounds):
        for i in range(body):
            text, op, flags, pc = f"add x{i}, x{i}, #1", "IntAlu", "IsInteger", 0x400000 + 4 * i
            if i == 1:
                text, op = "sdiv x1, x1, x2", "IntDiv"
            if i == body - 1:
                text, flags = "b.ne", "IsControl|IsDirectControl|IsCondControl"
            row = 7 * k + i
            head = f"{500 * row:7d}: system.cpu: {pc:#x}    :   {text:<24}"
            out.append(f"{head} : {op} :   flags=({flags})\n")
    return "".join(out)


def test_the_loop_that_costs_most_is_drawn(tmp_path):
    trace = extract(tmp_path, loop(60))
    cycles = stacks(trace, [MACHINE]).places[:, 0].sum(1)
    first, last, low, high = hottest_loop(trace, cycles)
    assert (low, high) == (0x400000, 0x400014)
    assert last - first == 6
    assert first % 6 == 0
    found = pipeline(trace, MACHINE, cycles)
    assert len(found["rows"]) == 12
    plain = np.concatenate([w.cycles for w in walk(trace, [MACHINE])])[:, 0]
    retired = np.array([r["at"][3] for r in found["rows"]])
    assert (np.diff(retired) == plain[first + 1 : first + 12]).all()
    for r in found["rows"]:
        assert r["at"] == sorted(r["at"])
    straight = extract(tmp_path, "".join(line(k, "movz x1, #0") for k in range(100)))
    assert hottest_loop(straight, np.ones(1)) is None
    assert pipeline(straight, MACHINE, np.ones(1)) is None


def test_intervals_are_those_of_the_epochs(trace, monkeypatch):
    source = {"format": "tks", "contiguous": False, "epoch_lengths": {"": [1000, 500, 1500]}}
    monkeypatch.setitem(trace.index, "source", source)
    kept = KeptRows(trace)
    half = intervals(trace, kept, MACHINES)
    sums = totals(kept, MACHINES, [0, 1000, 1500, 3000])
    rows = np.array([1000, 500, 1500])
    for k in range(2):
        cpi = sums[:, k].sum() / 3000
        rest = [s - cpi * r for s, r in zip(sums[:, k], rows, strict=True)]
        error = 4.303 * np.sqrt(sum(x * x for x in rest) / 2 / 3) / 1000 / cpi
        assert half[k] == pytest.approx(error, rel=1e-9)
    data = collect(trace, MACHINES)
    assert [m["half_interval"] for m in data["machines"]] == pytest.approx(half.tolist())
    assert any("3 epochs" in n for n in data["notes"])
    monkeypatch.setitem(source, "epoch_lengths", {"": [3000]})
    assert np.isnan(intervals(trace, kept, MACHINES)).all()
    monkeypatch.setitem(source, "contiguous", True)
    assert intervals(trace, kept, MACHINES) is None


def test_notes_say_what_was_never_compared(trace, monkeypatch):
    assert not any("not validated" in n for n in notes(trace))
    monkeypatch.setitem(trace.index, "arch", "unknown")
    assert any("not validated" in n for n in notes(trace))


def test_notebooks_show_parts_in_a_frame(data):
    report = Report(data)
    whole = report._repr_html_()
    assert EVIL not in whole
    assert 'sandbox="allow-scripts"' in whole
    inside = html.unescape(re.search(r'srcdoc="([^"]*)"', whole)[1])
    assert inside == page(data)
    few = report.only("machines", "limits", height=300)
    assert "height:300px" in few._repr_html_()
    assert json.loads(re.search(r'id="data">(.*?)</script>', page(data, few.parts))[1])["parts"]
    with pytest.raises(UsageError, match=r"graph is no part .some of answer"):
        report.only("graph")


@pytest.mark.skipif(CHROMIUM is None, reason="no chromium")
def test_parts_alone(data, tmp_path):
    dom, errors = dump(page(data, ["phases"]), tmp_path)
    assert "CONSOLE" not in errors
    assert "Cycles a row over the trace" in dom
    assert "Hot functions</h2>" not in dom


@pytest.mark.skipif(CHROMIUM is None, reason="no chromium")
def test_a_browser_draws_it(data, tmp_path):
    dom, errors = dump(page(data), tmp_path)
    assert "CONSOLE" not in errors
    assert "<title>tracekit report</title>" in dom
    assert html.escape(EVIL, quote=False) in dom
    assert "<img" not in dom
    assert dom.count("<svg") >= 4
    assert data["machines"][0]["paragraph"].split(".")[0] in dom
    assert "What limits it on m" in dom


@pytest.fixture
def browser_page(data, tmp_path, chromium):
    """The report in the distribution's Chromium, and what its console said."""
    path = tmp_path / "r.html"
    path.write_text(page(data), encoding="utf-8")
    shown = chromium.new_page(viewport={"width": 1000, "height": 800})
    said = []
    shown.on("console", lambda m: said.append(m.text))
    shown.on("pageerror", lambda e: said.append(str(e)))
    shown.on("request", lambda r: said.append(r.url) if r.url != path.as_uri() else None)
    shown.goto(path.as_uri())
    yield shown
    assert said == []


def rows_chosen(shown):
    """The range of rows and the cycles that the table of phases is of."""
    text = shown.inner_text("p[aria-live]")
    first, last, cycles = re.match(r"Rows ([\d,]+) to ([\d,]+): ([\d,]+) cycles on", text).groups()
    return [int(n.replace(",", "")) for n in (first, last, cycles)]


def drag(shown, begin, end):
    """Over the picture of phases, from one share of its width to another."""
    box = shown.locator("svg[aria-label^='cycles a row']").bounding_box()
    left, width = box["x"] + 38, box["width"] - 38
    y = box["y"] + box["height"] / 2
    shown.mouse.move(left + begin * width, y)
    shown.mouse.down()
    shown.mouse.move(left + end * width, y, steps=4)
    shown.mouse.up()


def test_brushing_chooses_rows(browser_page, data):
    edges, by_phase = data["phases"]["edges"], data["phases"]["machines"][0]
    assert rows_chosen(browser_page) == [0, 3000, data["machines"][0]["cycles"]]
    browser_page.locator("svg[aria-label^='cycles a row']").scroll_into_view_if_needed()
    drag(browser_page, 0.25, 0.5)
    first, last, cycles = rows_chosen(browser_page)
    a, b = edges.index(first), edges.index(last)
    assert abs(first - 750) <= edges[1]
    assert abs(last - 1500) <= 2 * edges[1]
    assert cycles == sum(map(sum, by_phase[a:b]))
    drag(browser_page, 0.9, 0.6)  # to the left
    backwards = rows_chosen(browser_page)
    assert backwards[0] < 0.65 * 3000 < 0.85 * 3000 < backwards[1]
    browser_page.click("button:text('all')")
    assert rows_chosen(browser_page)[:2] == [0, 3000]
    browser_page.focus("#from")  # without a mouse
    browser_page.keyboard.press("ArrowRight")
    assert rows_chosen(browser_page)[0] == edges[1]


def test_clicks_choose_machine_and_function(browser_page, data):
    browser_page.select_option("#machine", index=1)
    assert rows_chosen(browser_page)[2] == data["machines"][1]["cycles"]
    assert browser_page.inner_text("p.answer").startswith(
        data["machines"][1]["paragraph"].replace(" %", "\u00a0%")[:40]
    )
    functions = browser_page.locator("tr.pick")
    assert functions.count() == min(15, len(data["functions"]))
    functions.last.click()
    chosen = browser_page.locator("tr.pick[aria-selected=true]")
    assert chosen.count() == 1
    name = data["functions"][functions.count() - 1]["name"]
    assert browser_page.locator("h2", has_text=name).count() >= 1
    functions.first.focus()
    browser_page.keyboard.press("Enter")
    assert browser_page.locator("tr.pick").first.get_attribute("aria-selected") == "true"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_runs_over_the_edge(browser_page, scheme):
    browser_page.emulate_media(color_scheme=scheme)
    for width in (390, 1280):
        browser_page.set_viewport_size({"width": width, "height": 800})
        wide = browser_page.evaluate("document.documentElement.scrollWidth")
        assert wide <= width, (width, wide)
    ink, paper = browser_page.evaluate(
        "[getComputedStyle(document.body).color, getComputedStyle(document.body).backgroundColor]"
    )
    dark = [sum(map(int, re.findall(r"\d+", c)[:3])) < 384 for c in (ink, paper)]
    assert dark == [scheme == "light", scheme == "dark"]


def test_command_report(trace, tmp_path, capsys):
    machine = tmp_path / "m.json"
    machine.write_text(json.dumps(MACHINE))
    out = tmp_path / "r.html"
    args = ["report", str(trace.path), "--machine", str(machine), "-o", str(out)]
    assert main(args) == 0
    assert "3,000 rows take" in capsys.readouterr().out
    assert main(args) == 1
    assert "exists" in capsys.readouterr().err
    assert main([*args, "--force", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["rows"] == 3000
    assert main(["report", "-o", str(out)]) == 2
    assert "give a file, a program after --, or --pid" in capsys.readouterr().err
    assert main([*args, "--force", "--seconds", "3"]) == 2
    assert "--seconds" in capsys.readouterr().err
    assert main(["report", str(trace.path), str(trace.path), "-o", str(tmp_path / "n.html")]) == 2
    assert "a report is of one" in capsys.readouterr().err


@pytest.mark.skipif(_why_not() is not None, reason=_why_not() or "")
def test_reports_of_a_program_and_of_its_recording(tmp_path, capsys):
    out, kept, program = (str(tmp_path / n) for n in ("r.html", "r.tks", "prog"))
    (tmp_path / "p.c").write_text(PROGRAM)
    subprocess.run(
        ["gcc", "-O1", "-nostdlib", "-static", str(tmp_path / "p.c"), "-o", program], check=True
    )
    args = ["report", "--machine", "ns_8w", "-o", out, "--json"]
    assert main([*args, "--full", "--record", kept, "--", program]) == 0
    run = json.loads(capsys.readouterr().out)
    assert (tmp_path / "r.html").read_text().startswith("<!DOCTYPE html>")
    assert main([*args, "--force", kept]) == 0
    recording = json.loads(capsys.readouterr().out)
    assert recording["rows"] == run["rows"] > 1000
    assert recording["machines"][0]["cycles"] == run["machines"][0]["cycles"]
    assert "r.tks" in recording["how"]["trace"]
    assert any("system time" in n for n in run["notes"])
    assert run["pipeline"]["length"] >= 3
