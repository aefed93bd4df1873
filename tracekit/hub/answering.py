"""Questions about the fleet, and their answers: which design is best and by how much, for whom,
when, from how much of the time; two designs against one another."""

from __future__ import annotations

import json
import math
import threading
import time
import zlib
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

import numpy as np
import sqlalchemy as sa

from tracekit.errors import UsageError
from tracekit.estimation import fleet
from tracekit.fleet.messages import NAME
from tracekit.hub.fleet_rows import Chosen, Release, Released, Sums
from tracekit.hub.model_errors import ModelErrors
from tracekit.hub.privacy import K, Shown, agents_of, hidden, pack, shown_groups, unpack
from tracekit.hub.sequential import compare_sequentially
from tracekit.hub.tables import aggregates, answers, observed, releases
from tracekit.mixture.residuals import Residuals

__all__ = ["Answering", "Question"]

KEPT: Final = 30 * 86_400.0
"""Seconds for which an answer is remembered, and compared with later ones."""
DAYS: Final = 14
"""Days that the page shows, the last ones."""
_NEVER_TOGETHER: Final = "no computer has predicted an epoch on all designs that would be compared"


@dataclass(frozen=True)
class Question:
    """``kind``: "fleet" or "ab" (of ``designs``, two).  ``group``, ``label``: of these alone;
    ``since``, ``until``: whole days since 1970, both included; None is all."""

    kind: str = "fleet"
    group: str | None = None
    label: str | None = None
    since: int | None = None
    until: int | None = None
    designs: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in (self.group, self.label, *self.designs):
            if name is not None and not NAME.fullmatch(name):
                raise UsageError("a group, label or design that is no name")
        for day in (self.since, self.until):
            if day is not None and not 0 <= day < 65_536:
                raise UsageError("a day that is none")
        if self.kind == "ab" and len(set(self.designs)) != 2:
            raise UsageError("A/B is of two designs")

    def chosen(self) -> Chosen:
        """Which aggregates it is of."""
        designs = self.designs or None
        return Chosen(self.group, self.label, self.since, self.until, designs)

    def key(self) -> str:
        """The text that answers are remembered by."""
        return json.dumps(asdict(self), sort_keys=True)


class Answering:
    """Answers from the database.  ``interval``: seconds between releases at least; ``errors``:
    those of the models."""

    def __init__(
        self,
        engine: sa.Engine,
        *,
        k: int = K,
        interval: float = 86_400.0,
        clock: Callable[[], float] = time.time,
        errors: ModelErrors | None = None,
    ) -> None:
        self._engine, self._clock = engine, clock
        self._errors = ModelErrors() if errors is None else errors
        self.k, self._interval = k, interval
        self._lock = threading.Lock()
        self._newest: Release | None = None
        self._released = Released()
        self._nothing_known(oldest=-math.inf)
        self._recall()

    def _nothing_known(self, oldest: float) -> None:
        self._known: set[tuple[str, int]] = set()
        self._shown = Shown()
        self._last, self._oldest = 0, oldest

    def _recall(self) -> None:
        """The answers that were shown and count, those of others too (``hub ask`` beside ``hub
        serve``): not what is older than `KEPT` by now, nor what was pruned meanwhile."""
        a, then = answers.c, self._clock() - KEPT
        if self._oldest < then:
            with self._engine.begin() as connection:
                connection.execute(answers.delete().where(a.at < then))
            self._nothing_known(oldest=math.inf)
        count = sa.select(sa.func.count()).select_from(answers).where(a.id <= self._last)
        with self._engine.connect() as connection:
            if connection.execute(count).scalar_one() != len(self._known):
                self._nothing_known(oldest=math.inf)
            new = sa.select(a.id, a.query, a.release, a.at, a.cells).where(a.id > self._last)
            for row in connection.execute(new.order_by(a.id)):
                self._known.add((row.query, row.release))
                self._shown.add(unpack(row.cells))
                self._last, self._oldest = row.id, min(self._oldest, row.at)

    # ---- releases

    def release(self) -> int:
        """The newest release; another one is made where k agents or more have sent since."""
        now = self._clock()
        with self._engine.begin() as connection:
            newest = connection.execute(
                sa.select(releases).order_by(releases.c.id.desc()).limit(1)
            ).first()
            # A release of the future: the clock was wrong, and no reason to wait for that day.
            if newest is not None and abs(now - newest.at) < self._interval:
                return int(newest.id)
            last = newest.last if newest is not None else 0
            new = aggregates.c.id > last
            agents = sa.select(aggregates.c.agent).where(new).distinct().limit(self.k)
            if len(connection.execute(agents).all()) < self.k:
                return int(newest.id) if newest is not None else 0
            row = {
                "at": now,
                "last": connection.execute(sa.select(sa.func.max(aggregates.c.id))).scalar(),
                "last_observed": connection.execute(
                    sa.select(sa.func.coalesce(sa.func.max(observed.c.id), 0))
                ).scalar(),
            }
            made = connection.execute(releases.insert().values(**row)).inserted_primary_key
            return int(made[0]) if made is not None else 0

    def newest(self) -> Release:
        """What there is up to the newest release."""
        number = self.release()
        if self._newest is None or self._newest.number != number:
            self._newest = Release.load(self._engine, number, self._released, self.k)
        return self._newest

    def changed(self) -> None:
        """Rows were deleted: look anew."""
        with self._lock:
            self._newest = None

    # ---- answers

    def ask(self, question: Question) -> dict[str, Any]:
        """The answer, or the last one that could be shown, or that it is hidden."""
        with self._lock:
            return self._ask(question)

    def _ask(self, question: Question) -> dict[str, Any]:
        newest = self.newest()
        number, key = newest.number, question.key()
        self._recall()
        if (key, number) in self._known:
            return self._stored(key, number)
        what = question.chosen()
        sums: Sums = {}
        if question.kind == "fleet":
            sums = newest.by_design(what)
            what = replace(what, designs=_compared(newest, what, sums, self.k))
        cells = newest.cells(what)
        if not self._shown.allow(cells, self.k):
            older = [n for q, n in self._known if q == key]
            return self._stored(key, max(older)) if older else hidden()
        if question.kind == "ab":
            answer = _two_designs(newest, what, question.designs, self.k)
        else:
            answer = _whole_fleet(newest, what, sums, self.k, self._errors)
        if "hidden" in answer:
            return answer
        about = {**asdict(question), "designs": list(question.designs)}
        answer = {"release": number, "at": self._clock(), "question": about, **answer}
        row = {
            "query": key,
            "release": number,
            "at": answer["at"],
            "cells": pack(cells),
            "answer": zlib.compress(json.dumps(answer).encode()),
        }
        try:
            with self._engine.begin() as connection:
                connection.execute(answers.insert().values(**row))
        except sa.exc.IntegrityError:  # another process has answered it meanwhile
            return self._stored(key, number)
        finally:
            self._recall()
        return answer

    def _stored(self, key: str, number: int) -> dict[str, Any]:
        found = sa.select(answers.c.answer).where(
            answers.c.query == key, answers.c.release == number
        )
        with self._engine.connect() as connection:
            data = connection.execute(found).scalar_one()
        answer: dict[str, Any] = json.loads(zlib.decompress(data))
        return answer

    def overview(self) -> dict[str, Any]:
        """The whole fleet; each group, label and day of it."""
        with self._lock:
            newest = self.newest()
            whole = self._ask(Question())
            groups = {g: {"group": g} for g in newest.groups()}
            labels = {x: {"label": x} for x in newest.labels()}
            days = newest.days()[-DAYS:]
            return {
                "fleet": whole,
                "groups": self._parts(newest, self._named(newest, groups)),
                "labels": self._parts(newest, self._named(newest, labels)),
                "days": self._parts(newest, {str(d): {"since": d, "until": d} for d in days}),
                "designs": _common(newest, Chosen(), self.k) if "hidden" not in whole else [],
            }

    def _named(
        self, newest: Release, parts: dict[str, dict[str, Any]]
    ) -> dict[str, dict[str, Any]]:
        """Those of k computers or more: of others not even the name is told."""
        return {
            name: about
            for name, about in parts.items()
            if agents_of(newest.cells(Question(**about).chosen())) >= self.k
        }

    def _parts(self, newest: Release, parts: dict[str, dict[str, Any]]) -> dict[str, Any]:
        asked = {name: Question(**about) for name, about in parts.items()}
        sizes = {n: agents_of(newest.cells(q.chosen())) for n, q in asked.items()}
        shown = set(shown_groups(sizes, self.k))
        return {n: self._ask(q) if n in shown else hidden() for n, q in asked.items()}


def _common(newest: Release, what: Chosen, k: int) -> list[str]:
    """Designs that k computers or more predict: of others not even the name is told."""
    alone = {d: newest.cells(replace(what, designs=(d,))) for d in newest.designs}
    return [d for d, cells in alone.items() if agents_of(cells) >= k]


def _compared(newest: Release, what: Chosen, sums: Sums, k: int) -> tuple[str, ...]:
    """The designs that an answer compares.  One that few agents predict says little of the fleet,
    and would leave out others' time; one that fewer than k predict has no weight against the
    others, whatever it says."""
    common = _common(newest, what, k)
    most = max((sums[d][0] for d in common), default=0.0)
    return tuple(d for d in common if sums[d][0] >= 0.5 * most)


def _whole_fleet(
    newest: Release, what: Chosen, sums: Sums, k: int, errors: ModelErrors
) -> dict[str, Any]:
    """``what`` has the designs that are compared; ``sums``: of these and others."""
    names = list(what.designs or ())
    found = newest.epochs(what, names)
    if not len(found.weights):
        return hidden(f"{_NEVER_TOGETHER}: {', '.join(names)}")
    if len(np.unique(found.agents)) < k or len(found.weights) < 2:
        return hidden()
    models = dict(zip(newest.designs, newest.models, strict=True))
    known = errors.moments([models[d] for d in names], names)
    result = fleet(
        names,
        found.weights,
        found.times,
        strata=found.agents,
        errors=known,
        programs=found.labels,
        wider=Residuals.wider(found.distances),
    )
    sampled = replace(result, errors=None)
    best = result.best()
    table: list[dict[str, Any]] = []
    for name in sorted(names, key=lambda n: result.totals[names.index(n)]):
        against, alone = result.compare(name, best), sampled.compare(name, best)
        weight, half, told, outside = sums[name]
        table.append(
            {
                "design": name,
                "ratio": against.ratio,
                "half": against.half if name != best else 0.0,
                "sampling_half": alone.half if name != best else 0.0,
                "certain": name == best or against.certain,
                "prediction_half": half / weight,
                "outside_training": outside / told if told > 0 else None,
            }
        )
    second = next((t for t in table if t["design"] != best), None)
    seconds = float(found.weights.sum())
    return {
        "best": best,
        "gain": None if second is None else second["ratio"] - 1,
        "gain_half": None if second is None else second["half"],
        "certain": second is not None and bool(second["certain"]),
        "model_errors": known is not None,
        "designs": table,
        "agents": len(np.unique(found.agents)),
        "epochs": len(found.weights),
        "seconds": seconds,
        "covered": _covered(newest, what, seconds),
    }


def _covered(newest: Release, what: Chosen, seconds: float) -> float | None:
    """Share of the observed CPU time that epochs stand for; None for a label, whose time is not
    observed apart."""
    total = 0.0 if what.label is not None else newest.observed(what)
    return min(1.0, seconds / total) if total > 0 else None


def _two_designs(newest: Release, what: Chosen, designs: tuple[str, ...], k: int) -> dict[str, Any]:
    first, second = designs
    if missing := [d for d in designs if d not in newest.designs]:
        return hidden(f"nobody predicts {missing[0]}")
    found = newest.hours(what, first, second)
    if len(np.unique(found.agents)) < k:
        return hidden()
    times = found.times / found.weights[:, None]
    verdict = compare_sequentially(found.weights, times[:, 0], times[:, 1])
    return {
        "first": first,
        "second": second,
        "ratio": verdict.ratio,
        "half": verdict.half if np.isfinite(verdict.half) else None,
        "units": verdict.units,
        "decided": verdict.decided_after is not None,
        "decided_after": verdict.decided_after,
        "agents": len(np.unique(found.agents)),
    }
