"""``tracekit models ACTION``: models and machines from a signed repository, on this computer."""

from __future__ import annotations

import argparse
from typing import Any

from tracekit.cli.report import add_json, reported


def add_parser(sub: Any, help_text: str) -> None:
    """Add the options of ``tracekit models``."""
    p = sub.add_parser("models", help=help_text, description=__doc__)
    actions = p.add_subparsers(dest="action", metavar="ACTION", required=True)

    a = _action(actions, "trust", _trust, "begin to trust a repository, by its root's fingerprint")
    a.add_argument("root", help="the repository's root metadata (N.root.json)")
    a.add_argument("--fingerprint", required=True, help="its SHA-256, as the publisher told it")
    a.add_argument(
        "--from", dest="place", required=True, metavar="PLACE", help="https URL, or a folder"
    )
    a.add_argument("--authority", metavar="FILE", help="certificates to check the server's by")
    a.add_argument("--force", action="store_true", help="replace the store, with its models")

    _action(actions, "list", _list, "what the repository offered at the last update")

    a = _action(actions, "get", _get, "take a model or machine")
    a.add_argument("name", help="as the repository calls it")
    a.add_argument("version", type=int, nargs="?", help="(the newest that can be used here)")

    _action(actions, "update", _update, "take newer versions; withdrawn ones go")

    a = _action(actions, "path", _path, "where a verified model is, for --model of other commands")
    a.add_argument("name", help="as the repository calls it")
    a.add_argument("version", type=int, nargs="?", help="(the newest that is here)")
    a.add_argument(
        "--days-off",
        type=int,
        default=30,
        metavar="N",
        help="days behind the repository's expiry after which its models are not used (30)",
    )


def _action(actions: Any, name: str, run: Any, help_text: str) -> Any:
    a = actions.add_parser(name, help=help_text, description=help_text)
    a.add_argument(
        "--store", metavar="DIR", help="where models are kept ($XDG_DATA_HOME/tracekit/models)"
    )
    add_json(a)
    a.set_defaults(func=run, parser=a)
    return a


def _trust(args: argparse.Namespace) -> int:
    from tracekit.repository import ModelStore

    store = ModelStore.trust(
        args.root,
        args.fingerprint,
        args.place,
        args.store,
        authority=args.authority,
        force=args.force,
    )
    result = {"store": str(store.folder), "place": store.place, "fingerprint": store.fingerprint}
    if not reported(args, result):
        print(f"{store.folder}: trusts {store.place}")
    return 0


def _list(args: argparse.Namespace) -> int:
    from tracekit.repository import ModelStore

    store = ModelStore(args.store)
    here = store.installed()
    expires = store.expires()
    entries = [
        {**e.to_dict(), "here": e in here, "unusable": e.unusable()} for e in store.entries()
    ]
    result = {
        "place": store.place,
        "expires": None if expires is None else expires.isoformat(),
        "entries": entries,
    }
    if reported(args, result):
        return 0
    when = "no update so far" if expires is None else f"valid until {expires:%Y-%m-%d %H:%M} UTC"
    print(f"{store.place}: {when}")
    for e in entries:
        state = e["unusable"] or ("here" if e["here"] else "")
        print(f"{e['kind']:<8} {e['name']} {e['version']:<4} {state}".rstrip())
    return 0


def _get(args: argparse.Namespace) -> int:
    from tracekit.repository import ModelStore

    store = ModelStore(args.store)
    entry = store.get(args.name, args.version)
    path, _ = store.model(entry.name, entry.version)
    if not reported(args, {**entry.to_dict(), "path": str(path)}):
        print(f"{entry.kind} {entry.name} {entry.version}: {path}")
    return 0


def _update(args: argparse.Namespace) -> int:
    from tracekit.repository import ModelStore

    changed = ModelStore(args.store).update()
    if not reported(args, changed):
        for what, names in changed.items():
            for name in names:
                print(f"{what}: {name}")
        if not any(changed.values()):
            print("nothing new")
    return 0


def _path(args: argparse.Namespace) -> int:
    from tracekit.errors import UsageError
    from tracekit.repository import ModelStore

    if args.days_off < 0:
        raise UsageError("--days-off is 0 or more")
    path, entry = ModelStore(args.store).model(args.name, args.version, days_off=args.days_off)
    if not reported(args, {**entry.to_dict(), "path": str(path)}):
        print(path)
    return 0
