"""``tracekit validate``: predicted against measured times of a list of programs on this computer,
beside simple baselines (docs/hardware.md)."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any, Final

from tracekit.cli.common_options import add_quiet
from tracekit.cli.events import Events
from tracekit.cli.numbers import at_least
from tracekit.cli.report import add_json, reported
from tracekit.text import counted

_STEPS = ("build", "time", "record", "predict")
#: Programs that a factor is fitted on, at the least.
_LEAST_FITTED: Final = 3
#: More judged programs than so many that are left out, and the figures do not count.
_MOST_LEFT_OUT: Final = 3


def add_parser(sub: Any, help_text: str) -> None:
    """Add the options of ``tracekit validate``."""
    p = sub.add_parser("validate", help=help_text, description=__doc__)
    p.add_argument("list", help="the programs (JSON, docs/hardware.md)")
    p.add_argument(
        "-o", "--output", help="folder that the steps fill, and go on with (LIST.validation)"
    )
    p.add_argument(
        "-m",
        "--machine",
        metavar="NAME|FILE",
        default="zen5",
        help="what is judged: a file of `tracekit calibrate`, or a known name (zen5)",
    )
    p.add_argument(
        "--others", nargs="*", action="extend", default=[], metavar="NAME",
        help="machines of which the nearest is a baseline",
    )  # fmt: skip
    p.add_argument(
        "--half", choices=["development", "test", "fitting"],
        help="programs of this half alone (both); fitting: those that --fit takes",
    )  # fmt: skip
    p.add_argument(
        "--only",
        nargs="+",
        action="extend",
        default=[],
        metavar="NAME",
        help="these programs alone",
    )
    p.add_argument(
        "--steps", nargs="+", choices=_STEPS, default=list(_STEPS), metavar="STEP",
        help="some of build, time, record, predict (all)",
    )  # fmt: skip
    p.add_argument("--rounds", type=int, default=10, help="timings of each program (10)")
    p.add_argument("--cpu", type=int, help="the processor that timings are pinned to")
    p.add_argument("--threads", type=at_least(1), default=1, help="of the simulation (1)")
    p.add_argument("--plot", metavar="FILE", help="predicted over measured, as a picture")
    p.add_argument("--force", action="store_true", help="replace the picture, or --fit's file")
    p.add_argument(
        "--fit", metavar="FILE",
        help="one factor for all cycles from the list's programs of neither half; the machine's "
        "file with it",
    )  # fmt: skip
    p.add_argument(
        "--write", action="store_true", help="what came out into the machine's file, as `checked`"
    )
    add_quiet(p)
    add_json(p)
    p.set_defaults(func=run, parser=p)


def run(args: argparse.Namespace) -> int:
    """Run ``tracekit validate``; returns the exit code."""
    from tracekit.errors import UsageError
    from tracekit.hardware import HardwareMachine, is_hardware_file
    from tracekit.io.output import kept_folder
    from tracekit.plotting import check_picture
    from tracekit.validation import HALVES, Validation, load_list, plot

    if args.rounds < 1 or args.threads < 1:
        raise UsageError("--rounds and --threads are at least 1")
    check_picture(args.plot, args.force)
    if args.fit:
        _check_fit(args)
    if args.write and not is_hardware_file(args.machine):
        raise UsageError(f"--write: {args.machine} is no file", hint="--machine here.json")
    if args.write and (args.half or args.only or "predict" not in args.steps):
        raise UsageError("--write goes with all programs of both halves, and with predict")
    programs = load_list(args.list)
    machine = HardwareMachine.load(args.machine)
    if args.fit:
        args.half, machine = "fitting", machine.replace(fitted=None, checked=None)
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
                with Events(name, quiet=args.quiet) as report:
                    steps.report = report
                    step()
        if "predict" not in args.steps:
            return 0
        with Events("predict", quiet=args.quiet) as report:
            steps.report = report
            found = steps.predict(machine, others, args.threads)
        left_out = steps.left_out()
        lost = [
            p.name for p in steps.programs if p.judged and p.half in HALVES and p.name in left_out
        ]
    if args.fit:
        return _fit(args, machine, found, left_out)
    if args.write:
        _write(args.machine, machine, found, lost, args.list)
    if args.plot:
        plot(found, args.plot, machine.name, force=args.force)
    if not reported(args, lambda: as_dict(found, left_out, machine, lost)):
        _print(found, left_out, machine)
        if len(lost) > _MOST_LEFT_OUT:
            print(_too_many(lost))
    return 0


def _check_fit(args: argparse.Namespace) -> None:
    from tracekit.errors import UsageError
    from tracekit.io.output import check_output

    if args.half in ("development", "test") or args.only or args.write or args.plot:
        raise UsageError("--fit takes the list's programs of neither half, and nothing is judged")
    if "predict" not in args.steps:
        raise UsageError("--fit goes with predict")
    check_output(args.fit, args.force)


def _fit(args: argparse.Namespace, machine: Any, found: Any, left_out: dict[str, str]) -> int:
    """Writes the machine with the factor of the programs that are there to be fitted on."""
    from tracekit.errors import TracekitError
    from tracekit.io.output import write_json
    from tracekit.validation import fitted_factor

    some = found.half("fitting")
    if len(some) < _LEAST_FITTED:
        why = "; ".join(f"{name}: {reason}" for name, reason in left_out.items())
        raise TracekitError(
            f"{len(some)} programs to fit on; at least {_LEAST_FITTED} ({why})", path=args.list
        )
    factor, others = fitted_factor(some)
    if not 0.5 <= factor <= 2:
        raise TracekitError(
            f"measured times are {factor:.2f} of those predicted: too far for a factor",
            hint="--machine names a file that `tracekit calibrate` made on this computer",
        )
    fitted = {"factor": round(factor, 4), "programs": [j.program.name for j in some]}
    told = {**fitted, "list": Path(args.list).name, "host": found.host}
    write_json(args.fit, machine.replace(fitted=told).to_dict(), force=True)
    errors = {
        j.program.name: {"error": j.error, "error_by_the_others": others[j.program.name]}
        for j in some
    }
    if reported(args, {"factor": factor, "programs": errors, "left_out": left_out}):
        return 0
    print(f"{'program':<26}{'error':>9}{'with the factor of the others':>32}")
    for name, e in errors.items():
        print(f"{name:<26}{e['error']:>+9.1%}{e['error_by_the_others']:>+32.1%}")
    for name, reason in left_out.items():
        print(f"left out: {name}: {reason}")
    print(f"cycles x {factor:.3f}: {args.fit}")
    return 0


def _too_many(lost: list[str]) -> str:
    return (
        f"left out: {counted(len(lost), 'judged program')}, over {_MOST_LEFT_OUT}: these figures "
        "do not count; time them again on an idle computer"
    )


def _write(path: str, machine: Any, found: Any, lost: list[str], programs: str) -> None:
    """Puts the errors of the half that nothing was fitted on into the machine's file."""
    from tracekit.errors import UsageError
    from tracekit.io.output import write_json

    if len(lost) > _MOST_LEFT_OUT:
        raise UsageError(f"--write: {_too_many(lost)}", path=path)
    s = found.summary("test")
    checked = {**s["prediction"], "programs": s["programs"], "half": "test"}
    checked |= {"list": Path(programs).name, "host": found.host}
    write_json(path, machine.replace(checked=checked).to_dict(), force=True)


def as_dict(found: Any, left_out: dict[str, str], machine: Any, lost: list[str]) -> dict[str, Any]:
    """For JSON (docs/json.md)."""
    return {
        "machine": machine.name,
        "host": found.host,
        "counts": len(lost) <= _MOST_LEFT_OUT,
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


def _print(found: Any, left_out: dict[str, str], machine: Any) -> None:
    print(f"{machine.name} against {found.host or 'a processor that the times do not tell'}")
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
        programs, families = (
            counted(s["programs"], "program"),
            counted(s["families"], "family", "families"),
        )
        print(f"  {programs} of {families}{'mean':>26}{'median':>9}{'Spearman':>10}")
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
