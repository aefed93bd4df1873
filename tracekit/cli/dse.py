"""``tracekit dse SPACE FEATS…``: every design of a grid, ranked by an objective."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any


def add_parser(sub: Any, help_text: str) -> None:
    p = sub.add_parser("dse", help=help_text, description=__doc__)
    p.add_argument("space", help='JSON: {"base": machine, "vary": {"l1d_kb": [4, 8, …]}}')
    p.add_argument("files", nargs="+", help="feats.zst of the programs")
    p.add_argument("--objective", default="time", help="an expression, the least is best")
    p.add_argument("--cost", help="an expression; a picture shows it against time")
    p.add_argument("--known", help="JSON: {program: {number of a design: cycles}}")
    p.add_argument("--top", type=int, default=5)
    p.add_argument("--plot", help="a picture (needs matplotlib)")
    p.add_argument("--threads", type=int)
    p.add_argument("--json", action="store_true")
    p.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    import tracekit
    from tracekit.errors import FormatError
    from tracekit.perfvec.dse import explore, load_space

    space = load_space(args.space)
    known = {}
    if args.known:
        try:
            data = json.loads(Path(args.known).read_text("utf-8"))
            known = {p: {int(d): float(c) for d, c in v.items()} for p, v in data.items()}
        except (ValueError, AttributeError, TypeError) as e:
            raise FormatError(f"not what --known needs: {e}", path=args.known) from None
    traces = {Path(f).name.split(".")[0]: tracekit.open(f) for f in args.files}
    result = explore(space, traces, args.objective, known, args.threads)
    if args.plot:
        _plot(result, space, args.cost, args.plot)
    if args.json:
        print(json.dumps(result, indent=1))
        return 0
    for name, p in result["programs"].items():
        print(f"{name}: {args.objective}")
        for rank, k in enumerate(p["ranking"][: args.top], 1):
            design = ", ".join(f"{a} {b}" for a, b in space.points[k].items())
            print(f"  {rank}. {design:<32}{p['cycles'][k]:>14,.0f} cycles  {p['objective'][k]:.6g}")
    return 0


def _plot(result: dict[str, Any], space: Any, cost: str | None, path: str) -> None:
    import numpy as np

    from tracekit.perfvec.dse import pareto
    from tracekit.perfvec.expression import Expression
    from tracekit.perfvec.plot import figure, save

    fig, ax = figure(6, 4)
    numbers = {
        k: np.array([float(p[k]) for p in space.points])
        for k, v in space.points[0].items()
        if isinstance(v, int | float)
    }
    x = Expression(cost)(numbers) if cost else np.arange(len(space.points), dtype=float)
    for name, p in result["programs"].items():
        y = np.array(p["cycles"]) / min(p["cycles"])
        (line,) = ax.plot(x, y, ".", label=name)
        if cost:
            front = np.flatnonzero(pareto(np.broadcast_to(x, y.shape), y))
            front = front[np.argsort(x[front])]
            ax.plot(x[front], y[front], "-", color=line.get_color(), lw=1)
    ax.set_xlabel(cost or "design")
    ax.set_ylabel("cycles, relative to the fastest design")
    ax.legend(fontsize=7)
    save(fig, path)
