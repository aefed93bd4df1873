"""Traces of the gem5 plug-in (.tkt), with the machine that the run simulated."""

from __future__ import annotations

import zlib
from typing import Any

from tracekit import _core
from tracekit.errors import TracekitError

__all__ = ["Tkt"]


class Tkt(_core.Tkt):
    """A Source (tracekit/inputs/base.py).

    Its numbers have ``machine`` (parameters as a machine's file has them) and ``machine_notes``
    (what of the run those do not say), or ``machine_unknown``, the reason, where the trace tells a
    configuration of which tracekit makes no machine.
    """

    def stats(self) -> dict[str, Any]:
        """Numbers worth reporting."""
        out = super().stats()
        if (header := self.header()) is None or not (packed := self.configuration()):
            return out
        try:
            machine, notes = _machine(packed, header["cpu_name"])
        except TracekitError as e:
            return {**out, "machine_unknown": e.message}
        return {**out, "machine": machine, "machine_notes": notes}


def _machine(packed: bytes, cpu: str) -> tuple[dict[str, Any], list[str]]:
    """Parameters and notes; TracekitError where the configuration is damaged, or of no machine that
    tracekit simulates."""
    from tracekit.sim.gem5_config import MAX_FILE, gem5_machine_of
    from tracekit.sim.parameters import joined, machine_errors

    inflate = zlib.decompressobj()
    try:
        text = inflate.decompress(packed, MAX_FILE)
    except zlib.error as e:
        raise TracekitError(f"its configuration is damaged: {e}") from None
    if not inflate.eof:
        raise TracekitError(f"its configuration is cut off, or larger than {MAX_FILE >> 20} MiB")
    machine, notes = gem5_machine_of(text, "the trace's configuration", cpu)
    machine["name"] = cpu
    if errors := machine_errors(machine):
        raise TracekitError(joined(errors))
    return machine, notes
