"""Records whole programs of three instruction sets under QEMU's user mode (docs/qemu.md)."""

from tracekit.record.qemu.launch import QemuProgram, find_program
from tracekit.record.qemu.options import QemuOptions
from tracekit.record.qemu.recording import QemuTotals, record_qemu
from tracekit.record.qemu.session import QemuSession
from tracekit.record.qemu.source import QemuSource, extract_qemu

__all__ = [
    "QemuOptions",
    "QemuProgram",
    "QemuSession",
    "QemuSource",
    "QemuTotals",
    "extract_qemu",
    "find_program",
    "record_qemu",
]
