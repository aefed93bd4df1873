"""Writes what ``tracekit cross-validate`` found into a model's card, under ``training.evaluation``.

    tracekit cross-validate manifest.json --json > result.json
    python bench/card_evaluation.py result.json tracekit/mixture/default_x86 --what "…"

``--what`` says what was evaluated and how independent it is; the card's own words stay without it.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from tracekit.io.output import write_json

#: Of the card -> of the result.
PARTS = {
    "unseen_programs_seen_machines": "unseen_programs_seen_machines",
    "seen_programs_seen_machines": "seen_programs_seen_machines",
    "nothing_fitted": "simulated_cores_unfitted",
}
LISTS = ("programs", "machines")


def rounded(value: Any) -> Any:
    """Shares and correlations with four digits."""
    if isinstance(value, dict):
        return {k: rounded(v) for k, v in value.items()}
    return round(value, 4) if isinstance(value, float) else value


def evaluation(result: dict[str, Any], what: str) -> dict[str, Any]:
    """The part of the card."""

    def summary(found: dict[str, Any]) -> dict[str, Any]:
        return {k: v for k, v in found.items() if k not in LISTS}

    out: dict[str, Any] = {"what": what}
    out |= {name: summary(result[of]) for name, of in PARTS.items()}
    baselines = {k: summary(v) for k, v in result["baselines"].items() if v is not None}
    out["baselines_unseen_programs"] = baselines
    unseen = result["unseen_programs_seen_machines"]
    out["by_program"], out["by_machine"] = unseen["programs"], unseen["machines"]
    return rounded(out)


def main() -> None:
    """Writes the card."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("result", type=Path)
    parser.add_argument("model", type=Path)
    parser.add_argument("--what")
    args = parser.parse_args()
    place = args.model / "card.json"
    card = json.loads(place.read_text(encoding="utf-8"))
    what = args.what or card["training"].get("evaluation", {}).get("what")
    if what is None:
        parser.error("the card does not say what was evaluated: --what")
    card["training"]["evaluation"] = evaluation(json.loads(args.result.read_text("utf-8")), what)
    write_json(place, card, force=True)


if __name__ == "__main__":
    main()
