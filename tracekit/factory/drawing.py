"""Machines drawn from the ranges that designs have, in order and out of order.

Stratified drawing is a Latin hypercube: each parameter's range is cut into as many parts as there
are machines, and each part is drawn from once.  A parameter with k choices has each of them once
at least where there are k machines or more.  Queues and registers are drawn as shares of the
reorder buffer, so that no design starves behind one queue alone.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tracekit.errors import UsageError
from tracekit.sim import MACHINE_PARAMETERS, joined, machine_errors, machine_notes

__all__ = ["DRAWINGS", "PREDICTORS", "WIDEST", "draw_machines"]

Parameters = dict[str, Any]
#: What `draw_machines` takes.
DRAWINGS = ("stratified", "random")
#: A predictor for each kind that is simulated.
PREDICTORS = (
    *("Local", "Tournament", "BiMode", "TAGE", "LTAGE", "TAGE_SC_L_8KB", "TAGE_SC_L_64KB"),
    *("MPP_8KB", "MPP_64KB"),
)
_CHOICES = {p.name: p.choices for p in MACHINE_PARAMETERS}
_MOST = {p.name: p.most for p in MACHINE_PARAMETERS}
#: Stages of gem5's O3 CPU are at most this wide (src/cpu/o3/limits.hh).
WIDEST = 12
#: Registers that an instruction set names, and a few that rename: fewer end a simulation.
_NAMED_REGISTERS = 64
#: Parameter -> values, those that the known machines have.
_VALUES: Mapping[str, Sequence[Any]] = {
    "clock_ghz": (1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0),
    "width": (1, 2, 3, 4, 5, 6, 8),
    "wider": (0, 0, 1, 2, 4),  # issue over width
    "rob": (16, 40, 64, 96, 128, 192, 224, 320, 384, 512),
    "iq": (0.25, 0.33, 0.5, 0.75),  # of the reorder buffer, as the next five
    "lq": (0.2, 0.25, 0.33, 0.5),
    "sq": (0.125, 0.2, 0.25, 0.33),
    "phys_int": (0.5, 0.7, 1.0),
    "phys_float": (0.4, 0.6, 1.0),
    "phys_vec": (0.4, 0.6, 1.0),
    "fetch_buffer": (16, 32, 64),
    "fetch_queue": (8, 16, 32, 48),
    "front_delay": (1, 2, 3, 4, 5),
    "issue_to_exec": (1, 1, 2),
    "int_alu": (1, 2, 3, 4, 6, 8),
    "int_mul": (1, 2),
    "int_mul_lat": (2, 3, 4),
    "int_div_lat": (8, 12, 20, 30),
    "fp": (1, 2, 3, 4),
    "fp_add_lat": (2, 3, 4, 5),
    "fp_mul_lat": (3, 4, 5),
    "fp_div_lat": (9, 12, 20),
    "simd": (1, 2, 3, 4),
    "load_ports": (1, 2, 3),
    "store_ports": (1, 2),
    "agu_lat": (1,),
    "bp": PREDICTORS,
    "btb": (512, 1024, 2048, 4096, 8192),
    "ras": (8, 16, 32),
    "l1i_kb": (8, 16, 32, 64),
    "l1i_assoc": (2, 4, 8),
    "l1i_lat": (1, 2, 3),
    "l1d_kb": (4, 8, 16, 32, 64, 128),
    "l1d_assoc": (2, 4, 8),
    "l1d_lat": (1, 2, 3, 4, 5),
    "l1d_mshrs": (4, 6, 8, 16, 24),
    "l1d_pf": _CHOICES["l1d_pf"],
    "l2_kb": (128, 256, 512, 1024, 2048, 4096),
    "l2_assoc": (4, 8, 16),
    "l2_lat": (8, 10, 12, 16, 20),
    "l2_mshrs": (8, 12, 20, 24, 32),
    "l2_pf": _CHOICES["l2_pf"],
    "l3_kb": (0, 0, 4096, 8192, 16384),
    "l3_assoc": (16,),
    "l3_lat": (25, 30, 35, 45),
    "mem": _CHOICES["mem"],
}
#: What an in-order design has instead.
_IN_ORDER: Mapping[str, Sequence[Any]] = {
    "clock_ghz": (0.8, 1.0, 1.5, 2.0),
    "width": (1, 2, 3, 4),
    "front_delay": (1, 2, 3),
    "btb": (512, 1024, 2048, 4096),
    "l1i_kb": (8, 16, 32),
    "l1d_kb": (4, 8, 16, 32, 64),
    "l1d_lat": (1, 2, 3),
    "l1d_mshrs": (2, 4, 8),
    "l2_kb": (128, 256, 512, 1024),
    "l3_kb": (0,),
}
#: Shares of the reorder buffer, and the least of each.
_LEAST = {"iq": 8, "lq": 8, "sq": 8, "phys_int": 32, "phys_float": 32, "phys_vec": 32}


def draw_machines(
    out_of_order: int,
    in_order: int,
    seed: int,
    *,
    how: str = "stratified",
    same: Mapping[str, Any] | None = None,
) -> list[Parameters]:
    """``out_of_order`` machines ``o3_00``, … and ``in_order`` machines ``minor_00``, …: the
    parameters of each, the same for the same ``seed``.

    ``how``: ``stratified`` or ``random`` (every parameter by itself).  ``same``: parameters that
    all of them have, but for ``cpu`` and ``name``.  UsageError where such a machine is none.
    """
    if how not in DRAWINGS:
        raise UsageError(f"drawing is {how}; one of {', '.join(DRAWINGS)}")
    if own := [k for k in ("cpu", "name") if k in (same or {})]:
        raise UsageError(
            f"{own[0]} is each machine's own",
            hint="out_of_order and in_order say how many there are of each kind",
        )
    out = []
    for cpu, count in (("o3", out_of_order), ("minor", in_order)):
        values = {**_VALUES, **(_IN_ORDER if cpu == "minor" else {})}
        for i, drawn in enumerate(_drawn(values, count, f"{seed} {cpu}", how)):
            out.append({**_machine(drawn), **(same or {}), "name": f"{cpu}_{i:02}", "cpu": cpu})
    for m in out:
        if errors := [*machine_errors(m, "x86"), *machine_notes(m)]:
            raise UsageError(f"drawn machine {m['name']}: {joined(errors)}")
    return out


def _drawn(
    values: Mapping[str, Sequence[Any]], count: int, seed: str, how: str
) -> Iterator[Parameters]:
    """Of each machine a value of each parameter."""
    columns: dict[str, list[Any]] = {}
    for name, choices in values.items():
        # A source of its own: another parameter's choices change nothing here.  random() alone is
        # the same in every version of Python.
        source = random.Random(f"{seed} {name}").random
        places = [source() for _ in range(count)]
        if how == "stratified":
            order = sorted(range(count), key=[source() for _ in range(count)].__getitem__)
            offset = source()  # one for all: any part as wide as 1 / count has a place in it
            places = [(order[i] + offset) / count for i in range(count)]
        columns[name] = [choices[min(int(u * len(choices)), len(choices) - 1)] for u in places]
    for i in range(count):
        yield {name: column[i] for name, column in columns.items()}


def _machine(drawn: Parameters) -> Parameters:
    """Shares as numbers."""

    def whole(key: str) -> int:
        return min(int(_MOST[key]), max(_LEAST[key], int(drawn[key] * drawn["rob"])))

    out = {k: v for k, v in drawn.items() if k != "wider"}
    out["issue_width"] = min(WIDEST, drawn["width"] + drawn["wider"])
    for key in ("iq", "lq", "sq"):
        out[key] = whole(key)
    for key in ("phys_int", "phys_float", "phys_vec"):
        out[key] = _NAMED_REGISTERS + whole(key)
    return out
