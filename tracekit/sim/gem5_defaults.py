"""What a gem5 configuration says beyond a machine's parameters: each value that is not gem5's own.

gem5_defaults.json holds, of each class that a machine is read from, the parameters that take part
in timing and that a machine cannot say, with their defaults in gem5 v24.0 as config.ini writes
them: the simulated core has those.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

__all__ = ["UNUSED_IN_ORDER", "departures"]

#: Parameters that a Minor CPU does not have: gem5's own of the O3 CPU.
UNUSED_IN_ORDER: Final = {
    "rob": 192,
    "iq": 64,
    "lq": 32,
    "sq": 32,
    "phys_int": 256,
    "phys_float": 256,
    "phys_vec": 256,
    "fetch_buffer": 64,
    "fetch_queue": 32,
    "issue_to_exec": 1,
    "int_alu": 2,
    "int_mul": 1,
    "int_mul_lat": 3,
    "int_div_lat": 9,
    "fp": 1,
    "fp_add_lat": 6,
    "fp_mul_lat": 6,
    "fp_div_lat": 6,
    "simd": 1,
    "load_ports": 1,
    "store_ports": 1,
    "agu_lat": 1,
}

_Config = Mapping[str, Mapping[str, str]]


@functools.cache
def _defaults() -> dict[str, dict[str, str]]:
    path = Path(__file__).with_name("gem5_defaults.json")
    found: dict[str, dict[str, str]] = json.loads(path.read_text(encoding="utf-8"))
    return found


def _class_of(kind: str) -> dict[str, str]:
    """The defaults of an object's class; {} of one that is not read."""
    if cpu := re.search(r"(O3|Minor)CPU$", kind):
        kind = f"Base{cpu[1]}CPU"
    return _defaults().get(kind, {})


def _equal(a: str, b: str) -> bool:
    if a == b:
        return True
    x, y = a.split(), b.split()
    try:
        return len(x) == len(y) and all(float(p) == float(q) for p, q in zip(x, y, strict=True))
    except ValueError:
        return False


def _family(config: _Config, name: str, deep: bool) -> Iterator[str]:
    """An object, and with ``deep`` those below it."""
    for path in config:
        if path == name or (deep and path.startswith(name + ".")):
            yield path


def departures(config: _Config, objects: Iterable[tuple[str, bool]]) -> list[str]:
    """``OBJECT.PARAMETER is X; Y is simulated`` of each value that is not gem5's own.  ``objects``:
    paths, and whether those below them count, too."""
    out = []
    for name, deep in objects:
        for path in _family(config, name, deep):
            values = config[path]
            for key, usual in _class_of(values.get("type", "")).items():
                if key in values and not _equal(values[key], usual):
                    out.append(f"{path}.{key} is {values[key]}; {usual} is simulated")
    return out
