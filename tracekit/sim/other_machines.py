"""Machines that other packages bring (docs/entry-points.md), checked like any others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tracekit.entry_points import Offer, offers
from tracekit.errors import UsageError
from tracekit.sim.parameters import joined, machine_errors

__all__ = ["other_machines"]

Parameters = dict[str, Any]


def other_machines() -> tuple[dict[str, Parameters], list[UsageError]]:
    """Each machine's parameters by name, in order, and the errors of the entry points that cannot
    be used."""
    found: dict[str, Parameters] = {}
    of: dict[str, Offer] = {}
    failed: list[UsageError] = []
    for offer in offers("machines"):
        try:
            machines = _machines(offer)
            if taken := [n for n in machines if n in of]:
                raise offer.failed(f"{taken[0]} is a machine of {of[taken[0]].package}, too")
        except UsageError as e:
            failed.append(e)
            continue
        found.update(machines)
        of.update(dict.fromkeys(machines, offer))
    return dict(sorted(found.items())), failed


def _machines(offer: Offer) -> dict[str, Parameters]:
    """The machines of one entry point: a mapping of names to parameters, or what gives one."""
    made = offer.load()
    if callable(made):
        try:
            made = made()
        except Exception as e:  # somebody else's function
            raise offer.failed(e) from None
    if not isinstance(made, Mapping) or not all(isinstance(m, Mapping) for m in made.values()):
        raise offer.failed("it gives no mapping of names to parameters")
    out: dict[str, Parameters] = {}
    for name, parameters in made.items():
        machine = {**parameters, "name": str(name)}
        if errors := machine_errors(machine):
            raise offer.failed(f"{name}: {joined(errors)}")
        out[str(name)] = machine
    return out
