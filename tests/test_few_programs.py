"""Evaluation with so few programs or machines that some figures are not defined: said, not NaN."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import numpy as np
import pytest

from tracekit.cli.cmd_cross_validate import _table
from tracekit.cli.error_tables import line, programs
from tracekit.dataset import Manifest, Program
from tracekit.errors import UsageError
from tracekit.evaluation import learning_curves
from tracekit.evaluation.cross_validation import cross_validate, summarise, unseen_machines
from tracekit.mixture.fit import Sums
from tracekit.mixture.training import train_default


def sums(name: str, machines: int, seed: int) -> Sums:
    r = np.random.default_rng(seed)
    x = r.uniform(1, 2, (6, machines))
    return Sums(name, name, 6, x, x * r.uniform(0.9, 1.1, machines))


@pytest.mark.parametrize(("programs", "machines"), [(2, 1), (2, 2), (3, 12)])
def test_what_cannot_be_said_is_none(
    programs: int, machines: int, capsys: pytest.CaptureFixture[str]
) -> None:
    given = [sums(f"p{k}", machines, k) for k in range(programs)]
    names = [f"m{j}" for j in range(machines)]
    priors, periods = np.eye(machines), np.ones(machines)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        out = cross_validate(given, names, priors, periods, {}, count=2, baselines=())
        out["unseen_machines"] = unseen_machines(given, names, priors, {}, count=2, baselines=())
        out["learning_curve"] = learning_curves.over_instructions(given, priors)
        out["machine_curve"] = learning_curves.over_machines(given, priors)
    json.dumps(out, allow_nan=False)
    _table(out)
    said = capsys.readouterr().out
    assert "nan" not in said and "\N{EN DASH}" in said
    methods = out["unseen_machines"]["methods"]
    assert all(v["seen"] == {"mean": None, "median": None} for v in methods.values())
    assert all(v["unseen"]["mean"] >= 0 for v in methods.values())
    own = out["unseen_programs_seen_machines"]
    assert (own["spearman_median"] is None) == (machines == 1)


def test_a_validation_of_every_family_leaves_none_to_train_on(tmp_path: Path) -> None:
    programs = tuple(Program(f"p{k}", f"f{k}", tmp_path / "none") for k in range(3))
    manifest = Manifest(
        tmp_path / "m.json", programs, {}, frozenset({"f0", "f1"}), frozenset({"f2"})
    )
    with pytest.raises(UsageError, match="no programs to train on"):
        train_default(manifest, tmp_path / "out")


def test_ranks_of_equal_machines(capsys: pytest.CaptureFixture[str]) -> None:
    one = Sums("p", "p", 3, np.ones((3, 2)), np.ones((3, 2)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = summarise([one], np.array([[3.0, 4.0]]), np.ones(2), ["a", "b"])
    assert found["spearman_min"] is None and found["programs"]["p"]["kendall"] is None
    line("x", found)
    programs(found)
    assert capsys.readouterr().out.count("\N{EN DASH}") == 3


@pytest.mark.parametrize(("count", "tuning"), [(1, 3), (0, 3), (-1, 3), (2, 0)])
def test_numbers_that_mean_nothing(count: int, tuning: int) -> None:
    given = [sums(f"p{k}", 2, k) for k in range(3)]
    with pytest.raises(UsageError, match="at least"):
        if tuning:
            cross_validate(given, ["a", "b"], np.eye(2), np.ones(2), {}, count=count)
        unseen_machines(given, ["a", "b"], np.eye(2), {}, count=2, tuning=tuning)
