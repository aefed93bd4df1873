"""What an agent has done and found; forgetting."""

from __future__ import annotations

import fnmatch
import time
from typing import Any

import numpy as np
import numpy.typing as npt

from tracekit.agent.policy import Policy
from tracekit.agent.reporting import (
    enqueue_everything,
    enqueue_forget,
    fleet_key,
    totals_of,
)
from tracekit.agent.state import COVERED, DAY, State
from tracekit.errors import TracekitError, UsageError
from tracekit.estimation import fleet
from tracekit.fleet.client import read_token
from tracekit.io.json_types import finite_or_null
from tracekit.mixture.residuals import Residuals

__all__ = ["forget", "forget_everything", "report", "set_paused", "status"]


def status(policy: Policy, state: State) -> dict[str, Any]:
    """How much of the budgets is used, what of the time is covered, and what waits."""
    db = state.db
    now = time.time()
    today = db.execute(
        "SELECT agent, epochs, predictions, taken, known FROM spent WHERE day = ?",
        (int(now // DAY),),
    ).fetchone() or (0.0, 0.0, 0.0, 0, 0)
    seconds = sum(today[:3])
    observed, lost, alive, covered = db.execute(
        "SELECT coalesce(sum(observed), 0), coalesce(sum(lost), 0), coalesce(sum(alive), 0),"
        f" coalesce(sum({COVERED}), 0) FROM programs"
    ).fetchone()
    worst = db.execute(
        "SELECT coalesce(max(lost / alive), 0) FROM programs WHERE alive > 60 AND lost > 0"
    ).fetchone()[0]
    return {
        "state": str(state.folder),
        "paused": state.setting("paused") == "yes",
        "today": {
            "cpu_seconds": round(seconds, 3),
            "cpu_share": seconds / max(1.0, now % DAY),
            "cpu_allowed": policy.cpu,
            "agent_seconds": today[0],
            "epoch_seconds": today[1],
            "prediction_seconds": today[2],
            "epochs": today[3],
            "known": today[4],
        },
        "loss": {
            "seconds": lost,
            "share": lost / alive if alive else 0.0,
            "worst_program": worst,
            "allowed": policy.loss,
        },
        "observed_seconds": observed,
        "covered_share": covered / observed if observed else 0.0,
        "signatures": db.execute("SELECT count(*) FROM signatures").fetchone()[0],
        "traces": db.execute("SELECT count(*) FROM traces").fetchone()[0],
        "disk_bytes": state.used(),
        "queue": totals_of(state),
        "hub_error": state.setting("hub_error") or None,
        "counts": dict(db.execute("SELECT what, number FROM counts ORDER BY what")),
    }


def report(policy: Policy, state: State, *, top: int = 20) -> dict[str, Any]:
    """The designs over all that was executed here, and the programs; names stay on this
    computer."""
    db = state.db
    designs = [
        d
        for (d,) in db.execute("SELECT DISTINCT design FROM predictions ORDER BY design")
        if d in policy.designs
    ]
    rows: dict[str, dict[str, float]] = {}
    about: dict[str, tuple[float, int, float]] = {}
    for signature, weight, program, design, ns, distance in db.execute(
        "SELECT s.signature, s.weight, s.program, p.design,"
        " p.cycles / p.clock_ghz / s.instructions, coalesce(p.distance, 0)"
        " FROM signatures s JOIN predictions p USING (signature) WHERE s.weight > 0"
    ):
        rows.setdefault(signature, {})[design] = ns
        about[signature] = (weight, program, distance)
    full = [s for s, r in rows.items() if all(d in r for d in designs)]
    programs = [
        {"executable": e, "observed_seconds": o, "covered_seconds": c, "epochs": n,
         "lost_share": lost / alive if alive else 0.0, "refused": refused}
        for e, o, c, n, lost, alive, refused in db.execute(
            f"SELECT executable, observed, {COVERED}, epochs, lost, alive, refused FROM programs"
            " ORDER BY observed DESC LIMIT ?", (top,)
        )
    ]  # fmt: skip
    errors = _model_errors(policy, designs)
    out: dict[str, Any] = {
        "designs": [], "programs": programs, "epochs": len(full), "model_errors": errors is not None
    }  # fmt: skip
    if not full or not designs:
        return out
    weights, program_of, distances = zip(*(about[s] for s in full), strict=True)
    found = fleet(
        designs,
        np.array(weights),
        np.array([[rows[s][d] for d in designs] for s in full]),
        strata=np.array(program_of),
        errors=errors,
        programs=np.array(program_of),
        wider=Residuals.wider(distances),
    )
    best = found.best()
    for name in sorted(designs, key=lambda d: float(found.totals[designs.index(d)])):
        c = found.compare(name, best)
        out["designs"].append(
            {"name": name, "time_over_best": c.ratio, "half_interval": finite_or_null(c.half),
             "certain": c.certain}
        )  # fmt: skip
    return out


def _model_errors(policy: Policy, designs: list[str]) -> npt.NDArray[np.float64] | None:
    """How far the policy's model is off on programs that it has not seen (`Residuals.moments`);
    None where it does not tell, or is not to be had any more."""
    from tracekit.agent.epoch import Source, model_of  # which only a report needs

    try:
        model = model_of(Source(policy.model, policy.store, policy.days_off), designs).model
    except TracekitError:
        return None
    return None if model.residuals is None else model.residuals.moments(designs)


def set_paused(state: State, paused: bool) -> None:
    """A running agent sees it at its next look."""
    state.keep("paused", "yes" if paused else "no")


def forget(policy: Policy, state: State, pattern: str, *, now: float) -> dict[str, Any]:
    """Delete all that is known of the programs that a glob names, here and at the hub.

    The hub is asked for signatures that are known here: not for older ones than ``keep.days``.
    Raises `UsageError` where there is no such program.
    """
    names = [
        e for (e,) in state.db.execute("SELECT executable FROM programs")
        if e == pattern or fnmatch.fnmatchcase(e, pattern)
    ]  # fmt: skip
    if not names:
        raise UsageError(
            f"nothing is known of {pattern}",
            hint="--everything asks the hub to delete all that this computer has sent",
        )
    signatures: list[str] = []
    files: list[str] = []
    for name in names:
        signatures += [
            s for (s,) in state.db.execute(
                "SELECT signature FROM signatures JOIN programs ON programs.id = program"
                " WHERE executable = ?", (name,)
            )
        ]  # fmt: skip
        files += [
            f for (f,) in state.db.execute(
                "SELECT file FROM traces JOIN signatures USING (signature) JOIN programs ON"
                " programs.id = program WHERE executable = ?", (name,)
            )
        ]  # fmt: skip
    requests = 0
    if policy.url and signatures:
        agent = read_token(policy.token_file).agent
        requests = enqueue_forget(state, agent, fleet_key(policy.key_file), signatures, now)
    state.forget(names)
    state.remove(files)
    state.db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return {
        "programs": len(names),
        "signatures": len(signatures),
        "traces": len(files),
        "requests_to_hub": requests,
    }


def forget_everything(policy: Policy, state: State, *, now: float) -> dict[str, Any]:
    """Delete all programs with their epochs, and what was observed; ask the hub, if the policy has
    one, to delete all that this agent has ever sent.  How much that was, as `forget`."""
    db = state.db
    counts = {
        table: int(db.execute(f"SELECT count(*) FROM {table}").fetchone()[0])
        for table in ("programs", "signatures", "traces")
    }
    files = [str(f) for (f,) in db.execute("SELECT file FROM traces")]
    if policy.url:
        enqueue_everything(state, read_token(policy.token_file).agent, now)
    state.forget()
    state.remove(files)
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return {**counts, "requests_to_hub": int(bool(policy.url))}
