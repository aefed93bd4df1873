"""Kernels: pieces of machine code put together to functions with a loop."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence

from tracekit.hardware.measure.library import CodePages, isa, snippets

__all__ = ["Kernel", "branch_to", "family", "kernel"]


def family(prefix: str, count: int) -> list[str]:
    """``count`` snippets of a family in turn: those named ``prefix`` and a number."""
    names = [n for n in (f"{prefix}{i}" for i in range(16)) if n in snippets()]
    return [names[i % len(names)] for i in range(count)]


def branch_to(name: str, distance: int) -> bytes:
    """The branch ``name`` (``again``, ``jump``, ``call``) to a place ``distance`` bytes behind its
    own beginning."""
    code = snippets()[name]
    if isa() == "x86":
        return code[:-4] + struct.pack("<i", distance - len(code))
    (word,) = struct.unpack("<I", code[-4:])
    words = (distance - (len(code) - 4)) // 4
    return code[:-4] + struct.pack("<I", word | (words & 0x3FFFFFF))  # b, bl


class Kernel:
    """A function of machine code whose loop holds ``steps`` steps of what is measured.

    ``entry`` is its address, ``loop`` that of its loop.
    """

    def __init__(self, code: bytes, steps: int, head: int) -> None:
        self.pages = CodePages(code)
        self.entry, self.steps = self.pages.address, steps
        self.loop = self.entry + head


def kernel(
    body: Sequence[str] | bytes,
    steps: int = 1,
    setup: Iterable[str] | bytes = (),
    *,
    align: int = 64,
    leave: str = "leave",
) -> Kernel:
    """The kernel that runs ``setup`` once and then ``body`` in a loop, each a list of names of
    snippets or machine code itself; the loop begins at a multiple of
    ``align``; ``leave`` is the snippet that ends it."""
    known = snippets()

    def joined(part: Iterable[str] | bytes) -> bytes:
        return part if isinstance(part, bytes) else b"".join(known[n] for n in part)

    head, loop = known["enter"] + joined(setup), joined(body)
    nop = known["nop"]
    head += nop * ((-len(head) % align) // len(nop))
    code = head + loop + branch_to("again", -len(loop)) + known[leave]
    return Kernel(code, steps, len(head))
