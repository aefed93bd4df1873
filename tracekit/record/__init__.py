"""Records real programs: Linux on x86-64, user code, by copy-on-write snapshot (docs/record.md)."""

from tracekit.record.interruption import EndSignals
from tracekit.record.missing import described
from tracekit.record.options import RecordOptions
from tracekit.record.recorder import Recording, available, record_command, record_pid
from tracekit.record.totals import Totals, exit_code

__all__ = [
    "EndSignals",
    "RecordOptions",
    "Recording",
    "Totals",
    "available",
    "described",
    "exit_code",
    "record_command",
    "record_pid",
]
