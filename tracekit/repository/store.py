"""The user's side: what a repository offers, checked by TUF's client, and the models taken from it.

A store is a folder: ``trust.json`` and ``root.json`` (what the user trusted), ``metadata`` (TUF's),
``state.json`` (what the last update that was right in everything said) and ``models``, a folder
each.  An update that is refused changes none of the last two.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any, Final, NoReturn

from tuf.api.exceptions import (
    DownloadError,
    DownloadLengthMismatchError,
    ExpiredMetadataError,
    LengthOrHashMismatchError,
    RepositoryError,
)
from tuf.api.metadata import Metadata, Root, Targets, Timestamp
from tuf.api.serialization import DeserializationError
from tuf.ngclient import Updater, UpdaterConfig

from tracekit.errors import FormatError, TracekitError, UsageError
from tracekit.io.files import read_json, read_limited
from tracekit.io.output import Folder, kept_folder, write_json
from tracekit.model import load_card, load_tensors
from tracekit.repository.entries import MAX_SIZE, Entry, entries_of, newest, parse_entry
from tracekit.repository.fetching import Fetcher, check_place
from tracekit.sim import load_machine
from tracekit.text import note

__all__ = ["ModelStore", "default_store"]

MAX_ROOT: Final = 512_000
DAYS_OFF: Final = 30
"""Days behind the repository's expiry after which its models are not used, unless told."""


def default_store() -> Path:
    """Where models go unless told: ``$XDG_DATA_HOME/tracekit/models``."""
    base = os.environ.get("XDG_DATA_HOME") or str(Path.home() / ".local" / "share")
    return Path(base) / "tracekit" / "models"


class ModelStore:
    """Models and machines of one repository on this computer.  ``now``: the clock by which use
    ends, the computer's unless given; TUF's client has its own."""

    def __init__(self, folder: str | Path | None = None, *, now: datetime | None = None) -> None:
        self.folder = default_store() if folder is None else Path(folder)
        self._models = self.folder / "models"
        self._now = now
        if not (self.folder / "trust.json").exists():
            raise UsageError(
                "trusts no repository",
                path=str(self.folder),
                hint="tracekit models trust ROOT.json",
            )
        trust = read_json(self.folder / "trust.json")
        values = [trust.get(k) for k in ("place", "fingerprint")] if isinstance(trust, dict) else []
        if len(values) != 2 or not all(isinstance(v, str) for v in values):
            raise FormatError("says not what is trusted", path=str(self.folder / "trust.json"))
        self.place: str = check_place(trust["place"])
        self.fingerprint: str = trust["fingerprint"]
        authority = trust.get("authority")
        self._authority = authority if isinstance(authority, str) else None

    @staticmethod
    def trust(
        root: str | Path,
        fingerprint: str,
        place: str,
        folder: str | Path | None = None,
        *,
        authority: str | None = None,
        force: bool = False,
    ) -> ModelStore:
        """A store that trusts the root metadata in the file ``root``, whose SHA-256 must be
        ``fingerprint``: what the user was told in another way.

        Raises UsageError where it is not.  ``force`` replaces a store, with its models.
        """
        folder = default_store() if folder is None else Path(folder)
        wanted = fingerprint.replace(":", "").replace(" ", "").lower()
        if len(wanted) != 64 or not set(wanted) <= set("0123456789abcdef"):
            raise UsageError("a fingerprint is a SHA-256: 64 hexadecimal digits")
        data = read_limited(root, MAX_ROOT)
        found = hashlib.sha256(data).hexdigest()
        if found != wanted:
            raise UsageError(
                f"its fingerprint is {found}, not the one that was given", path=str(root)
            )
        try:
            metadata = Metadata[Root].from_bytes(data)
            metadata.verify_delegate(Root.type, metadata)
        except (RepositoryError, DeserializationError, ValueError) as e:
            raise FormatError(f"is no root metadata: {e}", path=str(root)) from None
        trusted = {"place": check_place(place), "fingerprint": found}
        if authority is not None:
            trusted["authority"] = str(Path(authority).absolute())
        with kept_folder(folder.parent), Folder(folder, force=force, mode=0o700) as new:
            new.add(Path("trust.json"), (json.dumps(trusted, indent=1) + "\n").encode())
            new.add(Path("root.json"), data)
            new.commit()
        return ModelStore(folder)

    # ---- what is here

    def entries(self) -> list[Entry]:
        """What the repository offered at the last update; none before the first one."""
        with self._told():
            entries = self._state().get("entries", [])
            return [parse_entry(e["targets"][0], e["entry"]) for e in entries]

    def installed(self) -> list[Entry]:
        """Those of them that are here."""
        return [e for e in self.entries() if self._place(e).is_dir()]

    def expires(self) -> datetime | None:
        """When what the last update said expires; None before the first one."""
        with self._told():
            text = self._state().get("expires")
            return None if text is None else datetime.fromisoformat(text).astimezone(timezone.utc)

    def model(
        self, name: str, version: int | None = None, *, days_off: int = DAYS_OFF
    ) -> tuple[Path, Entry]:
        """The folder of a model, or the file of a machine, that may be used, each file checked
        against its signed hash: of that version, or of the newest one that is here.

        Warns where the repository's metadata have expired, and raises TracekitError ``days_off``
        days later; also where it is not here, was withdrawn, cannot be used by this tracekit, or
        is not what was signed.
        """
        here = [e for e in self.installed() if e.name == name and version in (None, e.version)]
        if not here:
            named = name if version is None else f"{name} {version}"
            raise TracekitError(
                f"{named} is not here, or was withdrawn",
                path=str(self.folder),
                hint=f"tracekit models get {name}",
            )
        entry = max(here, key=lambda e: e.version)
        if (why := entry.unusable()) is not None:
            raise TracekitError(f"{entry.name} {entry.version} {why}", path=str(self.folder))
        self._check_age(days_off)
        place = self._place(entry)
        signed = self._state()["hashes"]
        for file, target in zip(entry.files, entry.targets(), strict=True):
            digest = hashlib.sha256(read_limited(place / file, MAX_SIZE)).hexdigest()
            if digest != signed.get(target):
                raise FormatError("is not what was signed", path=str(place / file))
        return (place if entry.kind == "model" else place / entry.files[0]), entry

    def _check_age(self, days_off: int) -> None:
        expires = self.expires()
        now = self._now or datetime.now(timezone.utc)
        if expires is None or now <= expires:
            return
        what = f"its repository's metadata expired on {expires:%Y-%m-%d}"
        end = expires + timedelta(days=days_off)
        if now > end:
            raise TracekitError(
                f"{what}, more than {days_off} days ago",
                path=str(self.folder),
                hint="tracekit models update",
            )
        note(f"{self.folder}: {what}: no updates; its models are used until {end:%Y-%m-%d}")

    def _place(self, entry: Entry) -> Path:
        return self._models / f"{entry.name}~{entry.version}"

    def _state(self) -> dict[str, Any]:
        path = self.folder / "state.json"
        if not path.exists():
            return {}
        with self._told():
            state = read_json(path)
            if not isinstance(state, dict) or not isinstance(state.get("hashes"), dict):
                raise TypeError
            return state

    @contextlib.contextmanager
    def _told(self) -> Iterator[None]:
        """A state that is damaged as one line; the next update makes it anew."""
        try:
            yield
        except (FormatError, LookupError, TypeError, ValueError, OverflowError):
            raise FormatError(
                "is no state of a store",
                path=str(self.folder / "state.json"),
                hint="tracekit models update makes it anew",
            ) from None

    # ---- taking from the repository

    def update(self) -> dict[str, list[str]]:
        """Ask the repository what it offers; newer versions of what is here are taken, what was
        withdrawn goes.  What was ``taken``, ``withdrawn`` and ``unusable``, each as "NAME VERSION".

        Raises TracekitError where anything is not as it was signed, or has expired; nothing has
        changed then.
        """
        with self._alone():
            before: list[Entry] | None = None
            with contextlib.suppress(FormatError):
                before = self.installed()
            updater = self._refreshed()
            now = self.entries()
            if before is None:  # the state was damaged
                before = self.installed()
            taken, unusable = [], []
            for name in sorted({e.name for e in before}):
                best = newest(now, name)
                if best is not None and not self._place(best).is_dir():
                    self._take(updater, best)
                    taken.append(best)
                unusable += [e for e in now if e.name == name and e.unusable() is not None]
            gone = [e for e in before if e not in now]
            self._remove_withdrawn(now)
        return {
            "taken": [f"{e.name} {e.version}" for e in taken],
            "withdrawn": [f"{e.name} {e.version}" for e in gone],
            "unusable": [f"{e.name} {e.version}" for e in unusable],
        }

    def get(self, name: str, version: int | None = None) -> Entry:
        """Take a model or machine: that version, or the newest that this tracekit can use.

        Raises TracekitError as `update`, and where there is none or it cannot be used.
        """
        with self._alone():
            updater = self._refreshed()
            offered = [e for e in self.entries() if e.name == name and version in (None, e.version)]
            if not offered:
                raise TracekitError(
                    f"offers no {name}{f' {version}' if version else ''}", path=self.place
                )
            entry = newest(offered, name)
            if entry is None:
                last = offered[-1]
                raise TracekitError(f"{name} {last.version} {last.unusable()}", path=self.place)
            if not self._place(entry).is_dir():
                self._take(updater, entry)
            self._remove_withdrawn(self.entries())
        return entry

    def _refreshed(self) -> Updater:
        """A client whose metadata are of this moment, and the state that follows from them."""
        root = read_limited(self.folder / "root.json", MAX_ROOT)
        if hashlib.sha256(root).hexdigest() != self.fingerprint:
            raise FormatError("is not what was trusted", path=str(self.folder / "root.json"))
        metadata = self.folder / "metadata"
        with self._refusals(), kept_folder(metadata):
            for left in metadata.glob("tmp*"):  # TUF's client's own, of a run that was killed
                left.unlink(missing_ok=True)
            updater = Updater(
                str(metadata),
                f"{self.place}/metadata/",
                target_base_url=f"{self.place}/targets/",
                fetcher=Fetcher(self.place, self._authority),
                config=UpdaterConfig(max_delegations=0),
                bootstrap=root,
            )
            updater.refresh()
            targets = Metadata[Targets].from_file(str(metadata / "targets.json")).signed
            timestamp = Metadata[Timestamp].from_file(str(metadata / "timestamp.json")).signed
        try:
            entries = entries_of(targets.targets)
        except FormatError as e:
            raise FormatError(e.message, path=self.place) from None
        state = {
            "expires": timestamp.expires.isoformat(),
            "timestamp": timestamp.version,
            "targets": targets.version,
            "entries": [{"targets": e.targets(), "entry": e.to_dict()} for e in entries],
            "hashes": {n: t.hashes["sha256"] for n, t in targets.targets.items()},
        }
        write_json(self.folder / "state.json", state, force=True)
        return updater

    def _take(self, updater: Updater, entry: Entry) -> None:
        """Its files into a folder of their own, which is there whole or not at all."""
        with kept_folder(self._models), Folder(self._place(entry)) as new:
            with self._refusals():
                for file, target in zip(entry.files, entry.targets(), strict=True):
                    info = updater.get_targetinfo(target)
                    assert info is not None
                    updater.download_target(info, str(new.temporary / file))
            _sync(new.temporary, entry.files)
            if entry.kind == "machine":
                load_machine(new.temporary / entry.files[0])
            else:
                load_tensors(new.temporary, load_card(new.temporary))
            new.commit()

    def _remove_withdrawn(self, now: list[Entry]) -> None:
        kept = {self._place(e) for e in now}
        if self._models.is_dir():
            for place in self._models.iterdir():
                if "~" in place.name and not place.name.startswith(".") and place not in kept:
                    shutil.rmtree(place, ignore_errors=True)

    @contextlib.contextmanager
    def _refusals(self) -> Iterator[None]:
        """TUF's errors as one line each."""
        try:
            yield
        except ExpiredMetadataError as e:
            self._refused(f"no updates: {e}", "what is here stays in use for a while")
        except (DownloadLengthMismatchError, LengthOrHashMismatchError) as e:
            self._refused(f"refused: {e}", None)
        except DownloadError as e:
            raise TracekitError(str(e), hint="nothing has changed") from None
        except RepositoryError as e:
            self._refused(f"refused: {e}", None)
        except DeserializationError as e:
            self._refused(f"refused: no metadata of TUF: {e}", None)

    def _refused(self, message: str, hint: str | None) -> NoReturn:
        raise TracekitError(message, path=self.place, hint=hint) from None

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """Waits until no other process changes the store."""
        fd = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            yield
        finally:
            os.close(fd)


def _sync(folder: Path, files: tuple[str, ...]) -> None:
    """Files that another package wrote outlast a power failure."""
    for file in files:
        fd = os.open(folder / file, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
