"""The table of bench/README.md from one run's results.

``pytest --benchmark-only --benchmark-json=bench.json && python bench/table.py bench.json``
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any


def rows(path: str) -> list[str]:
    """A Markdown table a group: best and median time, the rates, and the time against the group's
    floor."""
    data = json.loads(Path(path).read_text())
    groups: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for b in data["benchmarks"]:
        groups[b["group"] or b["name"]].append(b)
    cpu = data["machine_info"].get("cpu", {})
    out = [
        f"{cpu.get('brand_raw', '?')}, {cpu.get('count', '?')} cores, "
        f"Python {data['machine_info']['python_version']}"
    ]
    for group in sorted(groups):
        out += [
            "",
            f"**{group}**",
            "",
            "| bench | best, ms | median, ms | times floor | rates |",
            "|---|---|---|---|---|",
        ]
        floors = [b["stats"]["min"] for b in groups[group] if "floor" in b["name"]]
        for b in sorted(groups[group], key=lambda b: b["stats"]["min"]):
            best, median = b["stats"]["min"], b["stats"]["median"]
            ratio = f"{best / min(floors):.1f}" if floors else ""
            rates = ", ".join(
                f"{k} {v:,}" if isinstance(v, (int, float)) else f"{k} {v}"
                for k, v in b["extra_info"].items()
            )
            out.append(
                f"| {b['name'].removeprefix('test_')} | {best * 1e3:.2f} | {median * 1e3:.2f} "
                f"| {ratio} | {rates} |"
            )
    return out


if __name__ == "__main__":
    print("\n".join(rows(sys.argv[1])))
