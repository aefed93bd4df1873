"""Users' own branch predictors, prefetchers and replacement policies in a simulated core.

A plug-in is three C functions at most (tracekit/include/tracekit_plugin.h): Numba cfuncs, or what a
shared library exports.  A machine names one as ``plugin:NAME`` in ``bp``, ``l1d_pf``, ``l2_pf``,
``l1d_replacement``, ``l2_replacement`` or ``l3_replacement``.  Each core has a state of its own,
zeroed bytes of the size asked for.

A shared library runs with all rights of the process: one is loaded when somebody names it here or
in ``TRACEKIT_PLUGINS`` (paths with ``:`` between them), never because a machine's file does.

>>> import numba
>>> from tracekit.sim import plugins
>>> @numba.cfunc(plugins.PREDICT)
... def always(state, pc, kind):
...     return 1
>>> @numba.cfunc(plugins.UPDATE)
... def nothing(state, pc, kind, taken):
...     pass
>>> plugins.add_predictor("always", 0, always, nothing)
>>> plugins.names("predictor")
('always',)
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import json
import os
import re
import uuid
from pathlib import Path
from typing import Any, Final, Literal, Protocol

from tracekit import _core
from tracekit.errors import TracekitError, UsageError

__all__ = [
    "ACCESS",
    "PREDICT",
    "TOUCH",
    "UPDATE",
    "VICTIM",
    "CFunction",
    "add_predictor",
    "add_prefetcher",
    "add_replacement",
    "check",
    "contents",
    "forget",
    "include",
    "load",
    "names",
    "number",
]

PluginKind = Literal["predictor", "prefetcher", "replacement"]

#: Numba's signatures of the functions; ``state`` is taken as an array by ``numba.carray``.
PREDICT: Final = "int64(CPointer(uint8), uint64, int64)"
UPDATE: Final = "void(CPointer(uint8), uint64, int64, int64)"
ACCESS: Final = "int64(CPointer(uint8), uint64, uint64, int64, CPointer(uint64))"
TOUCH: Final = "void(CPointer(uint8), int64, int64, int64)"
VICTIM: Final = "int64(CPointer(uint8), int64)"

_PREFIX: Final = "plugin:"
_numbers: dict[tuple[PluginKind, str], int] = {}
_contents: dict[tuple[PluginKind, str], str] = {}  # hashes of their code
_kept: list[object] = []  # what the functions belong to lives as long as they may be called


class CFunction(Protocol):
    """A Numba cfunc, or anything else with the address of a C function."""

    @property
    def address(self) -> int:
        """Where it is."""


def include() -> str:
    """The folder of tracekit_plugin.h."""
    return str(Path(__file__).resolve().parent.parent / "include")


def add_predictor(
    name: str,
    state_bytes: int,
    predict: CFunction,
    update: CFunction,
    resolve: CFunction | None = None,
) -> None:
    """Makes a direction predictor known as ``plugin:name``.

    ``predict(state, pc, kind)``: not 0 where the branch is taken, asked at fetch.
    ``resolve(state, pc, kind, taken)``: its outcome, at once, for speculative histories.
    ``update(state, pc, kind, taken)``: its outcome, when it commits.  A name that is known gets the
    new functions.
    """
    addresses = (
        _address(name, "predict", predict, PREDICT),
        _address(name, "resolve", resolve, UPDATE) if resolve is not None else 0,
        _address(name, "update", update, UPDATE),
    )
    code = _code_of(predict, update, resolve)
    _add("predictor", name, _core.add_predictor, (state_bytes, *addresses), code)
    _kept.append((predict, update, resolve))


def add_prefetcher(name: str, state_bytes: int, access: CFunction) -> None:
    """Makes a prefetcher known: ``access(state, line, pc, hit, out)`` writes at most 32 lines
    (addresses over 64) to ``out`` and gives their number; called for misses, and for hits on lines
    that are on their way or were prefetched."""
    address = _address(name, "access", access, ACCESS)
    _add("prefetcher", name, _core.add_prefetcher, (state_bytes, address), _code_of(access))
    _kept.append(access)


def add_replacement(name: str, set_bytes: int, touch: CFunction, victim: CFunction) -> None:
    """Makes a replacement policy known: ``touch(state, way, ways, filled)`` after a hit, or a new
    line, in a way of a set; ``victim(state, ways)``: the way that goes."""
    addresses = (
        _address(name, "touch", touch, TOUCH),
        _address(name, "victim", victim, VICTIM),
    )
    code = _code_of(touch, victim)
    _add("replacement", name, _core.add_replacement, (set_bytes, *addresses), code)
    _kept.append((touch, victim))


def _address(name: str, what: str, function: CFunction, signature: str) -> int:
    """Where a function is.  Raises UsageError where it is no C function, or takes or gives other
    pointers and numbers than ``signature`` says, as far as ctypes can tell."""
    address = getattr(function, "address", None)
    made = getattr(function, "ctypes", None)
    if not isinstance(address, int) or (made is not None and _shape(made) != _shape_of(signature)):
        why = f"plug-in {name}: {what} is no C function of {signature}"
        raise UsageError(why, hint="numba.cfunc with the constants of tracekit.sim.plugins")
    return address


def _shape(function: Any) -> list[str]:
    """What a function of ctypes gives and takes: pointers, numbers of 64 bits, nothing, others."""
    kinds = {ctypes.c_void_p: "pointer", ctypes.c_int64: "64", ctypes.c_uint64: "64", None: ""}
    types = [function.restype, *(function.argtypes or ())]
    return [kinds.get(t) or ("pointer" if hasattr(t, "contents") else str(t or "")) for t in types]


def _shape_of(signature: str) -> list[str]:
    gives, takes = signature.rstrip(")").split("(", 1)
    types = [gives, *takes.split(", ")]
    return ["pointer" if "CPointer" in t else "" if t == "void" else "64" for t in types]


def _code_of(*functions: CFunction | None) -> str:
    """A hash of Numba's code of functions; a new one, each time, of those that tell none."""
    parts = []
    for f in functions:
        inspect = getattr(f, "inspect_llvm", None)
        parts.append(inspect() if inspect else "" if f is None else uuid.uuid4().hex)
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def _add(part: PluginKind, name: str, add: object, values: tuple[int, ...], code: str) -> None:
    if not name or not name.isprintable() or len(name) > 100:
        raise UsageError("a plug-in's name has 1 to 100 printable characters")
    if values[0] < 0:
        raise UsageError(f"plug-in {name}: a state of {values[0]} bytes")
    try:
        _numbers[part, name] = add(name, *values)  # type: ignore[operator]  # one of three of _core
    except ValueError as e:
        raise UsageError(f"plug-in {name}: {e}") from None
    _contents[part, name] = code


def names(part: PluginKind) -> tuple[str, ...]:
    """The plug-ins that are known."""
    _of_environment()
    return tuple(n for p, n in _numbers if p == part)


def number(part: PluginKind, value: object) -> int | None:
    """The number of a parameter's value ``plugin:NAME``; None where it is no plug-in's name."""
    if not isinstance(value, str) or not value.startswith(_PREFIX):
        return None
    _of_environment()
    return _numbers.get((part, value[len(_PREFIX) :]))


def contents(text: str) -> list[str]:
    """Hashes of the code of all plug-ins that a JSON text names, so that what is kept of their
    results is theirs."""
    named = {json.loads(f'"{n}"') for n in re.findall(rf'"{_PREFIX}((?:[^"\\]|\\.)*)"', text)}
    if named:
        _of_environment()
    return [_contents[k] for k in sorted(_contents) if k[1] in named]


def check() -> None:
    """`TracekitError` where a plug-in did what it may not, since the last look."""
    if wrong := _core.plugin_complaint():
        raise TracekitError(wrong)


def forget() -> None:
    """Complaints about cores that are gone are nobody's."""
    _core.plugin_complaint()


# ---- shared libraries


class _Predictor(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("bytes", ctypes.c_uint64),
        ("predict", ctypes.c_void_p),
        ("resolve", ctypes.c_void_p),
        ("update", ctypes.c_void_p),
    )


class _Prefetcher(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("bytes", ctypes.c_uint64),
        ("access", ctypes.c_void_p),
    )


class _Replacement(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("bytes", ctypes.c_uint64),
        ("touch", ctypes.c_void_p),
        ("victim", ctypes.c_void_p),
    )


class _Plugins(ctypes.Structure):
    _fields_ = (
        ("abi", ctypes.c_uint32),
        ("predictors", ctypes.c_uint32),
        ("prefetchers", ctypes.c_uint32),
        ("replacements", ctypes.c_uint32),
        ("predictor", ctypes.POINTER(_Predictor)),
        ("prefetcher", ctypes.POINTER(_Prefetcher)),
        ("replacement", ctypes.POINTER(_Replacement)),
    )


_ABI: Final = 1


def load(path: str | os.PathLike[str]) -> tuple[str, ...]:
    """Makes all plug-ins of a shared library known; their names.  `UsageError` where it is none."""
    where = str(Path(path).resolve())
    try:
        library = ctypes.CDLL(where)
        entry = library.tracekit_plugins_v1
        code = hashlib.sha256(Path(where).read_bytes()).hexdigest()
    except (OSError, AttributeError) as e:
        raise UsageError(f"{path}: no library of plug-ins: {e}") from None
    entry.restype = ctypes.POINTER(_Plugins)
    table = entry()
    if not table or table.contents.abi != _ABI:
        raise UsageError(f"{path}: plug-ins of another version than {_ABI}")
    _kept.append(library)
    found = []
    t = table.contents
    for part, count, first, add in (
        ("predictor", t.predictors, t.predictor, _core.add_predictor),
        ("prefetcher", t.prefetchers, t.prefetcher, _core.add_prefetcher),
        ("replacement", t.replacements, t.replacement, _core.add_replacement),
    ):
        for k in range(count):
            name = (first[k].name or b"").decode("utf-8", "replace")
            values = tuple(int(getattr(first[k], f[0]) or 0) for f in first[k]._fields_[1:])
            _add(part, name, add, values, code)  # type: ignore[arg-type]  # the loop's strings are parts
            found.append(name)
    return tuple(found)


@functools.cache
def _of_environment() -> None:
    for path in filter(None, os.environ.get("TRACEKIT_PLUGINS", "").split(os.pathsep)):
        load(path)
