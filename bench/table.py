"""One table a subject: each bench's work, time and throughput beside the subject's floor and peers.

``pytest --benchmark-only`` prints them (conftest.py).  Those of a saved run, as Markdown:
``pytest --benchmark-only --benchmark-json=bench.json && python bench/table.py bench.json``
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

HEAD = ("bench", "work", "best, ms", "median, ms", "throughput", "x floor", "also")


def done(benchmark: Any, count: float, unit: str, size: int = 0) -> None:
    """Says what one round of the bench does: ``count`` of ``unit``, and of how many bytes."""
    benchmark.extra_info.update({"work": count, "unit": unit} | ({"bytes": size} if size else {}))


def scaled(value: float) -> str:
    """Three digits and a prefix: 12.3 M."""
    for factor, prefix in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if value >= factor:
            return f"{value / factor:.3g}{prefix} "
    return f"{value:.3g} "


def cells(bench: dict[str, Any], floor: float | None) -> tuple[str, ...]:
    """A line of the table; ``floor``: the best time of the subject's floor for a unit of work."""
    best, info = bench["stats"]["min"], bench["extra_info"]
    work, unit = info["work"], info["unit"]
    also = [f"{scaled(info['bytes'] / best).rstrip()}B/s"] if "bytes" in info else []
    also += [f"{k} {v}" for k, v in info.items() if k not in ("work", "unit", "bytes")]
    return (
        bench["name"].removeprefix("test_"),
        f"{work:,} {unit}",
        f"{best * 1e3:,.2f}",
        f"{bench['stats']['median'] * 1e3:,.2f}",
        f"{scaled(work / best)}{unit}/s",
        f"{best / work / floor:,.1f}" if floor else "",
        ", ".join(also),
    )


def tables(benches: Iterable[dict[str, Any]]) -> Iterator[tuple[str, list[tuple[str, ...]]]]:
    """Subjects with their lines, the fastest for a unit of work first."""
    groups: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for b in benches:
        groups[b["group"]].append(b)
    for group in sorted(groups):
        each = {b["name"]: b["stats"]["min"] / b["extra_info"]["work"] for b in groups[group]}
        floor = min((v for n, v in each.items() if "floor" in n), default=None)
        ranked = sorted(groups[group], key=lambda b: each[b["name"]])
        yield group, [cells(b, floor) for b in ranked]


def plain(benches: Iterable[dict[str, Any]]) -> Iterator[str]:
    """Lines for a terminal."""
    for group, lines in tables(benches):
        used = [i for i, h in enumerate(HEAD) if any(line[i] for line in lines)]
        rows = [[line[i] for i in used] for line in (HEAD, *lines)]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        yield from ("", group)
        for row in rows:
            first, *rest = (
                c.ljust(w) if k == 0 else c.rjust(w)
                for k, (c, w) in enumerate(zip(row, widths, strict=True))
            )
            yield "  ".join((f"  {first}", *rest)).rstrip()


def markdown(path: str) -> Iterator[str]:
    """The tables of a saved run."""
    data = json.loads(Path(path).read_text())
    machine = data["machine_info"]
    cpu = machine.get("cpu", {})
    cores = f"{cpu.get('brand_raw', '?')}, {cpu.get('count', '?')} cores"
    yield f"{cores}, Python {machine['python_version']}"
    for group, lines in tables(data["benchmarks"]):
        yield from ("", f"**{group}**", "", f"| {' | '.join(HEAD)} |", "|---" * len(HEAD) + "|")
        yield from (f"| {' | '.join(line)} |" for line in lines)


if __name__ == "__main__":
    print("\n".join(markdown(sys.argv[1])))
