"""The numbers of the search for cores that explain a machine's traces.

They were tuned on machines that no result is reported for (docs/perfvec.md says how well the search
does); each of them is a cost against a quality, none a property of a machine.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["DEFAULT", "Round", "SearchSettings"]


@dataclass(frozen=True)
class Round:
    """Generations that are judged on the first ``rows`` of each trace: ``before`` and ``after`` the
    best core's parameters are tried one by one.  With ``after`` 0 they are not tried."""

    rows: int
    before: int
    after: int


@dataclass(frozen=True)
class SearchSettings:
    """How cores are judged, bred, tried and in the end spread over what the traces leave open.

    Judging: ``window`` rows make a window and ``longer`` windows a longer one; by how much they
    differ counts ``windows`` and ``longer_windows`` times, as a part of the time.  ``total``: how
    far the whole time is off in a good core.  ``freedom``: of Student's loss, how soon a class that
    no core explains counts no further.  A burst of retirements says that a machine is
    as wide if there are ``least_bursts`` of its length or more, and a part of ``rare`` of those
    that are a micro-op shorter or more.

    Breeding: ``rounds``, with ``population`` cores each.  Of a child's parameters a part of
    ``crossed`` comes from its second parent and ``moved`` goes a step; a group of parameters that
    are large together goes a step in ``moved_together`` of the children.  ``proposed``: the part of
    an ensemble's proposals that are taken as children.  A part of ``screened`` of the children are
    those of ``offspring`` times as many that are foretold to be the best ones (surrogate.py).
    ``steps``: values up and down that are tried of each parameter; ``combined``: cores with several
    of the changes that helped.  Until then no more than ``of_niche`` survivors have the same kind
    of memory (niches.py).

    Settling, on ``settling_rows``: ``admitted`` cores come there, ``survivors`` stay, for
    ``last_generations``.  Then each is offered ``offers`` times a part of ``offered`` of its
    parameters anew, which it takes where its objective stays within ``tolerated`` of the best one.
    Values by which the objective rises that much are offered less often (open_values.py).

    ``batch``: cores walked at once, whose caches then fit into memory, whatever their sizes are.
    """

    window: int = 32
    longer: int = 32
    windows: float = 20.0
    longer_windows: float = 40.0
    total: float = 0.08
    freedom: float = 4.0
    rare: float = 0.01
    least_bursts: int = 3
    rounds: tuple[Round, ...] = (Round(2 << 15, 10, 2),)
    population: int = 32
    of_niche: int = 4
    screened: float = 0.5
    offspring: int = 16
    crossed: float = 0.25
    moved: float = 0.05
    moved_together: float = 0.3
    proposed: float = 0.5
    steps: int = 2
    combined: int = 20
    settling_rows: int = 16 << 15
    admitted: int = 32
    survivors: int = 16
    last_generations: int = 3
    offers: int = 3
    offered: float = 0.15
    tolerated: float = 4.0
    batch: int = 32

    @property
    def reports(self) -> int:
        """Steps that a search reports."""
        bred = sum(r.before + r.after + (r.after > 0) for r in self.rounds)
        return bred + self.last_generations + self.offers


DEFAULT = SearchSettings()
