"""Recomputes every golden value of the timing cores and says what moved.

    PYTHONPATH=. python tests/bless.py [--write] [--bump] [--manifest MANIFEST ...]

Old and new values are printed; files change under --write alone.

cycles.json   totals and hashes of rows of every trace, program and machine of tests/core_pins.py,
              by how much totals differ from gem5's, and the parts of X86 instructions; hashes of
              machines anywhere in their ranges and of predictions (tests/core_extremes.py)
shared.json   the same of the shared traces' first rows, where they are here
stamps.json   which cores the rest was made with: the numbers of the feature sets, the shipped
              models (with what they predict of the golden traces), class_residuals.json

Where cycles move, three things are of other cores: the numbers of the feature sets (--bump raises
them in the sources), the shipped models (train them again) and class_residuals.json (--manifest, of
arm programs, makes it again).  None of them is stamped before it has changed, unless
--made-again NAME says that it was made with these cores and came out the same, and --kept NAME that
it stays as it is, because its data are not here; docs/validation.md has to say so.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import core_extremes as extremes
import core_pins as pins
import core_stamps as stamps
import shared_heads

ROOT = Path(__file__).resolve().parent.parent


def _lines(value: Any, depth: int) -> str:
    """JSON with a line for each entry down to ``depth``."""
    if depth == 0 or not isinstance(value, dict):
        return json.dumps(value)
    inner = ",\n".join(f"{json.dumps(k)}: {_lines(v, depth - 1)}" for k, v in value.items())
    return "{\n" + inner + "\n}"


def _flat(value: Any, path: str = "") -> dict[str, Any]:
    if not isinstance(value, dict):
        return {path: value}
    out: dict[str, Any] = {}
    for k, v in value.items():
        out.update(_flat(v, f"{path} {k}".strip()))
    return out


def _show(name: str, old: Any, new: Any) -> list[str]:
    """Prints what differs; the places whose values moved (not those that are new or gone)."""
    before, after = _flat(old), _flat(new)
    moved = [k for k in before if k in after and before[k] != after[k]]
    for k in moved:
        print(f"  {name}: {k}: {before[k]} -> {after[k]}")
    for word, some in (
        ("new", after.keys() - before.keys()),
        ("gone", before.keys() - after.keys()),
    ):
        if some:
            print(f"  {name}: {len(some)} {word}")
    if not moved:
        print(f"{name}: {len(after)} values as they were")
    return moved


def _bump(module: Path, name: str) -> str:
    """Raises the number at the end of FEATURE_SET in a source."""
    text = module.read_text(encoding="utf-8")
    stem, number = name.rsplit("-", 1)
    new = f"{stem}-{int(number) + 1}"
    text, count = re.subn(rf'^FEATURE_SET = "{re.escape(name)}"', f'FEATURE_SET = "{new}"', text,
                          flags=re.M)  # fmt: skip
    if count != 1:
        raise SystemExit(f"{module}: FEATURE_SET is not {name!r} there")
    module.write_text(text, encoding="utf-8")
    print(f"  {module.name}: FEATURE_SET {name} -> {new}")
    return new


def _residuals(manifest: str) -> None:
    """Makes class_residuals.json again, of the machines that it was made of."""
    machines = json.loads(stamps.RESIDUALS.read_text(encoding="utf-8"))["machines"]
    script = ROOT / "bench" / "class_residuals.py"
    subprocess.run(
        [sys.executable, str(script), manifest, *machines, "-o", str(stamps.RESIDUALS)],
        check=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )


def _stamped(
    old: Mapping[str, Any], new: Mapping[str, Any], again: set[str]
) -> tuple[dict[str, Any], list[str]]:
    """The stamps to write, and what is still of other cores."""
    out: dict[str, Any] = {}
    late: list[str] = []
    for kind, entries in new.items():
        out[kind] = dict(old.get(kind, {})) if kind == "feature_sets" else {}
        for name, entry in entries.items():
            before = old.get(kind, {}).get(name)
            same_thing = before is not None and before["made"] == entry["made"]
            if same_thing and before["cores"] != entry["cores"] and name not in again:
                late.append(name)
                out[kind][name] = before
            else:
                out[kind][name] = entry
    return out, late


def main() -> int:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    p.add_argument("--write", action="store_true", help="change the files")
    p.add_argument("--bump", action="store_true", help="raise the numbers of moved feature sets")
    p.add_argument("--manifest", help="make class_residuals.json again of these programs")
    p.add_argument("--made-again", action="append", default=[], metavar="NAME")
    p.add_argument("--kept", action="append", default=[], metavar="NAME")
    p.add_argument("--json", action="store_true", help="a last line of JSON: what moved")
    args = p.parse_args()

    old = pins.stored()
    new = pins.all_values() | extremes.all_values()
    moved = _show("cycles.json", old, new)
    if args.write:
        pins.CYCLES.write_text(_lines(new, 3) + "\n", encoding="utf-8")
    heads = shared_heads.stored()
    if shared_heads.here():
        found = shared_heads.all_values()
        moved += _show("shared.json", heads, found)
        if args.write:
            shared_heads.FILE.write_text(_lines(found, 2) + "\n", encoding="utf-8")
    else:
        print("shared.json: left as it is (no shared traces here)")

    again = {*args.made_again, *args.kept}
    if args.manifest:
        _residuals(args.manifest)
        again.add(stamps.RESIDUALS.name)
    before = stamps.stored()
    # More pins than before are no other cores: where nothing moved all is stamped again.
    if not moved:
        again |= {name for entries in before.values() for name in entries}
    after = stamps.current(new["cycles"])
    if args.bump:
        for module, name in stamps.feature_sets().items():
            stamp = before.get("feature_sets", {}).get(name)
            if stamp and stamp["cores"] != after["feature_sets"][name]["cores"] and moved:
                entry = after["feature_sets"].pop(name)
                bumped = _bump(module, name)
                after["feature_sets"][bumped] = {**entry, "made": bumped}
    result, late = _stamped(before, after, again)
    _show("stamps.json", before, result)
    if args.write:
        stamps.FILE.write_text(_lines(result, 2) + "\n", encoding="utf-8")
    for name in late:
        print(f"{name}: still of other cores; {stamps.remedy(name)}")
    if not args.write and (moved or result != before):
        print("nothing was written; --write does")
    if args.json:
        print(json.dumps({"moved": moved, "of_other_cores": late, "written": args.write}))
    return 1 if late else 0


if __name__ == "__main__":
    sys.exit(main())
