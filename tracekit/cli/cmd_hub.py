"""``tracekit hub``: receives what agents of a fleet predict, and answers which design would serve
it best (docs/hub.md).  A database is a SQLite file, or postgresql+psycopg://USER@HOST/NAME."""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tracekit.cli.numbers import at_least
from tracekit.cli.report import add_json, reported
from tracekit.text import counted


def add_parser(sub: Any, help_text: str) -> None:
    """Add the options of ``tracekit hub``."""
    p = sub.add_parser("hub", help=help_text, description=__doc__)
    p.add_argument("--demo", action="store_true", help="a hub with simulated agents, here")
    p.add_argument(
        "--traces", nargs="+", metavar="FILE", help="demo: recordings that the agents replay"
    )
    p.add_argument("--agents", type=int, default=40, help="demo: computers (40)")
    p.add_argument("--days", type=int, default=10, help="demo: days that they were in use (10)")
    p.add_argument("--seed", type=at_least(0), default=0, help="demo")
    p.add_argument("--port", type=at_least(0, 65535), default=8080, help="demo (8080)")
    p.add_argument("--once", action="store_true", help="demo: end when the answer is there")
    add_json(p)
    p.set_defaults(func=_demo, parser=p, action=None)
    actions = p.add_subparsers(dest="action", metavar="ACTION")

    a = _action(actions, "serve", _serve, "serve until it is told to end")
    a.add_argument(
        "--listen",
        default="127.0.0.1:8080",
        metavar="HOST:PORT",
        help="where it serves (127.0.0.1:8080)",
    )
    a.add_argument("--certificate", type=Path, metavar="FILE", help="of TLS, PEM")
    a.add_argument("--key", type=Path, metavar="FILE", help="its key, PEM")
    a.add_argument("--behind-proxy", action="store_true", help="a proxy of this computer has TLS")
    a.add_argument("--repository", type=Path, metavar="DIR", help="of models, which it serves, too")
    a.add_argument("--open-page", action="store_true", help="the page needs no token")
    a.add_argument("--rate", type=float, default=2.0, help="messages an agent and second (2)")
    a.add_argument("--burst", type=float, default=60.0, help="messages of an agent at once (60)")
    a.add_argument(
        "--release-minutes", type=float, default=1440.0, metavar="N", help="between answers (1440)"
    )
    a.add_argument("--keep-days", type=float, metavar="N", help="delete what is older, each hour")

    a = _action(actions, "token", _token, "a token of a new agent, on standard output")
    a.add_argument(
        "--agent",
        metavar="PSEUDONYM",
        help="a new one of this agent, whose first use ends the old one",
    )
    a.add_argument("--viewer", action="store_true", help="a token that shows the page")

    a = _action(actions, "revoke", _revoke, "end all tokens of an agent, or of viewers")
    a.add_argument("agent", metavar="PSEUDONYM", nargs="?", help="whose tokens end")
    a.add_argument("--viewers", action="store_true", help="of all who look at the page")

    a = _action(actions, "prune", _prune, "delete what is older")
    a.add_argument(
        "--days", type=float, required=True, dest="older", metavar="N", help="so many days or more"
    )

    _action(actions, "status", _status, "what the database holds")

    a = _action(actions, "ask", _ask, "the fleet's answer")
    a.add_argument("--group", help="only programs of this group of agents")
    a.add_argument("--label", help="only programs with this label")
    a.add_argument("--ab", nargs=2, metavar="DESIGN", help="these two against one another")
    a.add_argument("--repository", type=Path, metavar="DIR", help="of the models, for their errors")


def _action(
    actions: Any, name: str, run: Callable[[argparse.Namespace], int], help_text: str
) -> Any:
    a = actions.add_parser(name, help=help_text, description=help_text)
    a.add_argument("database", help="SQLite file, or postgresql+psycopg://...")
    add_json(a)
    a.set_defaults(func=lambda args: _told(run, args), parser=a)
    return a


def _told(run: Callable[[argparse.Namespace], int], args: argparse.Namespace) -> int:
    """Run an action; what the database cannot do is one line."""
    from tracekit.hub import database_errors

    with database_errors(args.database):
        return run(args)


def _opened(args: argparse.Namespace) -> Any:
    from tracekit.errors import UsageError
    from tracekit.hub import open_database

    if args.demo:
        raise UsageError(f"--demo has a database of its own: it does not go with {args.action}")

    # A hub begins with its first token; what only asks, or takes away, makes no database.
    return open_database(args.database, new=args.action == "token")


def _serve(args: argparse.Namespace) -> int:
    from tracekit.errors import UsageError
    from tracekit.hub import Settings, place_of, serve

    if args.demo:
        raise UsageError("--demo serves a database of its own: it does not go with serve")
    if not args.rate > 0 or not args.burst >= 1 or not args.release_minutes >= 0:
        raise UsageError("--rate is more than 0, --burst 1 or more, --release-minutes 0 or more")
    if args.keep_days is not None and not 0 < args.keep_days < math.inf:
        raise UsageError("--keep-days is a number above 0")
    place = place_of(args.listen)
    settings = Settings(
        rate=args.rate,
        burst=args.burst,
        open_page=args.open_page,
        interval=60 * args.release_minutes,
        repository=args.repository,
        behind_proxy=args.behind_proxy,
    )

    def ready(port: int) -> None:
        scheme = "http" if args.certificate is None else "https"
        host = f"[{place.host}]" if ":" in place.host else place.host
        url = f"{scheme}://{host}:{port}"
        if not reported(args, {"url": url}):
            print(f"{args.database.split('://')[0]}: {url}")
        sys.stdout.flush()  # whoever waits for it reads a pipe, and this goes on

    serve(
        args.database,
        place,
        settings,
        certificate=args.certificate,
        key=args.key,
        keep_days=args.keep_days,
        ready=ready,
    )
    return 0


def _token(args: argparse.Namespace) -> int:
    from tracekit.errors import UsageError
    from tracekit.hub import issue_agent, issue_viewer

    if args.viewer and args.agent:
        raise UsageError("--agent and --viewer do not go together")
    with _opened(args).begin() as connection:
        token = issue_viewer(connection) if args.viewer else issue_agent(connection, args.agent)
    if not reported(args, {"token": token}):
        print(token)
    return 0


def _revoke(args: argparse.Namespace) -> int:
    from tracekit.errors import UsageError
    from tracekit.hub import revoke, revoke_viewers

    if (args.agent is None) != args.viewers:
        raise UsageError("a PSEUDONYM or --viewers is needed, one of the two")
    with _opened(args).begin() as connection:
        count = revoke_viewers(connection) if args.viewers else revoke(connection, args.agent)
    if not reported(args, {"revoked": count}):
        print(f"{args.agent or 'viewers'}: {count} tokens revoked")
    return 0


def _prune(args: argparse.Namespace) -> int:
    from tracekit.errors import UsageError
    from tracekit.hub import prune

    if not 0 <= args.older < math.inf:
        raise UsageError("--days is a number, 0 or more")
    done = prune(_opened(args), args.older)
    if not reported(args, done):
        print("deleted: " + ", ".join(f"{n:,} {what}" for what, n in done.items()))
    return 0


def _status(args: argparse.Namespace) -> int:
    from tracekit.hub import status

    found = status(_opened(args))
    if not reported(args, found):
        for what, number in found.items():
            print(f"{what:<12}{'never' if number is None else number}")
    return 0


def _ask(args: argparse.Namespace) -> int:
    from tracekit.errors import UsageError
    from tracekit.hub import Answering, ModelErrors, Question

    if args.ab and (args.group or args.label or args.repository):
        raise UsageError("--ab is of the whole fleet, and of sampling alone")
    if args.ab:
        question = Question("ab", designs=tuple(args.ab))
    else:
        question = Question(group=args.group, label=args.label)
    errors = ModelErrors(args.repository)
    answer = Answering(_opened(args), errors=errors).ask(question)
    if not reported(args, answer):
        _print(answer)
    return 0


def _print(answer: dict[str, Any]) -> None:
    if "hidden" in answer:
        print(f"not shown: {answer['hidden']}")
    elif "designs" in answer:
        covered = "" if answer["covered"] is None else f", {answer['covered']:.1%} of its time"
        print(
            f"{counted(answer['agents'], 'computer')}, "
            f"{counted(answer['epochs'], 'epoch')}{covered}"
        )
        for t in answer["designs"]:
            change = f"{100 * (t['ratio'] - 1):+8.2f} % ± {100 * t['half']:.2f} %"
            print(f"{t['design']:<24}{change if t['design'] != answer['best'] else '    best'}")
        print(f"±: 95 %, {'samples and models' if answer.get('model_errors') else 'samples alone'}")
    else:
        half = "too few for an interval" if answer["half"] is None else f"± {answer['half']:.2%}"
        verdict = "different" if answer["decided"] else "not told apart"
        times = f"{answer['first']} takes {answer['ratio'] - 1:+.2%} of {answer['second']}'s time"
        print(f"{times}, {half}: {verdict}, {counted(answer['units'], 'unit')}")


def _demo(args: argparse.Namespace) -> int:
    from tracekit.errors import UsageError
    from tracekit.hub import demonstrate

    if not args.demo:
        args.parser.error("an ACTION or --demo is needed")
    if not 5 <= args.agents <= 1000 or not 1 <= args.days <= 60:
        raise UsageError("--agents is from 5 to 1000, --days from 1 to 60")
    if not args.traces:
        raise UsageError("--traces FILE ... is needed: what the agents replay")

    def said(url: str, answer: dict[str, Any]) -> None:
        if not reported(args, {"url": url, **answer}):
            _print(answer)
            if not args.once:
                print(f"{url} until Ctrl-C")
        sys.stdout.flush()

    demonstrate(
        args.traces,
        agents=args.agents,
        days=args.days,
        seed=args.seed,
        port=args.port,
        once=args.once,
        said=said,
    )
    return 0
