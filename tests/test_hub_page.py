"""The hub's pages: whose they are, what they may load, and how they look in Chromium."""

from __future__ import annotations

import base64
import html.parser
import http.client
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import synthetic

pytest.importorskip("sqlalchemy", reason="needs the extra hub")
pytest.importorskip("alembic", reason="needs the extra hub")
pytest.importorskip("starlette", reason="needs the extra hub")
pytest.importorskip("uvicorn", reason="needs the extra hub")
pytest.importorskip("jinja2", reason="needs the extra hub")

import sqlalchemy as sa

import tracekit
from tests.hub_process import Process, batch_of, published, running, tokens
from tracekit.cli.main import main
from tracekit.fleet import HubClient, HubError, Token
from tracekit.hub import issue_viewer, open_database
from tracekit.hub.pages import Pages
from tracekit.hub.tables import audit


def get(process: Process, path: str, **headers: str) -> tuple[int, dict[str, str], str]:
    made = http.client.HTTPConnection("127.0.0.1", process.port, timeout=30)
    try:
        made.request("GET", path, headers=headers)
        answer = made.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read().decode()
    finally:
        made.close()


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory):
    """A hub of seven computers, whose page is open."""
    database = str(tmp_path_factory.mktemp("page") / "h.db")
    made = tokens(database, 7)
    with running(database, "--open-page", "--release-minutes", "0", "--burst", "500") as process:
        for token in made:
            send(process, token, 3)
        yield process


def send(process: Process, token: Token, days: int) -> None:
    with HubClient(process.url, token) as client:
        for i in range(days):
            hour = int(time.time() // 3600) - 24 * (days - i)
            batch = batch_of(token.agent, i + 1, count=20, group="lab", label="sql.ite", hour=hour)
            client.send(batch)


class Links(html.parser.HTMLParser):
    """What a page would load, and what could act."""

    def __init__(self) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.tags: list[str] = []
        self.labels: set[str] = set()
        self.inputs: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        for name, value in attrs:
            assert not name.startswith("on"), f"{tag} {name}"
            assert name != "style", tag
            if name in ("src", "href", "action"):
                self.loads.append(value or "")
            if tag == "label" and name == "for":
                self.labels.add(value or "")
            if tag in ("select", "input") and name == "id":
                self.inputs.add(value or "")


@pytest.mark.parametrize("path", ["/", "/ab", "/ab?first=ns_8w&second=ns_lsq", "/audit"])
def test_a_page_loads_nothing_from_elsewhere(fleet: Process, path: str) -> None:
    status, headers, text = get(fleet, path)
    assert status == 200, text
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy and "unsafe" not in policy and "script-src" not in policy
    assert "frame-ancestors 'none'" in policy
    found = Links()
    found.feed(text)
    assert all(load.startswith(("/", "#")) and not load.startswith("//") for load in found.loads)
    assert not {"script", "iframe", "img", "object", "style"} & set(found.tags)
    assert found.inputs <= found.labels
    assert found.tags.count("h1") == 1 and "main" in found.tags


def test_the_page_says_what_the_answer_is(fleet: Process) -> None:
    _, _, text = get(fleet, "/")
    answer = json.loads(get(fleet, "/v1/fleet")[2])["fleet"]
    assert answer["best"] == "ns_8w" and answer["agents"] == 7
    assert "<strong>ns_8w</strong>" in text
    assert f"{100 * answer['gain']:.2f} %" in text
    assert "sql.ite" in text and "lab" in text
    _, _, text = get(fleet, "/ab?first=ns_lsq&second=ns_8w")
    assert "too few for an interval" in text
    one = json.loads(get(fleet, "/v1/fleet?group=lab")[2])
    assert one["agents"] == 7


@pytest.mark.parametrize(
    "path",
    [
        *("/?x=1", "/ab?third=x", "/ab?first=%3Cb%3E&second=y", "/v1/fleet?since=x"),
        *("/v1/fleet?q=1", "/v1/fleet?group='%20or%201=1--", "/v1/fleet?kind=ab"),
        "/v1/fleet?first=a",
    ],
)
def test_values_that_are_none(fleet: Process, path: str) -> None:
    status, _, text = get(fleet, path)
    assert status == 400 and text.count("\n") <= 1 and "<" not in text


@pytest.mark.parametrize(
    "path", ["/x", "/repository/metadata/../x", "/repository/metadata/%2e%2e%2fx", "/v1/batches"]
)
def test_what_is_not_there(fleet: Process, path: str) -> None:
    assert get(fleet, path)[0] in (404, 405)


def test_names_are_escaped(tmp_path: Path) -> None:
    """Even what the rules of names keep out: the log has what strangers wrote."""
    engine = open_database(str(tmp_path / "h.db"))
    attack = "<script>alert(1)</script>\"'&<img src=x onerror=alert(1)>"
    with engine.begin() as connection:
        row = {"at": 1.0, "what": attack[:32], "who": attack, "detail": attack}
        connection.execute(audit.insert().values(**row))
    text = Pages(engine).page("/audit", {}, None)  # type: ignore[arg-type]
    found = Links()
    found.feed(text)
    assert "script" not in found.tags and "img" not in found.tags
    assert "&lt;script&gt;" in text
    engine.dispose()


def test_who_may_look(tmp_path: Path) -> None:
    database = str(tmp_path / "h.db")
    (token,) = tokens(database, 1)
    engine = open_database(database)
    with engine.begin() as connection:
        viewer = issue_viewer(connection)
    with running(database) as process:
        for path in ("/", "/v1/fleet", "/audit"):
            status, headers, _ = get(process, path)
            assert status == 401 and headers["www-authenticate"].startswith("Basic")
            wrong = base64.b64encode(f"x:{token.reveal()}".encode()).decode()
            assert get(process, path, Authorization=f"Basic {wrong}")[0] == 401
            assert get(process, path, Authorization="Basic ???")[0] == 401
            right = base64.b64encode(f"me:{viewer}".encode()).decode()
            assert get(process, path, Authorization=f"Basic {right}")[0] == 200
            assert get(process, path, Authorization=f"Bearer {viewer}")[0] == 200
        with HubClient(process.url, token) as client:
            client._token._text = viewer
            with pytest.raises(HubError, match="401"):
                client.send(batch_of(token.agent, 1))
    with engine.connect() as connection:
        lines = connection.execute(sa.select(audit.c.detail)).scalars().all()
    assert any("viewer" in line for line in lines)
    engine.dispose()


def test_it_serves_the_repository(tmp_path: Path) -> None:
    pytest.importorskip("tuf", reason="needs the extra hub")
    from tracekit.repository import ModelStore

    made = published(tmp_path)
    with running(str(tmp_path / "h.db"), "--repository", str(tmp_path / "r")) as process:
        store = ModelStore.trust(
            made.root_file(1), made.fingerprint(1), f"{process.url}/repository", tmp_path / "s"
        )
        assert store.get("m").version == 1
        assert get(process, "/repository/staged/root.json")[0] == 404
        assert get(process, "/repository/metadata/.keep")[0] == 404


def test_the_demo(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for seed in (1, 2, 3):
        (tmp_path / f"t{seed}").write_text(synthetic.text(seed, 3000))
        tracekit.extract(tmp_path / f"t{seed}", tmp_path / f"t{seed}.zst")
    files = [str(tmp_path / f"t{seed}.zst") for seed in (1, 2, 3)]
    words = ["--agents", "8", "--days", "2", "--port", "0", "--once", "--json"]
    assert main(["hub", "--demo", "--traces", *files, *words]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["agents"] == 8 and len(answer["designs"]) == 5
    assert answer["covered"] == pytest.approx(0.9)


@pytest.fixture
def shown(chromium: Any) -> Iterator[Any]:
    """A page of 900 by 700 whose browser had nothing to say against what it loaded."""
    made = chromium.new_page(viewport={"width": 900, "height": 700})
    said: list[str] = []
    made.on("console", lambda m: said.append(m.text))
    made.on("pageerror", lambda e: said.append(str(e)))
    made.on("requestfailed", lambda r: said.append(r.url))
    yield made
    assert said == []


def picture(shown: Any, path: Path) -> Any:
    """The window: uint8 [height, width, 3]."""
    plotting = pytest.importorskip("matplotlib.image")
    shown.screenshot(path=path)
    return (np.asarray(plotting.imread(path))[..., :3] * 255).astype(np.uint8)


INSIDE = "document.documentElement.scrollWidth <= innerWidth"


def test_the_page_in_chromium(fleet: Process, shown: Any, tmp_path: Path) -> None:
    """Drawn with its style, light and dark, wide and narrow: nothing sticks out of the window, and
    all that it loads is the hub's own."""
    asked: list[str] = []
    shown.on("request", lambda r: asked.append(r.url))
    shots = {}
    for name, width, scheme in (
        *(("light", 1100, "light"), ("narrow", 390, "light")),
        *(("dark", 1100, "dark"), ("dark, narrow", 390, "dark")),
    ):
        shown.set_viewport_size({"width": width, "height": 1400})
        shown.emulate_media(color_scheme=scheme)
        shown.goto(fleet.url)
        assert shown.evaluate(INSIDE), f"{name}: nothing sticks out"
        shots[name] = picture(shown, tmp_path / f"{name}.png")
    assert np.median(shots["light"]) > 240, "a light page"
    assert np.median(shots["dark"]) < 40, "a dark page"
    light = shots["light"]
    blue = (light[..., 2].astype(int) - light[..., 0] > 60).sum()
    assert blue > 3000, "the bars are drawn with the style's colour"
    assert (shots["narrow"][:, -4:] > 240).all(), "nothing is drawn up to the edge"
    assert asked and all(url.startswith(fleet.url) for url in asked)


FOCUSED = "(e => e.id || e.textContent.trim() || e.tagName)(document.activeElement)"


def test_by_keyboard_alone(fleet: Process, shown: Any) -> None:
    """Everything that acts is reached by Tab, in order, and seen to be focused; a comparison is
    chosen and asked for without a pointer."""
    press = shown.keyboard.press
    shown.goto(f"{fleet.url}/ab")
    order = []
    for _ in range(7):
        press("Tab")
        order.append(shown.evaluate(FOCUSED))
        width = "getComputedStyle(document.activeElement).outlineWidth"
        assert shown.evaluate(width) == "2px", order
    assert order == ["To the content", "Fleet", "A/B", "Log", "first", "second", "Compare"]
    shown.goto(f"{fleet.url}/ab")
    press("Tab")
    press("Enter")
    press("Tab")
    assert shown.evaluate(FOCUSED) == "first", "past the navigation"
    press("Tab")
    press("ArrowDown")
    assert shown.evaluate("document.activeElement.value") == "ns_lsq"
    press("Tab")
    with shown.expect_navigation():
        press("Enter")
    assert shown.evaluate("location.search") == "?first=ns_8w&second=ns_lsq"
    assert "too few for an interval" in shown.inner_text("body")


def test_what_strangers_wrote_is_text(shown: Any, tmp_path: Path) -> None:
    database = str(tmp_path / "h.db")
    engine = open_database(database)
    attack = "</td><script>document.title='caught'</script><img src=x onerror=document.title='x'>"
    with engine.begin() as connection:
        row = {"at": 1.0, "what": "refused", "who": "<b>", "detail": attack}
        connection.execute(audit.insert().values(**row))
    engine.dispose()
    with running(database, "--open-page") as process:
        shown.goto(f"{process.url}/audit")
        assert shown.title().startswith("Log ")
        assert attack in shown.inner_text("body")
        assert shown.evaluate("document.scripts.length + document.images.length") == 0
