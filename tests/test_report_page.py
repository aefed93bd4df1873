"""The report: what it holds, that it asks for nothing, and that a browser draws it."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
import shutil
import subprocess

import pytest
import synthetic
from test_sim import MACHINE, extract, line

from tracekit.cli.main import main
from tracekit.report import collect, page
from tracekit.report.collect import MOST_FUNCTIONS, MOST_LINES

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


@pytest.mark.skipif(CHROMIUM is None, reason="no chromium")
def test_a_browser_draws_it(data, tmp_path):
    path = tmp_path / "r.html"
    path.write_text(page(data), encoding="utf-8")
    done = subprocess.run(
        [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr",
         f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom", path.as_uri()],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    assert "CONSOLE" not in done.stderr
    dom = done.stdout
    assert "<title>tracekit report</title>" in dom
    assert html.escape(EVIL, quote=False) in dom
    assert "<img" not in dom
    assert dom.count("<svg") >= 4
    assert data["machines"][0]["paragraph"].split(".")[0] in dom
    assert "What limits it on m" in dom


def test_command_report(trace, tmp_path, capsys):
    machine = tmp_path / "m.json"
    machine.write_text(json.dumps(MACHINE))
    out = tmp_path / "r.html"
    args = ["report", str(trace.path), "--machines", str(machine), "-o", str(out)]
    assert main(args) == 0
    assert "3,000 rows take" in capsys.readouterr().out
    assert main(args) == 1
    assert "exists" in capsys.readouterr().err
    assert main([*args, "--force", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["rows"] == 3000
