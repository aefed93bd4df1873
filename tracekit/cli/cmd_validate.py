"""``tracekit validate``: predicted against measured times of a list of programs on this computer,
beside simple baselines (docs/hardware.md)."""

from __future__ import annotations

import argparse
import platform
import sys
from pathlib import Path
from typing import Any

from tracekit.cli.events import Events
from tracekit.cli.report import add_json, reported

_STEPS = ("build", "time", "record", "predict")


def add_parser(sub: Any, help_text: str) -> None:
    """Add the options of ``tracekit validate``."""
    p = sub.add_parser("validate", help=help_text, description=__doc__)
    p.add_argument("list", help="the programs (JSON, docs/hardware.md)")
    p.add_argument(
        "-o", "--output", help="folder that the steps fill, and go on with (LIST.validation)"
    )
    p.add_argument(
        "--machine",
        default="zen5",
        help="what is judged: a file of `tracekit calibrate`, or a known name (zen5)",
    )
    p.add_argument(
        "--others", nargs="*", default=[], metavar="NAME",
        help="machines of which the nearest is a baseline",
    )  # fmt: skip
    p.add_argument(
        "--half", choices=["development", "test"], help="programs of this half alone (both)"
    )
    p.add_argument("--only", nargs="+", default=[], metavar="NAME", help="these programs alone")
    p.add_argument(
        "--steps", nargs="+", choices=_STEPS, default=list(_STEPS), metavar="STEP",
        help="some of build, time, record, predict (all)",
    )  # fmt: skip
    p.add_argument("--rounds", type=int, default=10, help="timings of each program (10)")
    p.add_argument("--cpu", type=int, help="the processor that timings are pinned to")
    p.add_argument("--threads", type=int, default=1, help="of the simulation (1)")
    p.add_argument("--plot", metavar="FILE", help="predicted over measured, as a picture")
    p.add_argument("--force", action="store_true", help="replace the picture")
    add_json(p)
    p.set_defaults(func=run, parser=p)


def run(args: argparse.Namespace) -> int:
    """Run ``tracekit validate``; returns the exit code."""
    from tracekit.errors import UsageError
    from tracekit.hardware import HardwareMachine
    from tracekit.io.output import kept_folder
    from tracekit.plotting import check_picture
    from tracekit.validation import Validation, load_list, plot

    if args.rounds < 1 or args.threads < 1:
        raise UsageError("--rounds and --threads are at least 1")
    check_picture(args.plot, args.force)
    programs = load_list(args.list)
    machine = HardwareMachine.load(args.machine)
    others = [HardwareMachine.load(o) for o in args.others]
    folder = args.output or f"{Path(args.list).stem}.validation"
    with kept_folder(folder) as place:
        steps = Validation(
            programs, place, half=args.half, only=args.only,
            tell=lambda message: print(f"tracekit: {message}", file=sys.stderr),
        )  # fmt: skip
        work = {
            "build": steps.build,
            "time": lambda: steps.time(args.rounds, args.cpu),
            "record": steps.record,
        }
        for name, step in work.items():
            if name in args.steps:
                with Events(name) as report:
                    steps.report = report
                    step()
        if "predict" not in args.steps:
            return 0
        with Events("predict") as report:
            steps.report = report
            found = steps.predict(machine, others, args.threads)
        left_out = steps.left_out()
    if args.plot:
        plot(found, args.plot, machine.name, force=args.force)
    if not reported(args, lambda: as_dict(found, left_out, machine)):
        _print(found, left_out, machine)
    return 0


def as_dict(found: Any, left_out: dict[str, str], machine: Any) -> dict[str, Any]:
    """For JSON (docs/json.md)."""
    return {
        "machine": machine.name,
        "host": processor(),
        "halves": {h: found.summary(h) for h in ("development", "test") if found.half(h)},
        "programs": [
            {
                "name": j.program.name,
                "family": j.program.family,
                "half": j.program.half,
                "judged": j.program.judged,
                "instructions": j.instructions,
                "measured_seconds": j.seconds,
                "spread": j.timed.spread,
                "rounds": j.timed.rounds,
                "predicted_seconds": j.predicted,
                "error": j.error,
                "baselines": {n: b[j.program.name] for n, b in found.baselines.items()},
            }
            for j in found.programs
        ],
        "pairs": found.pairs,
        "left_out": left_out,
    }


def processor() -> str:
    """This computer's processor: /proc/cpuinfo's name, family and model; else its kind."""
    try:
        lines = Path("/proc/cpuinfo").read_text().partition("\n\n")[0].splitlines()
    except OSError:
        return platform.machine()
    told = {k.strip(): v.strip() for k, _, v in (line.partition(":") for line in lines)}
    name = told.get("model name", platform.machine())
    if "cpu family" in told:
        name += f", family {told['cpu family']} model {told.get('model', '?')}"
    return name


def _print(found: Any, left_out: dict[str, str], machine: Any) -> None:
    print(f"{machine.name} against {processor()}")
    for half in ("development", "test"):
        some = found.half(half)
        if not some:
            continue
        print(f"\n{half}: ns an instruction")
        print(f"  {'program':<26}{'family':<16}{'measured':>9}{'predicted':>11}{'error':>8}")
        for j in sorted(some, key=lambda j: -abs(j.error)):
            a, b = (1e9 * s / j.instructions for s in (j.seconds, j.predicted))
            print(
                f"  {j.program.name:<26}{j.program.family:<16}{a:>9.4f}{b:>11.4f}{j.error:>+8.1%}"
            )
        s = found.summary(half)
        print(f"  {s['programs']} programs of {s['families']} families{'mean':>26}{'median':>9}"
              f"{'Spearman':>10}")  # fmt: skip
        for name in ("prediction", *found.baselines):
            e = s[name]
            rank = "" if e["spearman"] is None else f"{e['spearman']:.3f}"
            print(f"  {name:<46}{e['mean']:>8.1%}{e['median']:>9.1%}{rank:>10}")
        print(f"  pairs of versions: the faster one named in {s['pairs_right']} of {s['pairs']}")
        _print_pairs([p for p in found.pairs if p["half"] == half])
    for name, why in left_out.items():
        print(f"left out: {name}: {why}")


def _print_pairs(pairs: list[dict[str, Any]]) -> None:
    for p in pairs:
        if p["scored"] and not p["right"]:
            a, b = p["versions"]
            print(
                f"    {p['group']}: {a} takes {p['measured_ratio']:.2f} of {b}, predicted "
                f"{p['predicted_ratio']:.2f}"
            )
    close = [p for p in pairs if not p["scored"]]
    if close:
        right = sum(p["right"] for p in close)
        print(f"    not scored, under 10 % or within the spread: {right} of {len(close)} right")
