"""A signed repository: what is published arrives; each attack on the way is refused, and changes
nothing."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("tuf", reason="needs the extra agent or hub")
pytest.importorskip("cryptography", reason="needs the extra agent or hub")

from tuf.api.metadata import Metadata, MetaFile, TargetFile

from tracekit.cli.main import main
from tracekit.errors import FormatError, TracekitError, UsageError
from tracekit.mixture import default_model_path
from tracekit.repository import ROLES, KeyFolder, ModelStore, Repository, read_key, read_keys
from tracekit.repository.fetching import check_place

MODEL = default_model_path("x86")
NAME = "mixture-x86"


class Place:
    """A publisher, its keys and a client that trusts it."""

    def __init__(self, folder: Path, now: datetime | None = None) -> None:
        self.folder, self.repository_folder = folder, folder / "r"
        with KeyFolder(folder / "keys", None) as keys:
            made = {
                r: [keys.make(f"{r}-{i}") for i in range(3 if r == "root" else 1)] for r in ROLES
            }
            keys.commit()
        thresholds = {r: 2 if r == "root" else 1 for r in ROLES}
        self.repository = Repository.create(self.repository_folder, made, thresholds, now=now)
        self.keys = read_keys([folder / "keys"])
        self.root = self.repository.root_file(1)

    def publish(self, **options: Any) -> None:
        self.repository.add(MODEL, name=NAME, **options)
        self.repository.sign(list(self.keys.values()))
        self.repository.publish(self.keys)

    def trusting(self) -> ModelStore:
        fingerprint = self.repository.fingerprint(1)
        return ModelStore.trust(
            self.root, fingerprint, str(self.repository_folder), self.folder / "s"
        )

    def key(self, role: str) -> Path:
        return self.folder / "keys" / f"{role}.pem"

    def metadata(self, name: str) -> Path:
        return self.repository_folder / "metadata" / name

    def target(self, file: str) -> Path:
        (found,) = (self.repository_folder / "targets").glob(f"*~{file}")
        return found


@pytest.fixture
def place(tmp_path: Path) -> Place:
    made = Place(tmp_path)
    made.publish()
    return made


def content(folder: Path) -> dict[str, bytes]:
    """Every file but TUF's own metadata: what use depends on."""
    return {
        p.relative_to(folder).as_posix(): p.read_bytes()
        for p in sorted(folder.rglob("*"))
        if p.is_file() and "metadata" not in p.parts
    }


def refused(store: ModelStore, match: str) -> None:
    """An update ends in one line that says why and has changed nothing; what is here works."""
    before = content(store.folder)
    with pytest.raises(TracekitError, match=match) as caught:
        store.update()
    assert "\n" not in str(caught.value)
    assert content(store.folder) == before
    if store.installed():
        store.model(NAME)


def test_a_model_arrives_and_is_newer_after_an_update(place: Place) -> None:
    store = place.trusting()
    assert store.entries() == []
    entry = store.get(NAME)
    path, _ = store.model(NAME)
    assert (path / "card.json").read_bytes() == (MODEL / "card.json").read_bytes()
    assert (entry.version, entry.feature_set) == (1, "simulated-cores-6")
    place.publish()
    assert store.update()["taken"] == [f"{NAME} 2"]
    assert store.model(NAME)[1].version == 2
    assert store.model(NAME, 1)[1].version == 1
    assert store.update() == {"taken": [], "withdrawn": [], "unusable": []}


def test_a_machine_arrives(place: Place, tmp_path: Path, golden: Path) -> None:
    from test_sim import MACHINE

    source = tmp_path / "tiny.json"
    source.write_text(json.dumps({**MACHINE, "name": "tiny"}))
    place.repository.add(source)
    place.repository.sign(list(place.keys.values()))
    place.repository.publish(place.keys)
    store = place.trusting()
    store.get("tiny")
    path, entry = store.model("tiny")
    assert entry.kind == "machine" and path.read_bytes() == source.read_bytes()


def test_the_first_trust_is_the_fingerprint(place: Place, tmp_path: Path) -> None:
    other = "0" * 64
    for wrong in (other, "", "xyz"):
        with pytest.raises(UsageError, match="fingerprint"):
            ModelStore.trust(place.root, wrong, str(place.repository_folder), tmp_path / "t")
    assert not (tmp_path / "t").exists()
    with pytest.raises(UsageError, match="https"):
        ModelStore.trust(
            place.root, place.repository.fingerprint(1), "http://far.example/r", tmp_path / "t"
        )
    store = place.trusting()
    (store.folder / "root.json").write_bytes(place.root.read_bytes() + b" ")
    refused(store, "not what was trusted")


def test_a_folder_s_name_may_have_any_letters(tmp_path: Path) -> None:
    folder = tmp_path / "my fleet 100% #1 ü"
    folder.mkdir()
    place = Place(folder)
    place.publish()
    store = place.trusting()
    assert store.get(NAME).version == 1
    url = place.repository_folder.absolute().as_uri()
    assert check_place(url) == check_place(str(place.repository_folder)) == url == store.place


@pytest.mark.parametrize("url", ["http://[::1", "https://h:99999999/r", "https://h:x/r"])
def test_what_is_no_url(place: Place, tmp_path: Path, url: str) -> None:
    with pytest.raises(UsageError, match="is no URL"):
        ModelStore.trust(place.root, place.repository.fingerprint(1), url, tmp_path / "t")


@pytest.mark.parametrize("needs", ["1", "3", "0.2.1.4", "0.2 ", "v0.2", ".", "0.2.99999"])
def test_what_no_reader_would_take_is_not_staged(place: Place, needs: str) -> None:
    with pytest.raises(UsageError, match="is no version of tracekit"):
        place.repository.add(MODEL, name=NAME, least=needs)
    assert place.repository.status()["staged"] == {}
    place.publish(least="0.2.0")


# ---- attacks


def test_rollback(place: Place, tmp_path: Path) -> None:
    old = tmp_path / "old"
    shutil.copytree(place.repository_folder / "metadata", old)
    place.publish()
    store = place.trusting()
    store.get(NAME)
    shutil.rmtree(place.repository_folder / "metadata")
    shutil.copytree(old, place.repository_folder / "metadata")
    refused(store, "version")
    assert store.model(NAME)[1].version == 2


def test_freeze(tmp_path: Path) -> None:
    """Metadata that were right once are shown for ever: they expire."""
    past = datetime.now(timezone.utc) - timedelta(days=8)  # the timestamp lives for 7
    frozen = Place(tmp_path, now=past)
    frozen.repository = Repository(frozen.repository_folder, now=past)
    frozen.publish()
    store = frozen.trusting()
    refused(store, "no updates: .*expired")
    assert store.entries() == []


@pytest.mark.parametrize(("role", "days"), [("targets", 180), ("root", 365)])
def test_what_keys_signed_expires(tmp_path: Path, role: str, days: int) -> None:
    """A role whose keys sign nothing any more, under a timestamp of today."""
    now = datetime.now(timezone.utc)
    old = Place(tmp_path, now=now - timedelta(days=days + 1))
    old.publish()
    store = old.trusting()
    late = Repository(old.repository_folder, now=now - timedelta(days=2))
    if role == "root":
        late.renew("targets")
        late.sign(list(old.keys.values()))
    late.publish(old.keys)
    refused(store, f"no updates: .*{role}.* expired|no updates: .*expired.*{role}")
    renewed = Repository(old.repository_folder, now=now - timedelta(days=2))
    renewed.renew(role)
    renewed.sign(list(old.keys.values()))
    renewed.publish(old.keys)
    assert store.update()["unusable"] == []
    assert [e.name for e in store.entries()] == [NAME]


def test_mix_and_match_of_targets(place: Place) -> None:
    """The new snapshot beside old targets."""
    store = place.trusting()
    store.get(NAME)
    place.publish()
    shutil.copy(place.metadata("2.targets.json"), place.metadata("3.targets.json"))
    refused(store, "refused")


def test_mix_and_match_of_the_snapshot(place: Place) -> None:
    """The new timestamp beside an old snapshot."""
    store = place.trusting()
    store.get(NAME)
    place.publish()
    shutil.copy(place.metadata("2.snapshot.json"), place.metadata("3.snapshot.json"))
    refused(store, "refused")


def test_wrong_hash(place: Place) -> None:
    store = place.trusting()
    victim = place.target("model.safetensors")
    data = bytearray(victim.read_bytes())
    data[len(data) // 2] ^= 1
    victim.write_bytes(data)
    with pytest.raises(TracekitError, match="refused"):
        store.get(NAME)
    assert store.installed() == [] and not list((store.folder / "models").glob("*"))


def test_endless_data(place: Place) -> None:
    store = place.trusting()
    with place.target("model.safetensors").open("ab") as f:
        f.write(b"\0" * 100_000)
    with pytest.raises(TracekitError, match="refused"):
        store.get(NAME)
    assert store.installed() == []
    place.metadata("timestamp.json").write_bytes(b"[" * 20_000)
    refused(store, "refused")


def forged(place: Place, role: str, name: str, change: Callable[[Any], None], key: str) -> None:
    """Metadata that somebody with ``key`` makes of what is published."""
    metadata: Metadata[Any] = Metadata.from_bytes(place.metadata(name).read_bytes())
    change(metadata.signed)
    metadata.signatures.clear()
    metadata.sign(read_key(place.key(key)))
    place.metadata(name).write_bytes(metadata.to_bytes())


def test_a_key_of_another_role_signs_nothing(place: Place) -> None:
    store = place.trusting()
    store.get(NAME)

    def later(signed: Any) -> None:
        signed.version += 1

    forged(place, "timestamp", "timestamp.json", later, "targets-0")
    refused(store, "refused")


def test_a_revoked_key_signs_nothing(place: Place, tmp_path: Path) -> None:
    store = place.trusting()
    store.get(NAME)
    old = place.keys[read_key(place.key("timestamp-0")).public_key.keyid].public_key.keyid
    with KeyFolder(tmp_path / "new", None) as keys:
        fresh = keys.make("timestamp-1")
        keys.commit()
    place.repository.rotate("timestamp", add=[fresh.public_key], remove=[old])
    place.repository.sign(list(place.keys.values()))
    with pytest.raises(UsageError, match="timestamp needs 1 of its keys; 0 are here"):
        place.repository.publish(place.keys)
    place.repository.publish({**place.keys, fresh.public_key.keyid: fresh})
    assert store.update()["taken"] == []

    def later(signed: Any) -> None:
        signed.version += 1

    forged(place, "timestamp", "timestamp.json", later, "timestamp-0")
    refused(store, "refused")


def test_a_root_is_signed_by_the_old_threshold(place: Place) -> None:
    store = place.trusting()
    store.get(NAME)
    place.repository.rotate("targets", threshold=1)
    (missing,) = {place.repository.sign([read_key(place.key("root-0"))])["root"]}
    assert missing == 1
    with pytest.raises(TracekitError, match=r"root 2 lacks 1 signature \("):
        place.repository.publish(place.keys)
    staged = place.repository_folder / "staged" / "root.json"
    shutil.copy(staged, place.metadata("2.root.json"))  # an attacker with one of three keys
    refused(store, "refused")


@pytest.mark.parametrize(
    "name",
    ["../evil~1~card.json", "/etc/x~1~card.json", "a/b~1~card.json", "x~1~../card.json", "..", "x"],
)
def test_a_target_s_name_is_never_a_path(place: Place, name: str) -> None:
    """Even somebody who has the keys of targets, snapshot and timestamp writes nowhere else."""
    store = place.trusting()
    store.get(NAME)
    data = b"{}"
    entry = {**place.repository.entries()[0].to_dict(), "files": ["card.json"]}
    if "~" in name:
        entry["name"], entry["files"] = name.split("~", 2)[0], [name.split("~", 2)[2]]

    def add(signed: Any) -> None:
        hashes = TargetFile.from_data(name, data).hashes
        signed.targets[name] = TargetFile(len(data), hashes, name, {"custom": entry})
        signed.version += 1

    newest = place.metadata("3.targets.json")
    shutil.copy(place.metadata("2.targets.json"), newest)
    forged(place, "targets", "3.targets.json", add, "targets-0")
    shutil.copy(place.metadata("2.snapshot.json"), place.metadata("3.snapshot.json"))

    def point(signed: Any) -> None:
        signed.version += 1
        if signed.type == "snapshot":
            signed.meta["targets.json"] = MetaFile.from_data(3, newest.read_bytes(), ["sha256"])
        else:
            snapshot = place.metadata("3.snapshot.json").read_bytes()
            signed.snapshot_meta = MetaFile.from_data(3, snapshot, ["sha256"])

    forged(place, "snapshot", "3.snapshot.json", point, "snapshot-0")
    forged(place, "timestamp", "timestamp.json", point, "timestamp-0")
    before = sorted(p for p in store.folder.parent.rglob("*evil*"))
    refused(
        store, "is no name|no file of a model|its first file|a target that no model|by what it says"
    )
    assert sorted(p for p in store.folder.parent.rglob("*evil*")) == before


def test_a_withdrawn_model_stops_with_the_next_update(place: Place) -> None:
    store = place.trusting()
    store.get(NAME)
    place.repository.withdraw(NAME, 1)
    place.repository.sign(list(place.keys.values()))
    place.repository.publish(place.keys)
    store.model(NAME)
    assert store.update()["withdrawn"] == [f"{NAME} 1"]
    with pytest.raises(TracekitError, match="not here, or was withdrawn"):
        store.model(NAME)
    with pytest.raises(TracekitError, match="offers no"):
        store.get(NAME)
    assert not list((place.repository_folder / "targets").glob("*~*"))
    with pytest.raises(UsageError, match="has version 1"):
        place.repository.add(MODEL, name=NAME, version=1)
    place.publish()
    assert store.get(NAME).version == 2


def test_what_cannot_be_used_is_not_taken(place: Place, tmp_path: Path) -> None:
    store = place.trusting()
    store.get(NAME)
    place.publish(least="99.0")
    changed = store.update()
    assert changed["taken"] == [] and changed["unusable"] == [f"{NAME} 2"]
    assert store.model(NAME)[1].version == 1
    with pytest.raises(TracekitError, match=r"needs tracekit 99\.0"):
        store.get(NAME, 2)
    other = tmp_path / "other"
    shutil.copytree(MODEL, other)
    card = json.loads((other / "card.json").read_text())
    card["features"]["set"] = "of-tomorrow"
    (other / "card.json").write_text(json.dumps(card))
    place.repository.add(other, name=NAME)
    place.repository.sign(list(place.keys.values()))
    place.repository.publish(place.keys)
    with pytest.raises(TracekitError, match="feature set 'of-tomorrow'"):
        store.get(NAME, 3)
    assert store.update()["unusable"] == [f"{NAME} 2", f"{NAME} 3"]


def test_verified_models_outlive_the_timestamp_for_a_while(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    store = place.trusting()
    store.get(NAME)
    now = datetime.now(timezone.utc)
    assert capsys.readouterr().err == ""
    last = now + timedelta(days=7 + 30)
    for days in (8, 36):
        later = ModelStore(store.folder, now=now + timedelta(days=days))
        later.model(NAME)
        said = capsys.readouterr().err
        assert "expired" in said and f"used until {last:%Y-%m-%d}" in said
    off = ModelStore(store.folder, now=now + timedelta(days=7 + 31))
    with pytest.raises(TracekitError, match="more than 30 days ago"):
        off.model(NAME)
    off.model(NAME, days_off=40)


def test_what_was_changed_here_is_not_used(place: Place) -> None:
    store = place.trusting()
    store.get(NAME)
    path, _ = store.model(NAME)
    with (path / "card.json").open("a") as f:
        f.write(" ")
    with pytest.raises(FormatError, match="not what was signed"):
        store.model(NAME)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("entries", 3.5),
        ("entries", [{"targets": ["m~1~card.json"]}]),
        ("expires", 7),
        ("hashes", 1),
    ],
)
def test_a_damaged_state_is_told_and_made_anew(place: Place, key: str, value: object) -> None:
    store = place.trusting()
    store.get(NAME)
    path = store.folder / "state.json"
    whole = json.loads(path.read_text())
    path.write_text(json.dumps({**whole, key: value}))
    with pytest.raises(FormatError, match=r"state\.json: is no state of a store"):
        store.model(NAME)
    store.update()
    assert json.loads(path.read_text()) == whole
    store.model(NAME)


def test_metadata_of_a_repository_that_cannot_be_signed(place: Place) -> None:
    path = place.metadata("timestamp.json")
    path.write_text(re.sub(r'"version": *\d+', '"version":1e999', path.read_text()))
    with pytest.raises(FormatError, match="is no metadata of TUF"):
        place.publish()


def test_keys_are_this_user_s_alone(tmp_path: Path) -> None:
    with KeyFolder(tmp_path / "k", b"open sesame") as keys:
        made = keys.make("root")
        keys.commit()
    path = tmp_path / "k" / "root.pem"
    assert path.stat().st_mode & 0o777 == 0o600
    assert b"ENCRYPTED" in path.read_bytes()
    assert read_key(path, b"open sesame").public_key.keyid == made.public_key.keyid
    with pytest.raises(UsageError, match="encrypted"):
        read_key(path)
    with pytest.raises(UsageError, match="passphrase"):
        read_key(path, b"wrong")
    path.chmod(0o640)
    with pytest.raises(TracekitError, match="others may read"):
        read_key(path, b"open sesame")
    path.chmod(0o600)
    path.write_bytes(b"-----BEGIN NOTHING-----\n")
    with pytest.raises(FormatError, match="no private key"):
        read_key(path)


def test_an_init_that_fails_leaves_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    os.chdir(tmp_path)
    assert main(["repo", "init", "r", "--keys", "k", "--days", "root=0"]) == 2
    assert not list(tmp_path.iterdir())
    assert main(["repo", "init", "r", "--keys", "k"]) == 0
    capsys.readouterr()
    for words in (("r", "--keys", "other"), ("other", "--keys", "k")):
        assert main(["repo", "init", *words]) == 1
        said = capsys.readouterr().err
        assert "exists already" in said and "--force" not in said
    assert {p.name for p in tmp_path.iterdir()} == {"r", "k"}


def test_the_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    os.chdir(tmp_path)

    def run(*args: str) -> dict[str, Any]:
        assert main([*args, "--json"]) == 0, capsys.readouterr().err
        return json.loads(capsys.readouterr().out)

    Path("word").write_text("open sesame\n")
    made = run("repo", "init", "r", "--keys", "k", "--passphrase-file", "word")
    run("repo", "add", "r", str(MODEL), "--name", NAME)
    assert main(["repo", "publish", "r", "--keys", "k"]) == 2
    assert "encrypted" in capsys.readouterr().err
    secret = ("--passphrase-file", "word")
    assert run("repo", "sign", "r", "--key", "k", *secret)["signatures_missing"] == {"targets": 0}
    assert run("repo", "publish", "r", "--keys", "k", *secret)["versions"]["targets"] == 2
    assert run("repo", "status", "r")["entries"][0]["name"] == NAME
    trust = ("models", "trust", made["root"], "--from", "r", "--store", "s")
    assert main([*trust, "--fingerprint", "0" * 64]) == 2
    capsys.readouterr()
    run(*trust, "--fingerprint", made["fingerprint"])
    assert run("models", "get", NAME, "--store", "s")["version"] == 1
    assert run("models", "list", "--store", "s")["entries"][0]["here"] is True
    assert run("models", "update", "--store", "s")["taken"] == []
    path = run("models", "path", NAME, "--store", "s")["path"]
    assert (Path(path) / "card.json").exists()
    assert run("repo", "renew", "r", "root")["staged"]["root"]["signatures_missing"] == 2
    run("repo", "withdraw", "r", NAME, "1")
    for action in ("get", "update", "path", "list"):
        words = [NAME] if action in ("get", "path") else []
        assert main(["models", action, *words, "--store", "nowhere"]) == 2
        assert "trusts no repository" in capsys.readouterr().err
