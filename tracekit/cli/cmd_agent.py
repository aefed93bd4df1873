"""``tracekit agent``: samples this computer's programs, predicts them on designs, reports the
results."""

from __future__ import annotations

import argparse
import time
from typing import Any

from tracekit.cli.numbers import seconds
from tracekit.cli.report import add_json, reported
from tracekit.text import counted


def add_parser(sub: Any, help_text: str) -> None:
    """Add the options of ``tracekit agent``."""
    p = sub.add_parser("agent", help=help_text, description=__doc__)
    actions = p.add_subparsers(dest="action", metavar="ACTION", required=True)
    texts = {
        "run": "serve until SIGTERM; logs are lines of JSON on standard error",
        "status": "budgets, coverage, what waits",
        "report": "the designs over all that was executed, and the programs",
        "pause": "sample and report nothing until resume",
        "resume": "go on",
        "forget": "delete all that is known of a program, or of all, here and at the hub",
        "unit": "a systemd user unit on standard output",
    }
    for name, text in texts.items():
        a = actions.add_parser(name, help=text, description=text)
        a.add_argument("--policy", required=True, metavar="FILE", help="TOML (docs/agent.md)")
        if name == "forget":
            a.add_argument("executable", nargs="?", help="its path, or a glob")
            a.add_argument(
                "--everything", action="store_true", help="all programs; the hub all that was sent"
            )
        if name == "run":
            a.add_argument("--seconds", type=seconds, metavar="S", help="end after so many")
        if name == "unit":
            a.add_argument(
                "--key", metavar="FILE", help="32 bytes: the traces' key, for LoadCredential"
            )
        if name == "report":
            a.add_argument("--top", type=int, default=20, help="so many programs (20)")
        add_json(a)
        a.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    """Run ``tracekit agent``; returns the exit code."""
    from tracekit.agent import policy as policies
    from tracekit.errors import UsageError

    if args.action == "forget" and (args.executable is None) != args.everything:
        raise UsageError("an executable or --everything is needed, one of the two")
    policy = policies.read_policy(args.policy)
    if args.action == "run":
        return _serve(args, policy)
    if args.action == "unit":
        from tracekit.agent.unit import unit_text

        text = unit_text(args.policy, key=args.key)
        if not reported(args, {"unit": text}):
            print(text, end="")
        return 0
    from tracekit.agent import overview
    from tracekit.agent.state import State

    with State(policy.folder, create=False) as state:
        if args.action == "status":
            found = overview.status(policy, state)
            if not reported(args, found):
                _print_status(found)
        elif args.action == "report":
            found = overview.report(policy, state, top=args.top)
            if not reported(args, found):
                _print_report(found)
        elif args.action == "forget":
            now = time.time()
            found = (
                overview.forget_everything(policy, state, now=now)
                if args.everything
                else overview.forget(policy, state, args.executable, now=now)
            )
            if not reported(args, found):
                print(
                    f"forgotten: {counted(found['programs'], 'program')}, "
                    f"{counted(found['signatures'], 'signature')}, "
                    f"{counted(found['traces'], 'trace')}; "
                    f"{counted(found['requests_to_hub'], 'request')} to the hub"
                )
        else:
            overview.set_paused(state, args.action == "pause")
            if not reported(args, {"paused": args.action == "pause"}):
                print("paused" if args.action == "pause" else "goes on")
    return 0


def _serve(args: argparse.Namespace, policy: Any) -> int:
    from tracekit.agent.running import serve

    found = serve(policy, seconds=args.seconds)
    reported(args, found)
    return 0


def _print_status(s: dict[str, Any]) -> None:
    t, loss, queue = s["today"], s["loss"], s["queue"]
    print(f"{'paused' if s['paused'] else 'active'}, state in {s['state']}")
    print(
        f"today: {t['cpu_seconds']:.1f} CPU s ({t['cpu_share']:.3%} of a core, allowed "
        f"{t['cpu_allowed']:.3%}), {counted(t['epochs'], 'epoch')}, {t['known']} of known "
        "signatures"
    )
    print(
        f"programs lost {loss['share']:.4%} (worst {loss['worst_program']:.4%}, allowed "
        f"{loss['allowed']:.3%})"
    )
    print(
        f"{s['observed_seconds']:,.0f} s of user code seen, {s['covered_share']:.1%} covered by "
        f"{counted(s['signatures'], 'signature')}; {counted(s['traces'], 'trace')}, "
        f"{s['disk_bytes'] / 1e6:.1f} MB"
    )
    print(f"to be sent: {counted(queue['messages'], 'message')}, {queue['bytes']:,} bytes")
    if s["hub_error"]:
        print(s["hub_error"])
    for what, number in s["counts"].items():
        print(f"{number:>8} {what}")


def _print_report(r: dict[str, Any]) -> None:
    if not r["designs"]:
        print("no prediction yet")
    for d in r["designs"]:
        half = d["half_interval"]
        print(
            f"{d['name']:<24}{d['time_over_best']:>8.3f} of the best"
            + (f"  ± {half:.3f}" if half is not None else "  ± ?")
            + ("" if d["certain"] or d["time_over_best"] == 1 else "  (not certain)")
        )
    if r["designs"]:
        print(f"±: 95 %, {'samples and the model' if r['model_errors'] else 'samples alone'}")
    print(f"{counted(r['epochs'], 'signature')} with predictions")
    for p in r["programs"]:
        why = f"  refused: {p['refused']}" if p["refused"] else ""
        print(
            f"{p['observed_seconds']:>10,.1f} s {p['epochs']:>5} epochs  lost "
            f"{p['lost_share']:.4%}  {p['executable']}{why}"
        )
