"""What every source of rows is to the pipeline, and how the one for an input is found."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from tracekit import _core
from tracekit.entry_points import Offer, offers
from tracekit.errors import FormatError, TracekitError

#: Bytes of decompressed input that recognition looks at.
HEAD = 1 << 16


class Source(Protocol):
    """A parser of one input that may hold several streams (one a CPU or thread)."""

    def feed(self, data: Any, /) -> None:
        """Takes a block of the input, cut anywhere."""

    def finish(self) -> None:
        """The input is at its end."""

    def cpus(self) -> list[str]:
        """The streams' names so far; "" where the input names none."""

    def take(self, cpu: int, /) -> Any:
        """The rows (_core.Rows) of a stream that are ready."""

    def table(self, cpu: int, /) -> Any:
        """The static instructions (_core.StaticTable) of a stream."""

    def counters(self) -> dict[str, dict[str, int]]:
        """Anomalies by kind."""

    def stats(self) -> dict[str, Any]:
        """Numbers worth reporting."""

    def arch(self) -> str:
        """arm, x86, riscv or unknown."""


#: One pattern: the first line of a trace decides, and what a block does not have is not sought in
#: all of it.
_GEM5 = re.compile(
    rb"^(?:(?:O3PipeView: )?O3PipeView:\w+:"
    rb"| *\d+; O3PipeView:\w+:"
    rb"| *\d+: (?:ExecEnable: )?[^ \n]+: (?:A\d+ )?(?:T\d+ : )?0x[0-9a-f]+)",
    re.M,
)
_NUMBERS = re.compile(rb"\A *-?\d+( +-?\d+){8,}( |\r?\n)")


def _gem5_text(head: bytes, path: str) -> Source | None:
    if _GEM5.search(head):
        return _core.Gem5Text()
    return None


_TKT = b"\x89TKT\r\n\x1a\n"


def is_dense(head: bytes | memoryview) -> bool:
    """Whether rows of this input cost less to read than to hand from core to core."""
    return bytes(head[: len(_TKT)]) == _TKT


def _tkt(head: bytes, path: str) -> Source | None:
    if not is_dense(head):
        return None
    from tracekit.inputs.tkt import Tkt

    return Tkt()


def _perfvec_authors(head: bytes, path: str) -> Source | None:
    if not _NUMBERS.match(head):
        return None
    from tracekit.inputs.perfvec_authors import PerfvecAuthors

    return PerfvecAuthors(path)


def _native(head: bytes, path: str, isa: str | None) -> Source | None:
    from tracekit.inputs.native_sources import recognise as native

    return native(head, path, isa)


#: Asked in turn with the first bytes of the (decompressed) input and its path.
RECOGNISERS: list[Callable[[bytes, str], Source | None]] = [_tkt, _gem5_text, _perfvec_authors]


def recognise(head: bytes, path: str, isa: str | None = None) -> Source:
    """The source for an input that begins with ``head``; FormatError where it is of no known
    format."""
    if not head:
        raise FormatError("empty input", path=path, hint="was gem5 run with its debug flags?")
    for make in RECOGNISERS:
        source = make(head, path)
        if source is not None:
            return source
    if (source := _native(head, path, isa)) is not None:
        return source
    failed: list[str] = []
    for offer in offers("input format"):
        try:
            source = _offered(offer, head, path)
        except TracekitError as e:  # another package may know the format
            failed.append(str(e))
            continue
        if source is not None:
            return source
    raise FormatError(
        "no trace that tracekit knows",
        path=path,
        offset=0,
        hint="; ".join(failed)
        or f"{Path(path).name} must hold gem5's O3PipeView or Exec lines (docs/gem5.md has the "
        "flags), or "
        "a drmemtrace, ChampSim, execlog or lackey stream",
    )


def _offered(offer: Offer, head: bytes, path: str) -> Source | None:
    """The source that another package has for an input; UsageError where its code fails."""
    make = offer.load()
    if not callable(make):
        raise offer.failed(f"it is no function of an input's head and path, but {make!r:.200}")
    try:
        source = make(head, path)
    except TracekitError:
        raise
    except Exception as e:  # somebody else's function
        raise offer.failed(e) from None
    if source is None:
        return None
    needed = ("feed", "finish", "cpus", "take", "table", "counters", "stats", "arch")
    if missing := [n for n in needed if not callable(getattr(source, n, None))]:
        raise offer.failed(f"its source has no {', '.join(missing)}")
    if belongs := getattr(source, "belongs", None):  # a `Translated`
        belongs(path, offer.package)
    made: Source = source
    return made
