"""The shared library of csrc/hardware/measure: pieces of machine code by name, pages, a timer."""

from __future__ import annotations

import ctypes
import functools
import platform
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from tracekit.errors import TracekitError

__all__ = [
    "Call",
    "CodePages",
    "DataPages",
    "FormKernel",
    "clock_step",
    "form_kernels",
    "isa",
    "snippets",
    "time_calls",
]

NAME = "libtracekit_measure.so"


class _Snippet(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("begin", ctypes.c_void_p),
        ("end", ctypes.c_void_p),
    )


class _Form(ctypes.Structure):
    _fields_ = (
        ("form", ctypes.c_char_p),
        ("chain", ctypes.c_int),
        ("count", ctypes.c_int),
        ("others", ctypes.c_double),
        ("setup", ctypes.c_void_p),
        ("setup_end", ctypes.c_void_p),
        ("body", ctypes.c_void_p),
        ("body_end", ctypes.c_void_p),
    )


class _Call(ctypes.Structure):
    _fields_ = (
        ("code", ctypes.c_void_p),
        ("a", ctypes.c_uint64),
        ("b", ctypes.c_uint64),
        ("scratch", ctypes.c_uint64),
        ("count", ctypes.c_uint64),
        ("lead", ctypes.c_uint64),
    )


class FormKernel(NamedTuple):
    """A kernel of a form: ``instances`` of it in ``body``, behind ``setup``; ``others``: cycles of
    other instructions in one step of a chain, less than 0 where half of a step is a plain move."""

    form: str
    chain: bool
    instances: int
    others: float
    setup: bytes
    body: bytes


class Call(NamedTuple):
    """A kernel to be timed: its address, its arguments, how often its loop runs, and how often
    untimed before that."""

    code: int
    a: int
    b: int
    scratch: int
    loops: int
    lead: int = 0


def isa() -> str:
    """The instruction set of this process, x86 or arm; TracekitError elsewhere."""
    machine = platform.machine().lower()
    if machine in ("x86_64", "amd64"):
        return "x86"
    if machine in ("aarch64", "arm64"):
        return "arm"
    raise TracekitError(f"calibrate has kernels for x86-64 and aarch64, and this is {machine}")


@functools.cache
def _library() -> ctypes.CDLL:
    path = Path(__file__).with_name(NAME)
    try:
        lib = ctypes.CDLL(str(path))
    except OSError:
        raise TracekitError(
            f"calibrate needs {NAME}, which the build makes with a C compiler",
            hint="install tracekit where cc works, on Linux",
        ) from None
    size = ctypes.POINTER(ctypes.c_size_t)
    lib.tk_snippets.argtypes, lib.tk_snippets.restype = (size,), ctypes.POINTER(_Snippet)
    lib.tk_forms.argtypes, lib.tk_forms.restype = (size,), ctypes.POINTER(_Form)
    lib.tk_code_pages.argtypes, lib.tk_code_pages.restype = (ctypes.c_size_t,), ctypes.c_void_p
    lib.tk_code_seal.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
    lib.tk_data_pages.argtypes = (ctypes.c_size_t, ctypes.c_int)
    lib.tk_data_pages.restype = ctypes.c_void_p
    lib.tk_free_pages.argtypes, lib.tk_free_pages.restype = (ctypes.c_void_p, ctypes.c_size_t), None
    lib.tk_time.argtypes = (
        ctypes.POINTER(_Call),
        ctypes.c_size_t,
        ctypes.c_size_t,
        ctypes.POINTER(ctypes.c_double),
    )
    lib.tk_clock_step.restype = ctypes.c_double
    return lib


@functools.cache
def snippets() -> Mapping[str, bytes]:
    """Every piece of machine code by name."""
    n = ctypes.c_size_t()
    table = _library().tk_snippets(ctypes.byref(n))
    return {table[i].name.decode(): _bytes(table[i].begin, table[i].end) for i in range(n.value)}


def _bytes(begin: int, end: int) -> bytes:
    return ctypes.string_at(begin, end - begin)


@functools.cache
def form_kernels() -> tuple[FormKernel, ...]:
    """The kernels of every form, in the order of the list that they were built from."""
    n = ctypes.c_size_t()
    table = _library().tk_forms(ctypes.byref(n))
    return tuple(
        FormKernel(
            t.form.decode(),
            bool(t.chain),
            t.count,
            t.others,
            _bytes(t.setup, t.setup_end),
            _bytes(t.body, t.body_end),
        )
        for t in (table[i] for i in range(n.value))
    )


class DataPages:
    """Memory of ``size`` bytes that begins at a multiple of 2 MiB, all touched.

    ``large`` asks for large pages, else for small ones; ``words`` is it as uint64.
    """

    def __init__(self, size: int, *, large: bool) -> None:
        self.size = size
        self.address = int(_library().tk_data_pages(size, int(large)) or 0)
        if not self.address:
            raise TracekitError(f"no memory for {size >> 20} MB of test data")
        buffer = (ctypes.c_uint64 * (size // 8)).from_address(self.address)
        self.words: np.ndarray = np.ctypeslib.as_array(buffer)

    def close(self) -> None:
        """Give the memory back."""
        if self.address:
            _library().tk_free_pages(self.address, self.size)
            self.address = 0

    def __enter__(self) -> DataPages:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class CodePages:
    """Machine code that can be called; ``address`` is its first byte."""

    def __init__(self, code: bytes) -> None:
        self.size = -(-len(code) // 4096) * 4096
        lib = _library()
        self.address = int(lib.tk_code_pages(self.size) or 0)
        if not self.address:
            raise TracekitError("no memory for code")
        ctypes.memmove(self.address, code, len(code))
        if lib.tk_code_seal(self.address, self.size):
            raise TracekitError("this system forbids code that was made at run time")

    def close(self) -> None:
        """Give the memory back."""
        if self.address:
            _library().tk_free_pages(self.address, self.size)
            self.address = 0

    def __del__(self) -> None:
        self.close()


def time_calls(calls: Sequence[Call], rounds: int) -> np.ndarray | None:
    """Nanoseconds of each call in each round: float64 [rounds, calls]; the calls take turns.

    None where an instruction is unknown to this processor or faults.
    """
    made = (_Call * len(calls))(*(_Call(*c) for c in calls))
    out = np.zeros((rounds, len(calls)))
    pointer = out.ctypes.data_as(ctypes.POINTER(ctypes.c_double))
    if _library().tk_time(made, len(calls), rounds, pointer):
        return None
    return out


def clock_step() -> float:
    """Nanoseconds between two readings of the clock, at the least."""
    return float(_library().tk_clock_step())
