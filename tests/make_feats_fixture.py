"""Makes tests/golden/feats-v1-checksum.zst and the values that test_feats_format.py expects of it.

    python tests/make_feats_fixture.py

Only until the release that writes it: afterwards a fixture is never made again, for it is what
files written by that version are.  feats-v1.zst is such a one, of the same trace and without a
checksum of the file.  It holds several chunks, every kind of row, macro-ops and anomalies.
"""

from __future__ import annotations

import hashlib
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import synthetic

import tracekit

GOLDEN = Path(__file__).parent / "golden"


def trace() -> str:
    """A synthetic trace with a foreign line, an unknown op class and code that changes."""
    lines = synthetic.text(2026, 700).splitlines(keepends=True)
    at = next(i for i in range(300, len(lines)) if lines[i].startswith("O3PipeView:fetch"))
    text = "".join([*lines[:at], "warn: a foreign line\n", *lines[at:]])
    return text.replace(
        "add   x1, x2, x3         : IntAlu", "add   x1, x2, x3         : OddAlu", 40
    )


def values(path: Path) -> dict[str, Any]:
    """What a reader must find: a few values as they are, whole columns as SHA-256 of their
    bytes."""
    with tracekit.open(path) as f:

        def digest(a: np.ndarray) -> str:
            little = np.ascontiguousarray(a, a.dtype.newbyteorder("<"))
            return f"{a.dtype.name} {hashlib.sha256(little.tobytes()).hexdigest()[:32]}"

        return {
            "format": f.head["format"],
            "rows": len(f),
            "chunks": f.chunks,
            "clock_ps": f.clock_ps,
            "ticks": int(f.targets("ticks").sum()),
            "first_pcs": [hex(pc) for pc in f["pc"][:4].tolist()],
            "anomalies": f.index["anomalies"],
            "statics": len(f.statics),
            "first_statics": [repr(s) for s in list(f.statics)[:3]],
            "all_statics": hashlib.sha256(repr(list(f.statics)).encode()).hexdigest()[:32],
            "columns": {n: digest(f[n]) for n in f.columns},
            "sets": {n: digest(f.features(n)) for n in ("perfvec-ref", "neuroscalar")},
        }


def main() -> int:
    target = GOLDEN / "feats-v1-checksum.zst"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.out"
        path.write_text(trace())
        tracekit.extract(path, target, chunk_rows=256, force=True)
    expected = GOLDEN / "feats-v1.json"
    expected.write_text(json.dumps(values(target), indent=1) + "\n")
    print(f"{target}: {target.stat().st_size} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
