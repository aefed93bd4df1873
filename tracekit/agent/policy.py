"""What an agent may do: a TOML file, read strictly (docs/agent.md has every key)."""

from __future__ import annotations

import difflib
import fnmatch
import os
import pwd
import re
import urllib.parse
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tracekit.errors import UsageError
from tracekit.fleet.messages import NAME
from tracekit.io.files import read_toml
from tracekit.io.remote import is_this_computer
from tracekit.text import shown

__all__ = ["Policy", "read_policy"]

DEFAULT_STATE: Final = "~/.local/state/tracekit-agent"


@dataclass(frozen=True, kw_only=True)
class Policy:
    """One field a key of the file; shares as fractions, times in seconds unless named, paths
    absolute."""

    path: str = ""
    executables: tuple[str, ...] = ("*",)
    excluded: tuple[str, ...] = ()
    cgroups: tuple[str, ...] = ("*",)
    cpu: float = 0.005
    loss: float = 0.001
    disk_mb: float = 200.0
    idle: bool = True
    mains: bool = True
    designs: tuple[str, ...] = ("ns_4w_mem", "ns_6w_ls", "ns_8w", "ns_lsq", "ns_rob")
    model: str = "shipped"
    store: str = ""
    update_hours: float = 24.0
    days_off: int = 30
    epoch: int = 100_000
    distance: float = 0.1
    copy_seconds: float = 60.0
    keep_traces: bool = False
    days: float = 90.0
    state: str = field(default_factory=lambda: _place(DEFAULT_STATE))
    scan_seconds: float = 10.0
    user: str = ""
    url: str = ""
    token_file: str = ""
    key_file: str = ""
    authority: str = ""
    group: str = ""
    report_minutes: float = 60.0
    queue_mb: float = 20.0
    labels: Mapping[str, str] = field(default_factory=dict)

    @property
    def folder(self) -> Path:
        """Where state and traces are."""
        return Path(self.state)

    @property
    def uid(self) -> int:
        """Whose processes are seen."""
        return pwd.getpwnam(self.user).pw_uid if self.user else os.geteuid()

    def admits(self, executable: str, cgroup: str) -> bool:
        """Whether epochs of a program may be taken."""
        return (
            any(fnmatch.fnmatchcase(executable, g) for g in self.executables)
            and not any(fnmatch.fnmatchcase(executable, g) for g in self.excluded)
            and any(fnmatch.fnmatchcase(cgroup, g) for g in self.cgroups)
        )

    def label(self, executable: str) -> str | None:
        """What the hub is told of a program; None unless the policy gives it a label."""
        for glob, label in self.labels.items():
            if fnmatch.fnmatchcase(executable, glob):
                return label
        return None


_Read = Callable[[Any], Any]


def _share(most: float) -> _Read:
    def read(value: Any) -> float:
        if isinstance(value, str) and value.endswith("%"):
            try:
                value = float(value[:-1]) / 100
            except ValueError:
                raise ValueError('is no share ("0.5%")') from None
        if type(value) not in (int, float) or not 0 < value <= most:
            raise ValueError(f'is no share up to {100 * most:g}% ("0.5%")')
        return float(value)

    return read


def _number(least: float, most: float) -> _Read:
    def read(value: Any) -> float:
        if type(value) not in (int, float) or not least <= value <= most:
            raise ValueError(f"is no number from {least:g} to {most:g}")
        return float(value)

    return read


def _whole(least: int, most: int) -> _Read:
    def read(value: Any) -> int:
        if type(value) is not int or not least <= value <= most:
            raise ValueError(f"is no whole number from {least:,} to {most:,}")
        return value

    return read


def _flag(value: Any) -> bool:
    if type(value) is not bool:
        raise ValueError("is neither true nor false")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value or "\0" in value:
        raise ValueError("is no text")
    return value


def _place(value: Any) -> str:
    try:
        return str(Path(_text(value)).expanduser().absolute())
    except RuntimeError:
        raise ValueError("is in a home that is not known") from None


def _model(value: Any) -> str:
    named = value == "shipped" or str(value).startswith("repository:")
    return _text(value) if named else _place(value)


def _texts(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not value:
        raise ValueError("is no list of texts")
    return tuple(_text(v) for v in value)


def _name(value: Any) -> str:
    if not isinstance(value, str) or not NAME.fullmatch(value):
        raise ValueError("is no name of 1 to 64 letters, digits, spaces and ._+-")
    return value


def _names(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not value or len(value) > 50:
        raise ValueError("is no list of 1 to 50 names")
    if len(set(map(str, value))) < len(value):
        raise ValueError("names a design twice")
    return tuple(_name(v) for v in value)


def _labels(value: Any) -> dict[str, str]:
    if not isinstance(value, dict):
        raise ValueError("is no table of labels")
    return {_text(k): _name(v) for k, v in value.items()}


def _url(value: Any) -> str:
    if not isinstance(value, str) or not re.fullmatch(r"https?://[^\s@]+", value):
        raise ValueError("is no https URL")
    try:
        host = urllib.parse.urlsplit(value).hostname
    except ValueError:
        raise ValueError("is no https URL") from None
    if value.startswith("http:") and not is_this_computer(host):
        raise ValueError("is no https URL: a token does not travel without TLS")
    return value


def _user(value: Any) -> str:
    try:
        entry = pwd.getpwnam(_text(value))
    except KeyError:
        raise ValueError("is no user of this computer") from None
    if entry.pw_uid == 0:
        raise ValueError("is root, whose processes no agent sees")
    return str(value)


#: Table -> key -> (the field of Policy, how its value is read).
KEYS: Final[dict[str, dict[str, tuple[str, _Read]]]] = {
    "programs": {
        "executables": ("executables", _texts),
        "except": ("excluded", _texts),
        "cgroups": ("cgroups", _texts),
    },
    "budget": {
        "cpu": ("cpu", _share(0.5)),
        "loss": ("loss", _share(0.1)),
        "disk_mb": ("disk_mb", _number(1, 1e6)),
    },
    "when": {"idle": ("idle", _flag), "mains": ("mains", _flag)},
    "predict": {
        "designs": ("designs", _names),
        "model": ("model", _model),
        "store": ("store", _place),
        "update_hours": ("update_hours", _number(0.01, 10_000)),
        "days_off": ("days_off", _whole(0, 3650)),
        "epoch": ("epoch", _whole(1000, 1 << 22)),
        "distance": ("distance", _number(0, 1)),
        "copy_seconds": ("copy_seconds", _number(1, 600)),
    },
    "keep": {"traces": ("keep_traces", _flag), "days": ("days", _number(0.01, 3650))},
    "agent": {
        "state": ("state", _place),
        "scan_seconds": ("scan_seconds", _number(0.2, 600)),
        "user": ("user", _user),
    },
    "hub": {
        "url": ("url", _url),
        "token_file": ("token_file", _place),
        "key_file": ("key_file", _place),
        "authority": ("authority", _place),
        "group": ("group", _name),
        "report_minutes": ("report_minutes", _number(0.01, 10_080)),
        "queue_mb": ("queue_mb", _number(0.01, 10_000)),
        "labels": ("labels", _labels),
    },
}


def read_policy(path: str | os.PathLike[str]) -> Policy:
    """The policy in a TOML file.

    Raises `FormatError` where it is no TOML and `UsageError` with every wrong key and value, each
    unknown key with the nearest known one.
    """
    name = os.fspath(path)
    data = read_toml(name, 1 << 20)
    wrong: list[str] = []
    found: dict[str, Any] = {"path": str(Path(name).absolute())}
    for table, content in data.items():
        keys = KEYS.get(table)
        if keys is None:
            owner = next((t for t, k in KEYS.items() if table in k), None)
            hint = f" (it belongs into [{owner}])" if owner else _nearest(table, KEYS)
            wrong.append(f"[{shown(table)}] is no table of a policy{hint}")
        elif not isinstance(content, dict):
            wrong.append(f"{table} is to be a table, [{table}]")
        else:
            _read_table(table, content, keys, found, wrong)
    if found.get("url"):
        for key in ("token_file", "key_file"):
            if key not in found:
                wrong.append(f"hub.{key} is missing, which hub.url needs")
    elif "hub" in data and isinstance(data["hub"], dict) and "url" not in data["hub"]:
        wrong.append("hub.url is missing")
    if os.geteuid() == 0 and "user" not in found and not any("agent.user" in w for w in wrong):
        wrong.append(
            "agent.user is missing: as root an agent needs the user whose processes it sees"
        )
    if (
        os.geteuid() != 0
        and found.get("user")
        and pwd.getpwnam(found["user"]).pw_uid != os.geteuid()
    ):
        wrong.append("agent.user is somebody else: only root may see another user's processes")
    if wrong:
        raise UsageError("; ".join(wrong), path=name)
    return Policy(**found)


def _read_table(
    table: str,
    content: Mapping[str, Any],
    keys: Mapping[str, tuple[str, _Read]],
    found: dict[str, Any],
    wrong: list[str],
) -> None:
    for key, value in content.items():
        if key not in keys:
            wrong.append(f"{table}.{shown(key)} is no key{_nearest(key, keys)}")
            continue
        field_name, read = keys[key]
        try:
            found[field_name] = read(value)
        except ValueError as e:
            wrong.append(f"{table}.{key} {e}")


def _nearest(wrong: str, known: Mapping[str, Any]) -> str:
    near = difflib.get_close_matches(wrong[:64].lower(), list(known), 1, 0.5)
    return f" (did you mean {near[0]}?)" if near else f" (known: {', '.join(known)})"
