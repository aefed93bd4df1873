"""What a release holds, asked of the database: sums over aggregates, one line an epoch at most.

An answer needs of an epoch what it takes on each design and the time that it stands for; the
database sums that up.  So a hub's memory grows by a few numbers an epoch while it answers, and
between answers by one number a cell (privacy.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import sqlalchemy as sa

from tracekit.hub.privacy import cells_of
from tracekit.hub.tables import aggregates, observed, releases, series

__all__ = ["Chosen", "Epochs", "Hours", "Release", "Released", "Sums"]

F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]
I32 = npt.NDArray[np.int32]
#: Of each design what `Release.by_design` sums up.
Sums = dict[str, tuple[float, float, float, float]]

PORTION: Final = 2_000
"""Lines that are asked of the database at once."""
A: Final = aggregates.c
S: Final = series.c


@dataclass(frozen=True)
class Chosen:
    """Which aggregates: of this ``group`` and ``label``, of days from ``since`` to ``until``, both
    included, on these ``designs``; None is all."""

    group: str | None = None
    label: str | None = None
    since: int | None = None
    until: int | None = None
    designs: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Epochs:
    """Distinct epochs of each computer that have every design.

    ``weights`` float64 [epochs], seconds that they stand for; ``times`` float64 [epochs, designs],
    ns an instruction, means by weight; ``agents`` int64 [epochs]; ``labels`` int64 [epochs], a
    number for each label, the same for all that have none; ``distances`` float64 [epochs], 0 where
    it is not known.
    """

    weights: F64
    times: F64
    agents: I64
    labels: I64
    distances: F64


@dataclass(frozen=True)
class Hours:
    """Hours of computers in the order in which they came, each the sum over its epochs: ``weights``
    float64 [hours], and ``times`` float64 [hours, 2] on two designs, each epoch's over the mean of
    its two and weighed; ``agents`` int64 [hours]."""

    weights: F64
    times: F64
    agents: I64


class Released:
    """Who has sent what in each release so far, each read once; all anew where rows were deleted
    since."""

    def __init__(self) -> None:
        self._count = 0
        self._parts: list[I32] = []

    def upto(self, connection: sa.Connection, lasts: Sequence[int]) -> I32:
        """Agent, day, series and release, int32 [4, entries], each once, of releases that end with
        these rows."""
        count = sa.select(sa.func.count()).select_from(aggregates)
        known = lasts[len(self._parts) - 1] if self._parts else 0
        if connection.execute(count.where(A.id <= known)).scalar_one() != self._count:
            self._parts = []
        for number in range(len(self._parts), len(lasts)):
            first = lasts[number - 1] if number else 0
            query = sa.select(A.agent, A.hour // 24, A.series).distinct()
            found = _columns(connection, query.where(A.id > first, A.id <= lasts[number]), 3)
            release = np.full((1, found.shape[1]), number)
            self._parts.append(np.concatenate([found, release]).astype(np.int32))
        last = lasts[-1] if lasts else 0
        self._count = connection.execute(count.where(A.id <= last)).scalar_one()
        return np.concatenate([np.zeros((4, 0), np.int32), *self._parts], axis=1)


@dataclass(frozen=True)
class Release:
    """What there is up to a release; ``number`` 0 has nothing.

    ``designs``: those whose newest model somebody has reported, and each one's model in ``models``
    (name, version); ``kinds``: each pair of group and label by its number.
    """

    engine: sa.Engine
    number: int
    last: int
    last_observed: int
    designs: tuple[str, ...]
    models: tuple[tuple[str, str], ...]
    kinds: dict[int, tuple[str, str]]
    newest: frozenset[int]  # series of those models
    in_kind: dict[int, int]  # series -> kind
    sent: I32  # agent, day, series, release [4, entries] of the newest models

    @classmethod
    def load(cls, engine: sa.Engine, number: int, released: Released, k: int) -> Release:
        """``released`` keeps what was read; ``k``: agents that a model's version needs."""
        ends = sa.select(releases).where(releases.c.id <= number).order_by(releases.c.id)
        with engine.connect() as connection:
            lasts = connection.execute(ends).all()
            every = connection.execute(sa.select(series).order_by(series.c.id)).all()
            sent = released.upto(connection, [r.last for r in lasts])
        models = _newest_models(every, sent[0], sent[2], k)
        newest = frozenset(
            r.id for r in every if models.get(r.design) == (r.model, r.model_version)
        )
        return cls(
            engine,
            number,
            lasts[-1].last if lasts else 0,
            lasts[-1].last_observed if lasts else 0,
            tuple(models),
            tuple(models.values()),
            {r.kind: (r.machine_group, r.label) for r in every},
            newest,
            {r.id: r.kind for r in every},
            sent[:, np.isin(sent[2], list(newest))],
        )

    def groups(self) -> list[str]:
        """Names of groups, without none."""
        return sorted({g for g, _ in self.kinds.values() if g})

    def labels(self) -> list[str]:
        """Names of labels, without none."""
        return sorted({label for _, label in self.kinds.values() if label})

    def days(self) -> list[int]:
        """Whole days since 1970 that there is something of."""
        return [int(d) for d in np.unique(self.sent[1])]

    def cells(self, what: Chosen) -> I64:
        """Whom an answer would be about, as privacy.py has it."""
        with self.engine.connect() as connection:
            wanted = connection.execute(sa.select(S.id).where(*self._series(what))).scalars().all()
        agent, day, of, release = self.sent.astype(np.int64)
        mask = np.isin(of, list(wanted))
        if what.since is not None:
            mask &= day >= what.since
        if what.until is not None:
            mask &= day <= what.until
        kind = _mapped(self.in_kind, of[mask])
        return cells_of(agent[mask], day[mask], kind, release[mask])

    def _series(self, what: Chosen) -> list[Any]:
        names = self.designs if what.designs is None else what.designs
        models = dict(zip(self.designs, self.models, strict=True))
        each = [
            sa.and_(S.design == d, S.model == models[d][0], S.model_version == models[d][1])
            for d in names
            if d in models
        ]
        out: list[Any] = [sa.or_(sa.false(), *each)]
        if what.group is not None:
            out.append(S.machine_group == what.group)
        if what.label is not None:
            out.append(S.label == what.label)
        return out

    def _select(self, what: Chosen, *columns: Any) -> Any:
        """Of the aggregates that are chosen, each with its series."""
        query = sa.select(*columns).select_from(aggregates.join(series, A.series == S.id))
        query = query.where(A.id <= self.last, *self._series(what))
        if what.since is not None:
            query = query.where(A.hour >= 24 * what.since)
        if what.until is not None:
            query = query.where(A.hour < 24 * (what.until + 1))
        return query

    def by_design(self, what: Chosen) -> Sums:
        """Of each design sums over its aggregates: their weight; weight times the half width as a
        share; weight of what tells its distance, and of what is outside."""
        told = sa.case((A.distance.is_not(None), A.weight), else_=0.0)
        outside = sa.case((A.distance > 0, A.weight), else_=0.0)
        sums = [A.weight, A.weight * A.half_width / A.cycles, told, outside]
        query = self._select(what, S.design, *(sa.func.sum(x) for x in sums)).group_by(S.design)
        with self.engine.connect() as connection:
            return {
                name: (float(w), float(h), float(t), float(o))
                for name, w, h, t, o in connection.execute(query)
            }

    def epochs(self, what: Chosen, designs: Sequence[str]) -> Epochs:
        """The epochs that have all of ``designs``."""
        n = len(designs)
        weights, times = _sums(designs)
        distance = sa.func.max(sa.func.coalesce(A.distance, 0.0))
        query = (
            self._select(what, A.agent, sa.func.min(A.series), distance, *weights, *times)
            .group_by(A.agent, A.signature)
            .having(sa.and_(*(w > 0 for w in weights)))
            .order_by(A.agent, A.signature)
        )
        with self.engine.connect() as connection:
            x = _columns(connection, query, 3 + 2 * n)
        labels = self.labels()
        number = {s: self.kinds[k][1] for s, k in self.in_kind.items()}
        of = {s: labels.index(name) if name else len(labels) for s, name in number.items()}
        return Epochs(
            weights=x[3 : 3 + n].mean(axis=0),
            times=(x[3 + n :] / x[3 : 3 + n]).T,
            agents=x[0].astype(np.int64),
            labels=_mapped(of, x[1].astype(np.int64)),
            distances=x[2],
        )

    def hours(self, what: Chosen, first: str, second: str) -> Hours:
        """Hours of computers that have epochs on both designs."""
        weights, times = _sums((first, second))
        names = ("wa", "wb", "ta", "tb")
        sums = [s.label(n) for s, n in zip((*weights, *times), names, strict=True)]
        came = sa.func.min(A.id).label("came")
        inner = (
            self._select(what, A.agent, A.hour, came, *sums)
            .group_by(A.agent, A.hour, A.signature)
            .having(sa.and_(*(w > 0 for w in weights)))
            .subquery()
            .c
        )
        # An epoch's two times over their mean, weighed by the time that it stands for.
        a, b, weight = inner.ta / inner.wa, inner.tb / inner.wb, (inner.wa + inner.wb) / 2
        parts = [weight, 2 * a / (a + b) * weight, 2 * b / (a + b) * weight]
        query = (
            sa.select(inner.agent, *(sa.func.sum(p) for p in parts))
            .group_by(inner.agent, inner.hour)
            .order_by(sa.func.min(inner.came))
        )
        with self.engine.connect() as connection:
            x = _columns(connection, query, 4)
        return Hours(weights=x[1], times=x[2:].T, agents=x[0].astype(np.int64))

    def observed(self, what: Chosen) -> float:
        """CPU seconds that agents observed."""
        o = observed.c
        query = sa.select(sa.func.coalesce(sa.func.sum(o.seconds), 0.0))
        query = query.where(o.id <= self.last_observed)
        if what.group is not None:
            query = query.where(o.machine_group == what.group)
        if what.since is not None:
            query = query.where(o.hour >= 24 * what.since)
        if what.until is not None:
            query = query.where(o.hour < 24 * (what.until + 1))
        with self.engine.connect() as connection:
            return float(connection.execute(query).scalar_one())


def _sums(designs: Sequence[str]) -> tuple[list[Any], list[Any]]:
    """Sums of weights, and of weighted times, by design."""
    time = A.cycles / A.clock_ghz / A.instructions
    weights, times = (
        [sa.func.sum(sa.case((S.design == name, x), else_=0.0)) for name in designs]
        for x in (A.weight, A.weight * time)
    )
    return weights, times


def _newest_models(
    rows: Sequence[Any], agents: I32, in_series: I32, k: int
) -> dict[str, tuple[str, str]]:
    """Design -> its newest model's name and version, by design.

    The newest is the one whose first report came last, of those that k agents have reported: what
    few say does not take the place of what the others say.  ``agents``, ``in_series``: int32
    [entries], which agent has reported which series."""
    reported: dict[int, set[int]] = {}
    for number, agent in np.unique(np.stack([in_series, agents]), axis=1).T.tolist():
        reported.setdefault(number, set()).add(agent)
    who_said: dict[tuple[str, str, str], set[int]] = {}
    for row in rows:  # in the order in which they came
        said = who_said.setdefault((row.design, row.model, row.model_version), set())
        said |= reported.get(row.id, set())
    chosen: dict[str, tuple[str, str]] = {}
    for (design, model, version), who in who_said.items():
        if who and (len(who) >= k or design not in chosen):
            chosen[design] = (model, version)
    return dict(sorted(chosen.items()))


def _columns(connection: sa.Connection, query: Any, count: int) -> F64:
    """float64 [columns, lines]; whole numbers up to 2^53 are exact."""
    parts: list[F64] = []
    streamed = connection.execution_options(yield_per=PORTION).execute(query)
    for lines in streamed.partitions():
        parts.append(np.array(lines, np.float64).T)
    return np.concatenate(parts, axis=1) if parts else np.zeros((count, 0))


def _mapped(table: dict[int, int], keys: I64) -> I64:
    known = np.array(sorted(table), np.int64)
    values = np.array([table[k] for k in known.tolist()], np.int64)
    return values[np.searchsorted(known, keys)] if len(keys) else keys
