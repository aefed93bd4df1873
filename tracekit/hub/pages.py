"""The hub's pages: HTML from the server alone, without scripts."""

from __future__ import annotations

import datetime
import time
from pathlib import Path
from typing import Any, Final

import jinja2
import sqlalchemy as sa

from tracekit.errors import UsageError
from tracekit.hub.answering import Answering, Question
from tracekit.hub.tables import agents, audit, subscriptions

__all__ = ["Pages"]

_FOLDER: Final = Path(__file__).parent / "templates"
LINES: Final = 200
"""Of the audit log."""


class Pages:
    """The pages of one database."""

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine
        self._templates = jinja2.Environment(
            loader=jinja2.FileSystemLoader(_FOLDER),
            autoescape=True,
            undefined=jinja2.StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._templates.filters |= {
            "share": share,
            "ratio": ratio,
            "percent": percent,
            "day": day,
            "moment": moment,
        }
        self.style = (_FOLDER / "hub.css").read_bytes()

    def page(self, path: str, values: dict[str, str], answering: Answering) -> str:
        """The page of a path; raises UsageError for values that are none of its own."""
        if path == "/audit":
            return self._render("audit.html", lines=self._audit())
        if path == "/ab":
            return self._render("ab.html", **_two(values, answering))
        if values:
            raise UsageError("this page takes no values")
        found = answering.overview()
        return self._render(
            "fleet.html", **found, bars=_bars(found["fleet"]), curve=_curve(found), **self._counts()
        )

    def _render(self, name: str, **values: Any) -> str:
        template = self._templates.get_template(name)
        return str(template.render(made=time.time(), page=name, **values))

    def _counts(self) -> dict[str, int]:
        count = sa.func.count()
        recent = agents.c.seen > time.time() - 86_400
        with self._engine.connect() as connection:
            known = connection.execute(sa.select(count).select_from(agents)).scalar_one()
            seen = connection.execute(sa.select(count).select_from(agents).where(recent))
            designs = sa.func.count(sa.distinct(subscriptions.c.design))
            asked = connection.execute(sa.select(designs)).scalar_one()
            return {"known": known, "seen": seen.scalar_one(), "subscribed": asked}

    def _audit(self) -> list[Any]:
        newest = sa.select(audit).order_by(audit.c.id.desc()).limit(LINES)
        with self._engine.connect() as connection:
            return list(connection.execute(newest).all())


def share(value: float | None) -> str:
    """A share in percent."""
    return "not known" if value is None else f"{100 * value:.1f} %"


def percent(value: float) -> str:
    """A small share in percent."""
    return f"{100 * value:.2f} %"


def ratio(value: float | None) -> str:
    """How much longer than 1, in percent, with its sign."""
    return (
        "not known"
        if value is None
        else f"{100 * (value - 1) + 0.0:+.2f} %".replace("-0.00", "+0.00")
    )


def day(number: int | str) -> str:
    """The date of a whole day since 1970."""
    return (datetime.date(1970, 1, 1) + datetime.timedelta(days=int(number))).isoformat()


def moment(seconds: float) -> str:
    """Date and time (UTC) of seconds since 1970."""
    then = datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc)
    return f"{then:%Y-%m-%d %H:%M:%S} UTC"


def _two(values: dict[str, str], answering: Answering) -> dict[str, Any]:
    if not set(values) <= {"first", "second"}:
        raise UsageError("this page takes first and second")
    designs = answering.overview()["designs"]
    first, second = values.get("first", ""), values.get("second", "")
    answer = None
    if first and second and first != second:
        answer = answering.ask(Question("ab", designs=(first, second)))
    return {"designs": designs, "first": first, "second": second, "answer": answer}


def _bars(answer: dict[str, Any]) -> list[dict[str, Any]]:
    """Bars of time over the best design's, in units of a drawing 600 wide: the axis begins where
    the smallest interval does, less a little."""
    if "hidden" in answer:
        return []
    table = answer["designs"]
    most = max(t["ratio"] + t["half"] for t in table) - 1
    scale = 340 / max(most, 1e-3)
    return [
        {
            "name": t["design"],
            "y": 26 * i,
            "width": round((t["ratio"] - 1) * scale, 1),
            "low": round(max(0.0, t["ratio"] - 1 - t["half"]) * scale, 1),
            "high": round((t["ratio"] - 1 + t["half"]) * scale, 1),
            "text": "best" if t["design"] == answer["best"] else ratio(t["ratio"]),
        }
        for i, t in enumerate(table)
    ]


def _curve(found: dict[str, Any]) -> dict[str, Any] | None:
    """Each design's time over the whole fleet's best one, a day a step: points of a drawing of 600
    by 160, and the labels of its axis; None where fewer than two days are shown."""
    days = [(int(d), a) for d, a in found["days"].items() if "hidden" not in a]
    whole = found["fleet"]
    if len(days) < 2 or "hidden" in whole:
        return None
    names = [t["design"] for t in whole["designs"]]
    lines: dict[str, list[tuple[int, float]]] = {n: [] for n in names}
    for number, answer in days:
        table = {t["design"]: t["ratio"] for t in answer["designs"]}
        base = table.get(whole["best"])
        for name in names:
            if base is not None and name in table:
                lines[name].append((number, table[name] / base))
    values = [v for line in lines.values() for _, v in line]
    if not values:
        return None
    low, high = min(values), max(values)
    first, last = days[0][0], days[-1][0]
    span = max(high - low, 1e-3)

    def at(number: int, value: float) -> str:
        x = 70 + 490 * (number - first) / (last - first)
        return f"{x:.1f},{150 - 130 * (value - low) / span:.1f}"

    return {
        "lines": [
            {"name": n, "number": i % 6, "points": " ".join(at(*p) for p in line)}
            for i, (n, line) in enumerate(lines.items())
        ],
        "low": ratio(low),
        "high": ratio(low + span),
        "first": day(first),
        "last": day(last),
    }
