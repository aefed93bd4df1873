"""``tracekit mrc``: miss ratios of fully associative LRU caches of every size, from a feats.zst."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from tracekit import mrc
from tracekit.store.reader import TraceFile

#: What is asked for on the command line -> the column that answers.
STREAMS = {"data": "data_distance", "fetch": "fetch_distance"}


def add_parser(sub: Any, help_text: str) -> None:
    p = sub.add_parser("mrc", help=help_text, description=__doc__)
    p.add_argument("file")
    p.add_argument(
        "--stream",
        choices=[*STREAMS, "both"],
        default="both",
        help="loads and stores, instruction fetches, or both (default)",
    )
    p.add_argument("--plot", metavar="FILE", help="a picture: .png or .svg")
    p.add_argument("--exact", action="store_true", help="every size, not only powers of two")
    p.add_argument("--json", action="store_true", help="as JSON")
    p.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    with TraceFile(args.file) as f:
        line_size = 1 << int(f.index["options"]["line_bits"])
        wanted = list(STREAMS) if args.stream == "both" else [args.stream]
        distances = {name: f[STREAMS[name]] for name in wanted}
    exact = {name: mrc.miss_ratio_curve(d) for name, d in distances.items()}
    if args.plot:
        mrc.plot(exact, args.plot, line_size=line_size, title=Path(args.file).name)
    last = max(int(c.lines[-1]) for c in exact.values())
    sizes = [1 << k for k in range((last - 1).bit_length() + 1)]
    curves = exact if args.exact else {n: mrc.miss_ratio_curve(distances[n], sizes) for n in wanted}
    if args.json:
        out = {"path": args.file, "line_size": line_size}
        print(json.dumps({**out, **{n: mrc.as_dict(c) for n, c in curves.items()}}, indent=1))
        return 0
    for name, c in curves.items():
        print(f"{name}: {c.accesses:,} accesses, {100 * c.cold:.3f} % first touches")
        for lines, ratio in zip(c.lines.tolist(), c.ratios.tolist(), strict=True):
            print(f"  {mrc.size_name(lines * line_size):>12}  {100 * ratio:8.4f} %")
    return 0
