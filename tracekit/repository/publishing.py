"""The publisher's side: a folder of TUF metadata and targets, changed in two steps.

What root and targets are to say is *staged*, signed by as many keys as their thresholds ask for,
perhaps on several computers, and *published*: the new metadata, a snapshot of all of it, and last
the timestamp, with which clients begin.  A reader finds one whole state at every moment.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any, Final, TypeVar, cast

from securesystemslib.signer import CryptoSigner, SSlibKey
from tuf.api.exceptions import RepositoryError
from tuf.api.metadata import (
    Metadata,
    MetaFile,
    Root,
    Snapshot,
    TargetFile,
    Targets,
    Timestamp,
)
from tuf.api.serialization import DeserializationError, SerializationError

from tracekit.errors import FormatError, TracekitError, UsageError
from tracekit.io.files import read_json, read_limited
from tracekit.io.output import Folder, kept_folder, write_bytes
from tracekit.model import load_card, load_tensors
from tracekit.model.card import CARD
from tracekit.repository.entries import (
    KINDS,
    MAX_SIZE,
    Entry,
    check_name,
    check_release,
    entries_of,
    parse_entry,
    target_name,
)
from tracekit.repository.keys import check_new
from tracekit.sim import load_machine
from tracekit.text import counted

__all__ = ["DAYS", "ROLES", "Repository"]

ROLES: Final = ("root", "targets", "snapshot", "timestamp")
DAYS: Final = {"root": 365, "targets": 180, "snapshot": 30, "timestamp": 7}
"""After how many days each role's metadata expire, unless told."""
MAX_METADATA: Final = 5_000_000
SETTINGS: Final = "repository.json"
_NUMBERED: Final = re.compile(r"([1-9]\d{0,8})\.(root|targets|snapshot)\.json")
S = TypeVar("S", Root, Targets, Snapshot, Timestamp)


class Repository:
    """A repository's folder: ``metadata`` and ``targets``, which are served, and ``staged``, which
    is not.  ``now`` is the clock by which metadata expire, the computer's unless given."""

    def __init__(self, folder: str | Path, *, now: datetime | None = None) -> None:
        self.folder = Path(folder)
        self._metadata = self.folder / "metadata"
        self._targets = self.folder / "targets"
        self._staged = self.folder / "staged"
        self._now = now
        settings = read_json(self.folder / SETTINGS)
        days = settings.get("days") if isinstance(settings, dict) else None
        right = isinstance(days, dict) and set(days) == {*ROLES}
        if not right or not all(map(_is_days, (days or {}).values())):
            path = str(self.folder / SETTINGS)
            raise FormatError("days is not a number for each role", path=path)
        self.days: dict[str, int] = {**(days or {})}

    @staticmethod
    def create(
        folder: str | Path,
        keys: Mapping[str, Sequence[CryptoSigner]],
        thresholds: Mapping[str, int],
        days: Mapping[str, int] | None = None,
        *,
        now: datetime | None = None,
    ) -> Repository:
        """A new repository without models, published.  ``keys``: those of each role.  Raises
        TracekitError where the folder exists."""
        check_new(folder)
        days = {**DAYS, **(days or {})}
        if not all(map(_is_days, days.values())):
            raise UsageError("metadata expire after 1 to 3650 days")
        root = Root(consistent_snapshot=True, version=1)
        for role in ROLES:
            if not 0 < thresholds[role] <= len(keys[role]):
                raise UsageError(
                    f"{role}: a threshold of {thresholds[role]} of {len(keys[role])} keys"
                )
            for signer in keys[role]:
                root.add_key(signer.public_key, role)
            root.roles[role].threshold = thresholds[role]
        with Folder(folder) as new:
            text = json.dumps(
                {"format": "tracekit-repository", "version": 1, "days": days}, indent=1
            )
            new.add(Path(SETTINGS), text.encode())
            for inner in ("metadata", "targets", "staged"):
                with kept_folder(new.temporary / inner):
                    write_bytes(new.temporary / inner / ".keep", b"")
            made = Repository(new.temporary, now=now)
            made._stage("root", Metadata(root))
            made._stage("targets", Metadata(Targets(version=1)))
            signers = {s.public_key.keyid: s for role in ROLES for s in keys[role]}
            made.sign(list(signers.values()))
            made.publish(signers)
            new.commit()
        return Repository(folder, now=now)

    # ---- what stands there

    def fingerprint(self, version: int | None = None) -> str:
        """SHA-256 of a published root, the newest unless told: what users are given."""
        version = version or self._newest("root")
        return hashlib.sha256(read_limited(self.root_file(version), MAX_METADATA)).hexdigest()

    def root_file(self, version: int | None = None) -> Path:
        """The file of that root."""
        return self._metadata / f"{version or self._newest('root')}.root.json"

    def entries(self, *, staged: bool = False) -> list[Entry]:
        """The models and machines that are published, or that would be."""
        return entries_of(self._current("targets", staged).signed.targets)

    def status(self) -> dict[str, Any]:
        """Versions, expiry and keys of each role; signatures that what is staged has and needs."""
        roles: dict[str, Any] = {}
        root = cast(Root, self._current("root", False).signed)
        for role in ROLES:
            signed = self._current(role, False).signed
            wanted = root.roles[role]
            roles[role] = {
                "version": signed.version,
                "expires": signed.expires.isoformat(),
                "threshold": wanted.threshold,
                "keys": sorted(wanted.keyids),
            }
        staged = {}
        for role in ("root", "targets"):
            if (self._staged / f"{role}.json").exists():
                found = self._current(role, True)
                missing = self._missing(role, found)
                staged[role] = {"version": found.signed.version, "signatures_missing": missing}
        return {"fingerprint": self.fingerprint(), "roles": roles, "staged": staged}

    def _newest(self, role: str) -> int:
        versions = [
            int(m[1])
            for p in self._metadata.iterdir()
            if (m := _NUMBERED.fullmatch(p.name)) and m[2] == role
        ]
        if not versions:
            raise FormatError(f"has no {role} metadata", path=str(self.folder))
        return max(versions)

    def _current(self, role: str, staged: bool) -> Metadata[Any]:
        place = self._place(role, staged)
        try:
            found = Metadata.from_bytes(read_limited(place, MAX_METADATA))
            _ = found.signed_bytes  # of numbers that are not whole there are none
        except (DeserializationError, SerializationError, OverflowError):
            raise FormatError("is no metadata of TUF", path=str(place)) from None
        if found.signed.type != role:
            raise FormatError(f"is {found.signed.type} metadata", path=str(place))
        return found

    # ---- staging

    def add(
        self,
        source: str | Path,
        *,
        name: str | None = None,
        version: int | None = None,
        least: str | None = None,
    ) -> Entry:
        """Stage a model folder, or a machine's JSON, as a new version.

        ``name``: the card's own unless given; ``version``: one more than the last; ``least``: the
        tracekit that readers need.  Raises FormatError where it is neither, or where a reader would
        refuse what stands beside it, and UsageError where ``least`` is no version.
        """
        if least is not None:
            check_release(least)
        source = Path(source)
        with self._alone():
            targets = cast(Targets, self._current("targets", True).signed)
            entry, files = _described(source, name, least)
            last = max(
                (e.version for e in entries_of(targets.targets) if e.name == entry.name), default=0
            )
            highest = max(last, self._withdrawn(entry.name))
            version = highest + 1 if version is None else version
            if version <= highest:
                raise UsageError(f"{entry.name} has version {highest}; a new one is larger")
            entry = _with_version(entry, version)
            custom = entry.to_dict()
            parse_entry(entry.targets()[0], custom)  # no later command could undo it
            for file, target in zip(entry.files, entry.targets(), strict=True):
                data = read_limited(files[file], MAX_SIZE)
                digest = hashlib.sha256(data).hexdigest()
                write_bytes(self._targets / f"{digest}.{target}", data, force=True)
                extra = {"custom": custom} if file == entry.files[0] else {}
                targets.targets[target] = TargetFile(len(data), {"sha256": digest}, target, extra)
            self._stage_targets(targets)
        return entry

    def withdraw(self, name: str, version: int) -> Entry:
        """Stage its removal: clients stop using it with their next update."""
        with self._alone():
            targets = cast(Targets, self._current("targets", True).signed)
            found = [
                e for e in entries_of(targets.targets) if (e.name, e.version) == (name, version)
            ]
            if not found:
                raise UsageError(f"no version {version} of {name} is in the repository")
            for target in found[0].targets():
                del targets.targets[target]
            past = targets.unrecognized_fields.setdefault("x-tracekit-last", {})
            past[name] = max(version, self._withdrawn(name))
            self._stage_targets(targets)
        return found[0]

    def _withdrawn(self, name: str) -> int:
        """The largest version that was withdrawn: no number is given twice."""
        targets = self._current("targets", True).signed
        past = targets.unrecognized_fields.get("x-tracekit-last", {})
        found = past.get(name, 0) if isinstance(past, dict) else 0
        return found if type(found) is int else 0

    def rotate(
        self,
        role: str,
        *,
        add: Sequence[SSlibKey] = (),
        remove: Sequence[str] = (),
        threshold: int | None = None,
    ) -> None:
        """Stage a root with other keys of a role.  Of targets, what they said is to be signed anew,
        too; a new root is signed by the old root's keys and by the new one's."""
        with self._alone():
            root = cast(Root, self._current("root", True).signed)
            for key in add:
                root.add_key(key, role)
            for keyid in remove:
                try:
                    root.revoke_key(keyid, role)
                except ValueError:
                    raise UsageError(f"{keyid[:80]} is no key of {role}") from None
            count = len(root.roles[role].keyids)
            wanted = root.roles[role].threshold if threshold is None else threshold
            if not 0 < wanted <= count:
                raise UsageError(f"{role}: a threshold of {wanted} of {count} keys")
            root.roles[role].threshold = wanted
            self._stage_root(root)
            if role == "targets":
                self._stage_targets(cast(Targets, self._current("targets", True).signed))

    def renew(self, role: str) -> None:
        """Stage root or targets once more, with a new date of expiry."""
        with self._alone():
            if role == "root":
                self._stage_root(cast(Root, self._current("root", True).signed))
            else:
                self._stage_targets(cast(Targets, self._current("targets", True).signed))

    def _stage_root(self, root: Root) -> None:
        root.version = self._newest("root") + 1
        self._stage("root", Metadata(root))

    def _stage_targets(self, targets: Targets) -> None:
        targets.version = self._newest("targets") + 1
        self._stage("targets", Metadata(targets))

    def _stage(self, role: str, metadata: Metadata[Any]) -> None:
        metadata.signed.expires = self._expiry(role)
        write_bytes(self._staged / f"{role}.json", metadata.to_bytes(), force=True)

    def _expiry(self, role: str) -> datetime:
        return (self._clock() + timedelta(days=self.days[role])).replace(microsecond=0)

    def _clock(self) -> datetime:
        return self._now or datetime.now(timezone.utc)

    # ---- signing and publishing

    def sign(self, signers: Sequence[CryptoSigner]) -> dict[str, int]:
        """Sign what is staged with those of the keys that are its roles'; per role the signatures
        that are missing then.  Raises UsageError where nothing is staged or no key is of use."""
        with self._alone():
            missing, used = {}, 0
            for role in ("root", "targets"):
                if not (self._staged / f"{role}.json").exists():
                    continue
                found = self._current(role, True)
                allowed = set(cast(Root, self._current("root", True).signed).roles[role].keyids)
                if role == "root" and found.signed.version > 1:
                    allowed |= set(self._current("root", False).signed.roles["root"].keyids)
                for signer in signers:
                    if signer.public_key.keyid in allowed:
                        found.sign(signer, append=True)
                        used += 1
                write_bytes(self._staged / f"{role}.json", found.to_bytes(), force=True)
                missing[role] = self._missing(role, found)
            if not missing:
                raise UsageError("nothing is staged", path=str(self.folder))
            if not used:
                raise UsageError("none of the keys is one of what is staged", path=str(self.folder))
        return missing

    def _missing(self, role: str, found: Metadata[Any]) -> int:
        """Signatures that it lacks."""
        root = cast(Root, self._current("root", True).signed)
        results = [root.get_verification_result(role, found.signed_bytes, found.signatures)]
        if role == "root" and found.signed.version > 1:
            before = cast(Root, self._current("root", False).signed)
            results.append(
                before.get_verification_result(role, found.signed_bytes, found.signatures)
            )
        return max(int(r.missing) for r in results)

    def publish(self, signers: Mapping[str, CryptoSigner]) -> dict[str, int]:
        """Publish what is staged, if anything, under a new snapshot and timestamp, signed by those
        of ``signers`` that are those roles'; the version of each role.

        Raises TracekitError where signatures are missing or what would be published has expired;
        nothing that is served has changed then.
        """
        with self._alone():
            roles: dict[str, Metadata[Any]] = {}
            for role in ("root", "targets"):
                roles[role] = self._current(role, True)
                if missing := self._missing(role, roles[role]):
                    raise TracekitError(
                        f"{role} {roles[role].signed.version} lacks "
                        f"{counted(missing, 'signature')}",
                        path=str(self.folder),
                        hint=f"tracekit repo sign {self.folder} --key FILE",
                    )
                if roles[role].signed.is_expired(self._clock()):
                    raise TracekitError(
                        f"{role} expired on {roles[role].signed.expires:%Y-%m-%d}",
                        path=str(self.folder),
                        hint=f"tracekit repo renew {self.folder} {role}",
                    )
            entries_of(roles["targets"].signed.targets)
            self._check_targets(roles["targets"].signed)
            version = roles["targets"].signed.version
            meta = {"targets.json": MetaFile.from_data(version, self._bytes("targets"), ["sha256"])}
            snapshot = Metadata(Snapshot(version=self._next("snapshot"), meta=meta))
            self._sign_with(snapshot, "snapshot", signers, roles["root"].signed)
            about = MetaFile.from_data(snapshot.signed.version, snapshot.to_bytes(), ["sha256"])
            timestamp = Metadata(Timestamp(version=self._next("timestamp"), snapshot_meta=about))
            self._sign_with(timestamp, "timestamp", signers, roles["root"].signed)
            done = {**roles, "snapshot": snapshot, "timestamp": timestamp}
            data = {role: self._bytes(role) for role in roles}
            data |= {"snapshot": snapshot.to_bytes(), "timestamp": timestamp.to_bytes()}
            for role, metadata in done.items():
                numbered = f"{metadata.signed.version}.{role}.json"
                name = "timestamp.json" if role == "timestamp" else numbered
                write_bytes(self._metadata / name, data[role], force=True)
            for role in roles:
                (self._staged / f"{role}.json").unlink(missing_ok=True)
            self._tidy(roles["targets"].signed)
        return {role: m.signed.version for role, m in done.items()}

    def _place(self, role: str, staged: bool) -> Path:
        place = self._staged / f"{role}.json"
        if staged and place.exists():
            return place
        name = f"{role}.json" if role == "timestamp" else f"{self._newest(role)}.{role}.json"
        return self._metadata / name

    def _bytes(self, role: str) -> bytes:
        return read_limited(self._place(role, True), MAX_METADATA)

    def _tidy(self, targets: Targets) -> None:
        """Files of targets that were withdrawn are served no more."""
        kept = {f"{t.hashes['sha256']}.{n}" for n, t in targets.targets.items()}
        for place in self._targets.iterdir():
            if "~" in place.name and place.name not in kept and not place.name.startswith("."):
                place.unlink(missing_ok=True)

    def _next(self, role: str) -> int:
        try:
            return int(self._current(role, False).signed.version) + 1
        except FormatError:
            if any(p.name.endswith("timestamp.json") for p in self._metadata.iterdir()):
                raise
            return 1

    def _sign_with(
        self, metadata: Metadata[Any], role: str, signers: Mapping[str, CryptoSigner], root: Root
    ) -> None:
        metadata.signed.expires = self._expiry(role)
        for keyid in root.roles[role].keyids:
            if keyid in signers:
                metadata.sign(signers[keyid], append=True)
        wanted = root.roles[role].threshold
        if (count := len(metadata.signatures)) < wanted:
            raise UsageError(
                f"{role} needs {wanted} of its keys; {count} are here", hint="--keys DIR"
            )

    def _check_targets(self, targets: Targets) -> None:
        for name, target in targets.targets.items():
            place = self._targets / f"{target.hashes['sha256']}.{name}"
            try:
                target.verify_length_and_hashes(read_limited(place, MAX_SIZE))
            except RepositoryError:
                raise FormatError("is not what was added", path=str(place)) from None

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """Waits until no other process changes the repository."""
        fd = os.open(self._metadata, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            yield
        finally:
            os.close(fd)


def _is_days(value: Any) -> bool:
    return type(value) is int and 1 <= value <= 3650


def _with_version(entry: Entry, version: int) -> Entry:
    return replace(entry, version=version)


def _described(source: Path, name: str | None, least: str | None) -> tuple[Entry, dict[str, Path]]:
    """The entry, without its version, and where its files are."""
    if not source.is_dir():
        machine = load_machine(source)
        chosen = check_name(name or str(machine["name"]))
        designs = (str(machine["name"]),)
        file = KINDS["machine"]
        entry = Entry("machine", chosen, 1, (file,), designs)
        return entry if least is None else replace(entry, least=least), {file: source}
    card = load_card(source)
    load_tensors(source, card)
    files = {CARD: source / CARD, **{f: source / f for f in sorted(card.files)}}
    for file in files:
        target_name("x", 1, file)
    entry = Entry(
        "model",
        check_name(name or card.name),
        1,
        tuple(files),
        tuple(str(m.get("name", "")) for m in card.microarchitectures),
        feature_set=card.feature_set,
        level=card.level,
    )
    return entry if least is None else replace(entry, least=least), files
