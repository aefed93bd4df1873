"""What users hold from version 0.1 is read, with one line of warning: options, model folders; and
docs/json.md has the keys of JSON that changed."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import synthetic
from test_names import TABLE
from test_sim import MACHINE

import tracekit
from tracekit import old_names
from tracekit.cli.main import create_parser, main
from tracekit.errors import UsageError
from tracekit.mixture.model import default_model_path, load_model
from tracekit.model import Card, load_card, save_model
from tracekit.model.card import CARD
from tracekit.neuroscalar import instructions, presets
from tracekit.neuroscalar.model import CycleModel
from tracekit.old_names import OldNameWarning

ROOT = Path(__file__).resolve().parent.parent
FEATS = ROOT / "tests" / "golden" / "feats-v1.zst"
#: How version 0.1 wrote them.
BEFORE = {
    "simulated_cores": "reference_cores",
    "simulated-cores-6": "reference-cores-3",
    "core-timing-6": "core-timing-3",
    "commit_slack": "margin",
    "dispatch_gap": "gap",
    "issue_delay": "wait",
}


def write_old(folder: Path) -> None:
    """The card of a folder as version 0.1 wrote it."""
    text = (folder / CARD).read_text(encoding="utf-8")
    old = re.sub("|".join(BEFORE), lambda m: BEFORE[m[0]], text)
    assert old != text
    (folder / CARD).write_text(old, encoding="utf-8")


def neuroscalar_model(folder: Path) -> None:
    machines = [{**MACHINE, "name": n, "width": w} for n, w in (("a", 2), ("b.gap", 4))]
    names = [str(m["name"]) for m in machines]
    spec = presets.default_spec(names, 8, with_history=False)
    random = np.random.default_rng(1)
    weights = {
        name: random.normal(0, 0.1, shape).astype(np.float32)
        for name, shape in spec.tensors().items()
    }
    card = Card(
        "of 0.1",
        spec,
        instructions.columns(names),
        feature_set=instructions.FEATURE_SET,
        level="macro",
        microarchitectures=[{"name": n, "parameters": {}} for n in names],
        extra={"simulated_cores": machines, "history": False},
    )
    save_model(folder, card, weights)


def test_a_neuroscalar_folder_of_0_1_opens(tmp_path: Path) -> None:
    pytest.importorskip("tracekit.infer")
    source, feats = tmp_path / "t.txt", tmp_path / "t.zst"
    source.write_text(synthetic.text(3, 400, blocks=False))
    tracekit.extract(str(source), str(feats))
    neuroscalar_model(tmp_path / "m")
    shutil.copytree(tmp_path / "m", tmp_path / "old")
    write_old(tmp_path / "old")
    assert '"b.gap.margin"' in (tmp_path / "old" / CARD).read_text()
    with pytest.warns(OldNameWarning, match=r"old/card\.json: a model of version 0\.1") as seen:
        old = CycleModel(tmp_path / "old", device="cpu", dtype="f32", threads=1)
    assert len({str(w.message) for w in seen}) == 1
    new = CycleModel(tmp_path / "m", device="cpu", dtype="f32", threads=1)
    assert old.card == new.card  # the files' hashes, too
    with tracekit.open(str(feats)) as trace:
        for name, values in old.predict(trace).items():
            np.testing.assert_array_equal(values, new.predict(trace)[name])
            assert len(values)


@pytest.mark.parametrize("arch", ["arm", "x86"])
def test_a_mixture_folder_of_0_1_opens(arch: str, tmp_path: Path) -> None:
    shutil.copytree(default_model_path(arch), tmp_path / "old")
    write_old(tmp_path / "old")
    with pytest.warns(OldNameWarning):
        old = load_model(tmp_path / "old")
    new = load_model(None, arch)
    assert old.cores == new.cores and old.machines == new.machines
    np.testing.assert_array_equal(old.table, new.table)
    with pytest.warns(OldNameWarning):  # what is written has the new names
        assert (
            load_card(tmp_path / "old").to_dict() == load_card(default_model_path(arch)).to_dict()
        )


def test_an_older_model_of_x86_micro_ops_is_refused(tmp_path: Path) -> None:
    """Its table belongs to cores that took halves of vector registers for one."""
    folder = shutil.copytree(default_model_path("x86"), tmp_path / "old")
    card = json.loads((folder / CARD).read_text())
    card["features"].update(set="simulated-cores-3", level="micro")
    (folder / CARD).write_text(json.dumps(card))
    with pytest.raises(UsageError, match=r"simulated-cores-3.*train it again"):
        load_model(folder)
    card["features"]["level"] = "macro"
    (folder / CARD).write_text(json.dumps(card))
    with pytest.warns(OldNameWarning):
        assert load_model(folder).level == "macro"


def test_columns_of_other_feature_sets_keep_their_names() -> None:
    card: dict[str, Any] = {
        "features": {"set": "mine", "columns": ["a.gap", "wait"]},
        "spec": {"inputs": [{"column": "a.gap"}]},
    }
    assert old_names.current_card(card, "card.json") == card


def test_the_old_option_is_the_new_one() -> None:
    name = "cross-validate"
    with pytest.warns(OldNameWarning, match=r"--drawn: the option is --random-designs"):
        now = old_names.current_arguments(name, [name, "m.json", "--drawn", "7"])
    assert create_parser(name).parse_args(now).random_designs == 7
    with pytest.warns(OldNameWarning):
        now = old_names.current_arguments(name, [name, "m.json", "--drawn=8"])
    assert create_parser(name).parse_args(now).random_designs == 8
    for command, arguments in ((name, ["--", "--drawn"]), ("predict", ["--drawn", "7"])):
        assert old_names.current_arguments(command, arguments) == arguments


@pytest.mark.parametrize(
    ("was", "now"),
    [
        ("tune a.zst b.zst --suggest 1", "suggest a.zst b.zst --count 1"),
        ("tune --suggest=1 a.zst b.zst", "suggest --count=1 a.zst b.zst"),
        ("tune a.zst=c.npy b.zst --suggest 1", "suggest a.zst b.zst --count 1"),
        ("tune --measure m.json --name n -o o", "measure m.json --name n -o o"),
        ("tune --measure=m.json --name n -o o", "measure m.json --name n -o o"),
        ("evaluate m.json --folds 3", "cross-validate m.json --folds 3"),
        ("evaluate m.json --drawn 3", "cross-validate m.json --random-designs 3"),
        ("evaluate m.json --trained a b", "evaluate m.json --model a b"),
        ("report f.zst --machines a b -o r", "report f.zst --machine a b -o r"),
        ("explain f.zst --machines=a", "explain f.zst --machine=a"),
    ],
)
def test_an_old_command_is_the_new_one(was: str, now: str) -> None:
    with pytest.warns(OldNameWarning) as seen:
        command, arguments = old_names.current_command(was.split()[0], was.split())
        arguments = old_names.current_arguments(command, arguments)
    assert " ".join(arguments) == now and command == arguments[0]
    assert create_parser(command).parse_args(arguments).command == command
    assert len(seen) == 1 + ("--drawn" in was)


@pytest.mark.parametrize(
    "arguments",
    ["tune a.zst --name n -o o", "evaluate m.json --model a", "evaluate --help", "tune -h"],
)
def test_a_command_that_is_none_of_the_old_ones_stays(arguments: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert old_names.current_command(arguments.split()[0], arguments.split()) == (
            arguments.split()[0],
            arguments.split(),
        )


def test_a_features_bits_in_the_string_language(tmp_path: Path) -> None:
    with pytest.warns(OldNameWarning, match=r"bits=\(22, 22\)"):
        old = tracekit.Feature("a", column="addr>>22&22")
    assert old == tracekit.Feature("a", column="addr", bits=(22, 22))
    for wrong in ({"column": "pc"}, {"column": "addr", "bits": (0, 25)}, {"static": len}):
        with pytest.raises(UsageError):
            tracekit.Feature("a", **{"bits": (50, 20), **wrong})


def test_a_user_sees_one_line(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tracekit", "cross-validate", "missing.json", "--drawn", "3"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    first, second = done.stderr.splitlines()
    assert first == (
        "tracekit: --drawn: the option is --random-designs; version 0.4 will not read the old names"
    )
    assert second.startswith("tracekit: missing.json") and done.returncode == 1


def test_every_name_that_users_hold_is_read_or_in_the_table_of_keys() -> None:
    page = (ROOT / "docs" / "json.md").read_text(encoding="utf-8")
    rows = {tuple(re.findall(r"`([\w-]+)`", r)[-2:]) for r in page.split("\n") if r[:1] == "|"}
    read = {*old_names.CARD_KEYS.items(), *old_names.FEATURE_SETS.items(), *rows}
    read |= set(old_names.COLUMNS.items())
    for options in old_names.OPTIONS.values():
        read |= set(options.items())
    held = {(e["old"], e["new"]) for e in TABLE["name"] if e.get("users")}
    assert held and held <= read, held - read


def test_every_object_has_the_schema(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, out = tmp_path / "t.txt", tmp_path / "t.zst"
    source.write_text(synthetic.text(3, 40, blocks=False))
    assert main(["extract", "--quiet", str(source), "-o", str(out), "--json"]) == 0
    (entry,) = json.loads(capsys.readouterr().out)
    assert next(iter(entry)) == "schema" and entry["schema"] == 2
    assert main(["verify", str(FEATS), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found == {"schema": 2, "files": {str(FEATS): []}}
