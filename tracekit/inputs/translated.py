"""A format of another package, read by way of one that tracekit has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from tracekit import _core
from tracekit.errors import FormatError, TracekitError, UsageError
from tracekit.inputs import native_sources
from tracekit.inputs.base import Source
from tracekit.inputs.tkt import Tkt

__all__ = ["Translated"]

Format = Literal["gem5", "tkt", "drmemtrace", "champsim", "execlog", "lackey"]


def _source(into: Format, isa: Literal["x86", "arm", "riscv"] | None) -> Source:
    if into == "gem5":
        return _core.Gem5Text()
    if into == "tkt":
        return Tkt()
    if into == "drmemtrace":
        return native_sources.drmemtrace_file()
    if into == "champsim":
        return native_sources.champsim_file()
    if into in ("execlog", "lackey"):
        return native_sources.text_file(into, isa or "unknown")
    raise UsageError(f"into: {into!r} is no format that tracekit reads")


class Translated:
    """A source for an entry point of the group ``tracekit.inputs`` (docs/entry-points.md).

    ``name``: what the format is called in errors and in ``tracekit info``.
    ``translate``: gets the input's bytes in blocks that are cut anywhere, and gives bytes of the
    format ``into`` (docs/inputs.md, docs/streams.md), as many as it has.
    ``end``: gives those that are left at the end of the input.
    ``isa``: of an execlog's guest, "x86", "arm" or "riscv".

    An exception of these functions is a `FormatError` that names the format.
    """

    def __init__(
        self,
        name: str,
        into: Format,
        translate: Callable[[bytes], bytes],
        end: Callable[[], bytes] | None = None,
        *,
        isa: Literal["x86", "arm", "riscv"] | None = None,
    ) -> None:
        self._name, self._translate, self._end = name, translate, end
        self._path: str | None = None
        self._package = ""
        self._taken = 0  # bytes of the decompressed input that are translated
        self._to = _source(into, isa)
        #: Whether there are no micro-ops in it: it is extracted at the macro level.
        self.native = bool(getattr(self._to, "native", False))

    def _call(self, function: Callable[[], bytes]) -> bytes:
        try:
            return function()
        except TracekitError:
            raise
        except (Exception, SystemExit) as e:  # somebody else's function
            why = f"as {self._name}{self._package}: {type(e).__name__}: {e}"
            raise FormatError(why, path=self._path, offset=self._taken) from None

    def belongs(self, path: str, package: str) -> None:
        """Says whose input it reads and which package made it, for errors."""
        self._path, self._package = path, f" of the package {package}"

    def feed(self, data: Any, /) -> None:
        """Parse the next bytes of the input."""
        block = bytes(data)
        self._to.feed(self._call(lambda: self._translate(block)))
        self._taken += len(block)

    def finish(self) -> None:
        """Take the end of the input."""
        if self._end is not None:
            self._to.feed(self._call(self._end))
        self._to.finish()

    def cpus(self) -> list[str]:
        """The names of the streams."""
        return self._to.cpus()

    def take(self, cpu: int, /) -> Any:
        """The rows of a stream since the last call."""
        return self._to.take(cpu)

    def table(self, cpu: int, /) -> Any:
        """The static instructions of a stream."""
        return self._to.table(cpu)

    def counters(self) -> dict[str, dict[str, int]]:
        """Anomalies by kind; bytes are those of the translation."""
        return self._to.counters()

    def stats(self) -> dict[str, Any]:
        """Numbers worth reporting."""
        return {**self._to.stats(), "format": self._name}

    def arch(self) -> str:
        """arm, x86, riscv or unknown."""
        return self._to.arch()
