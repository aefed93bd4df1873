"""Real processors: their instruction tables, machines and simulation (docs/hardware.md)."""

from tracekit.hardware.forms import form
from tracekit.hardware.instruction_table import InstructionTable, Measured
from tracekit.hardware.machine import (
    HardwareMachine,
    Scheduler,
    hardware_machines,
    is_hardware_file,
    is_hardware_name,
)
from tracekit.hardware.parameters import HARDWARE_PARAMETERS, HardwareParameter

__all__ = [
    "HARDWARE_PARAMETERS",
    "HardwareMachine",
    "HardwareParameter",
    "InstructionTable",
    "Measured",
    "Scheduler",
    "form",
    "hardware_machines",
    "is_hardware_file",
    "is_hardware_name",
]
