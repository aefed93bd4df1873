"""``tracekit repo ACTION FOLDER``: a signed repository of models and machines, as its publisher
keeps it.

What ``add``, ``withdraw``, ``rotate`` and ``renew`` change is staged; ``sign`` signs it, and
``publish`` lets users see it.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from tracekit.cli.report import add_json, reported
from tracekit.text import counted

ROLES = ("root", "targets", "snapshot", "timestamp")


def add_parser(sub: Any, help_text: str) -> None:
    """Add the options of ``tracekit repo``."""
    p = sub.add_parser("repo", help=help_text, description=__doc__)
    actions = p.add_subparsers(dest="action", metavar="ACTION", required=True)
    _add_init(actions)

    a = _action(actions, "add", _add, "stage a model folder or a machine's JSON")
    a.add_argument("source", help="model folder, or machine's JSON")
    a.add_argument("--name", help="its name in the repository (the card's own)")
    a.add_argument("--version", type=int, help="whole number (one more than the last)")
    a.add_argument("--needs", metavar="VERSION", help="the tracekit that it needs (0.2)")

    a = _action(actions, "withdraw", _withdraw, "stage the removal of a version")
    a.add_argument("name", help="of the model or machine")
    a.add_argument("version", type=int, help="which goes")

    a = _action(actions, "rotate", _rotate, "stage a root with other keys of a role")
    a.add_argument("role", choices=ROLES, help="whose keys change")
    a.add_argument("--add", metavar="KEY", nargs="+", default=[], help="files of keys that come")
    a.add_argument(
        "--remove", metavar="ID", nargs="+", default=[], help="identifiers of keys that go"
    )
    a.add_argument("--threshold", type=int, help="signatures that the role needs")
    _passphrase(a)

    a = _action(actions, "renew", _renew, "stage root or targets with a new date of expiry")
    a.add_argument("role", choices=("root", "targets"), help="whose date moves")

    a = _action(actions, "sign", _sign, "sign what is staged")
    a.add_argument(
        "--key", metavar="FILE", nargs="+", required=True, help="keys, or folders of keys"
    )
    _passphrase(a)

    a = _action(actions, "publish", _publish, "what is staged, a new snapshot and timestamp")
    a.add_argument(
        "--keys", metavar="FILE", nargs="+", required=True, help="keys, or folders of keys"
    )
    _passphrase(a)

    _action(actions, "status", _status, "versions, dates of expiry, keys, what is staged")


def _add_init(actions: Any) -> None:
    a = _action(actions, "init", _init, "a new repository and its keys")
    a.add_argument("--keys", metavar="DIR", required=True, help="new folder for the keys")
    for role in ROLES:
        many = "3 and 2" if role == "root" else "1 and 1"
        a.add_argument(
            f"--{role}",
            metavar=("KEYS", "THRESHOLD"),
            nargs=2,
            type=int,
            default=(3, 2) if role == "root" else (1, 1),
            help=f"number of keys, and how many must sign ({many})",
        )
    a.add_argument(
        "--days",
        metavar="ROLE=DAYS",
        nargs="+",
        default=[],
        help="after which metadata expire (root=365 targets=180 snapshot=30 timestamp=7)",
    )
    _passphrase(a)


def _action(actions: Any, name: str, run: Any, help_text: str) -> Any:
    a = actions.add_parser(name, help=help_text, description=help_text)
    a.add_argument("folder", help="the repository")
    add_json(a)
    a.set_defaults(func=run, parser=a)
    return a


def _passphrase(a: Any) -> None:
    a.add_argument(
        "--passphrase-file", metavar="FILE", help="its first line encrypts the keys' files"
    )


def _secret(args: argparse.Namespace) -> bytes | None:
    from tracekit.errors import UsageError
    from tracekit.io.files import read_limited

    if args.passphrase_file is None:
        return None
    text = read_limited(args.passphrase_file, 4096).split(b"\n", 1)[0]
    if not text:
        raise UsageError("its first line is empty", path=args.passphrase_file)
    return text


def _init(args: argparse.Namespace) -> int:
    from tracekit.errors import UsageError
    from tracekit.repository import ROLES, KeyFolder, Repository

    days = {}
    for text in args.days:
        role, _, number = text.partition("=")
        if role not in ROLES or not number.isdigit():
            raise UsageError(f"--days {text}: ROLE=DAYS, a role being one of {', '.join(ROLES)}")
        days[role] = int(number)
    wanted = {role: getattr(args, role) for role in ROLES}
    for role, (count, threshold) in wanted.items():
        if not 1 <= threshold <= count <= 16:
            raise UsageError(f"--{role}: 1 to 16 keys, of which so many must sign")
    with KeyFolder(args.keys, _secret(args)) as folder:
        keys = {
            role: [folder.make(f"{role}-{i + 1}") for i in range(count)]
            for role, (count, _) in wanted.items()
        }
        thresholds = {role: threshold for role, (_, threshold) in wanted.items()}
        made = Repository.create(args.folder, keys, thresholds, days)
        folder.commit()  # last: a mistake leaves no keys behind
    result = {
        "folder": args.folder,
        "root": str(made.root_file()),
        "fingerprint": made.fingerprint(),
        "keys": {role: [s.public_key.keyid for s in keys[role]] for role in ROLES},
    }
    if not reported(args, result):
        print(f"{args.folder}: a repository without models; its keys are in {args.keys}")
        print(f"users trust {result['root']} by its fingerprint:")
        print(result["fingerprint"])
    return 0


def _add(args: argparse.Namespace) -> int:
    from tracekit.errors import UsageError
    from tracekit.repository import Repository

    if args.version is not None and not 1 <= args.version < 1 << 31:
        raise UsageError("--version is a whole number from 1")
    entry = Repository(args.folder).add(
        args.source, name=args.name, version=args.version, least=args.needs
    )
    if not reported(args, entry.to_dict()):
        print(
            f"{entry.kind} {entry.name} {entry.version}: {counted(len(entry.files), 'file')}, "
            "staged"
        )
    return 0


def _withdraw(args: argparse.Namespace) -> int:
    from tracekit.repository import Repository

    entry = Repository(args.folder).withdraw(args.name, args.version)
    if not reported(args, entry.to_dict()):
        print(f"{entry.kind} {entry.name} {entry.version}: withdrawal staged")
    return 0


def _rotate(args: argparse.Namespace) -> int:
    from tracekit.repository import Repository, read_key

    if not args.add and not args.remove and args.threshold is None:
        args.parser.error("--add, --remove or --threshold is needed")
    secret = _secret(args)
    keys = [read_key(path, secret).public_key for path in args.add]
    repository = Repository(args.folder)
    repository.rotate(args.role, add=keys, remove=args.remove, threshold=args.threshold)
    return _tell(args, repository)


def _renew(args: argparse.Namespace) -> int:
    from tracekit.repository import Repository

    repository = Repository(args.folder)
    repository.renew(args.role)
    return _tell(args, repository)


def _sign(args: argparse.Namespace) -> int:
    from tracekit.repository import Repository, read_keys

    signers = read_keys([Path(k) for k in args.key], _secret(args))
    missing = Repository(args.folder).sign(list(signers.values()))
    if not reported(args, {"signatures_missing": missing}):
        for role, count in missing.items():
            lacks = f"{counted(count, 'signature')} missing"
            print(f"{role}: {lacks if count else 'signed'}")
    return 0


def _publish(args: argparse.Namespace) -> int:
    from tracekit.repository import Repository, read_keys

    signers = read_keys([Path(k) for k in args.keys], _secret(args))
    versions = Repository(args.folder).publish(signers)
    if not reported(args, {"versions": versions}):
        print("published: " + ", ".join(f"{role} {n}" for role, n in versions.items()))
    return 0


def _status(args: argparse.Namespace) -> int:
    from tracekit.repository import Repository

    return _tell(args, Repository(args.folder))


def _tell(args: argparse.Namespace, repository: Any) -> int:
    status = repository.status()
    status["entries"] = [e.to_dict() for e in repository.entries()]
    if reported(args, status):
        return 0
    print(f"fingerprint of the root: {status['fingerprint']}")
    for role, about in status["roles"].items():
        keys = f"{about['threshold']} of {len(about['keys'])} keys"
        print(f"{role:<10}version {about['version']}, expires {about['expires'][:10]}, {keys}")
        for key in about["keys"]:
            print(f"{'':<10}{key}")
    for entry in status["entries"]:
        print(f"{entry['kind']} {entry['name']} {entry['version']}")
    for role, about in status["staged"].items():
        missing = about["signatures_missing"]
        print(f"staged: {role} {about['version']}, {counted(missing, 'signature')} missing")
    return 0
