"""What a repository offers: models and machines by name and version, and the names of their files.

Each file is a target of its own, ``NAME~VERSION~FILE``: three parts of letters, digits and ._+-,
so that a target's name is never a path.  What a version consists of stands beside the target of
its first file, signed with it (``custom`` of TUF).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from tracekit._version import __version__
from tracekit.errors import FormatError, UsageError
from tracekit.features import names as feature_set_names
from tracekit.mixture.model import FEATURE_SET

__all__ = ["ENGINE", "Entry", "check_name", "entries_of", "target_name"]

#: What computes a model: the format of model folders, raised where old readers must not go on.
ENGINE: Final = 1
KINDS: Final = {"model": "card.json", "machine": "machine.json"}
MAX_FILES: Final = 16
MAX_SIZE: Final = 1 << 30
"""Bytes of one file."""
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,63}")
_FILE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}\.(?:json|safetensors)")
_RELEASE: Final = re.compile(r"\d{1,4}(\.\d{1,4}){1,2}")


def check_name(name: str) -> str:
    """The name of a model or machine; raises UsageError where it is none."""
    if not _NAME.fullmatch(name):
        raise UsageError(f"{name[:80]!r} is no name: 1 to 64 letters, digits and ._+-")
    return name


def check_release(version: str) -> str:
    """The tracekit that a version needs; raises UsageError where it is none."""
    if not _RELEASE.fullmatch(version):
        raise UsageError(f"{version[:80]!r} is no version of tracekit: 0.2, or 0.2.1")
    return version


def target_name(name: str, version: int, file: str) -> str:
    """The target of one file; raises UsageError where a part has other characters."""
    if not _FILE.fullmatch(file):
        raise UsageError(f"{file[:80]!r} is no file of a model: NAME.json or NAME.safetensors")
    return f"{check_name(name)}~{version}~{file}"


@dataclass(frozen=True)
class Entry:
    """A version of a model or machine.

    ``files``: their names in its folder, the first one being its card (models) or machine.json.
    ``feature_set``, ``level``: of the rows that a model takes; ``designs``: the machines that it
    predicts.  ``engine``, ``least``: what a reader must be able to (`ENGINE`, its version).
    """

    kind: str
    name: str
    version: int
    files: tuple[str, ...]
    designs: tuple[str, ...] = ()
    feature_set: str = ""
    level: str = ""
    engine: int = ENGINE
    least: str = "0.2"

    def targets(self) -> tuple[str, ...]:
        """The names of its targets, in the order of its files."""
        return tuple(target_name(self.name, self.version, f) for f in self.files)

    def to_dict(self) -> dict[str, Any]:
        """What stands beside the first target."""
        return {
            "kind": self.kind,
            "name": self.name,
            "version": self.version,
            "files": list(self.files),
            "designs": list(self.designs),
            "feature_set": self.feature_set,
            "level": self.level,
            "engine": self.engine,
            "least": self.least,
        }

    def unusable(self) -> str | None:
        """Why this tracekit cannot use it; None where it can."""
        if self.engine > ENGINE:
            return f"needs engine {self.engine}; this one is {ENGINE}"
        if _release(self.least) > _release(__version__):
            return f"needs tracekit {self.least}; this one is {__version__}"
        if self.kind == "model" and self.feature_set not in known_feature_sets():
            return f"needs the feature set {self.feature_set!r}, which is not known here"
        return None


def known_feature_sets() -> set[str]:
    """Names of the feature sets that rows can be had in."""
    return {*feature_set_names(), FEATURE_SET}


def _release(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version)[:3])


def parse_entry(target: str, custom: Any) -> Entry:
    """An entry from what stands beside a target; raises FormatError."""
    if not isinstance(custom, dict):
        raise FormatError(f"{target[:80]!r}: says not what it is")
    texts = {k: custom.get(k, "") for k in ("kind", "name", "feature_set", "level", "least")}
    lists = {k: custom.get(k, []) for k in ("files", "designs")}
    if not all(isinstance(v, str) and v.isprintable() for v in texts.values()):
        raise FormatError(f"{target[:80]!r}: a text is not a printable string")
    for key, values in lists.items():
        if not isinstance(values, list) or not all(
            isinstance(v, str) and v.isprintable() for v in values
        ):
            raise FormatError(f"{target[:80]!r}: {key} is not a list of names")
    version, engine = custom.get("version"), custom.get("engine")
    for number in (version, engine):
        if type(number) is not int or not 1 <= number < 1 << 31:
            raise FormatError(f"{target[:80]!r}: version and engine are whole numbers from 1")
    entry = Entry(
        kind=texts["kind"],
        name=texts["name"],
        version=custom["version"],
        files=tuple(lists["files"]),
        designs=tuple(lists["designs"]),
        feature_set=texts["feature_set"],
        level=texts["level"],
        engine=custom["engine"],
        least=texts["least"],
    )
    first = KINDS.get(entry.kind)
    files = entry.files
    if first is None or not 0 < len(files) <= MAX_FILES or len(set(files)) != len(files):
        raise FormatError(f"{target[:80]!r}: is neither a model nor a machine")
    if files[0] != first or (entry.kind == "machine" and len(files) > 1):
        raise FormatError(f"{target[:80]!r}: its first file is not {first}")
    if not _RELEASE.fullmatch(entry.least):
        raise FormatError(f"{target[:80]!r}: least is no version")
    try:
        names = entry.targets()
    except UsageError as e:
        raise FormatError(f"{target[:80]!r}: {e.message}") from None
    if target != names[0]:
        raise FormatError(f"{target[:80]!r}: is {names[0]!r} by what it says")
    return entry


def entries_of(targets: Mapping[str, Any]) -> list[Entry]:
    """The entries among verified targets (name -> ``TargetFile``), by name and version.

    Raises FormatError where a target belongs to no entry, or an entry lacks one: a name like a
    path, or one that leads elsewhere, is such a target.
    """
    entries = [parse_entry(n, t.custom) for n, t in targets.items() if t.custom is not None]
    belonging = {n for e in entries for n in e.targets()}
    if missing := sorted(belonging - set(targets)):
        raise FormatError(f"{missing[0]!r} is named by its model and is no target")
    if strange := sorted(set(targets) - belonging):
        raise FormatError(f"{strange[0][:80]!r} is a target that no model names")
    for name, target in targets.items():
        if target.length > MAX_SIZE or "sha256" not in target.hashes:
            raise FormatError(f"{name[:80]!r} is larger than {MAX_SIZE} bytes, or has no SHA-256")
    return sorted(entries, key=lambda e: (e.name, e.version))


def newest(entries: Iterable[Entry], name: str) -> Entry | None:
    """The entry of that name with the largest version that can be used here."""
    return max(
        (e for e in entries if e.name == name and e.unusable() is None),
        key=lambda e: e.version,
        default=None,
    )
