"""Real processors: their instruction tables, machines and simulation (docs/hardware.md)."""

from tracekit.hardware.forms import form
from tracekit.hardware.instruction_table import InstructionTable, Measured
from tracekit.hardware.kept import keep_machine, kept_machine, kept_path
from tracekit.hardware.machine import (
    HardwareMachine,
    Scheduler,
    hardware_machines,
    is_hardware_file,
    is_hardware_name,
)
from tracekit.hardware.measure import Calibration, calibrate
from tracekit.hardware.measure.processor import cpu_name
from tracekit.hardware.parameters import HARDWARE_PARAMETERS, HardwareParameter
from tracekit.hardware.simulation import form_notes

__all__ = [
    "HARDWARE_PARAMETERS",
    "Calibration",
    "HardwareMachine",
    "HardwareParameter",
    "InstructionTable",
    "Measured",
    "Scheduler",
    "calibrate",
    "cpu_name",
    "form",
    "form_notes",
    "hardware_machines",
    "is_hardware_file",
    "is_hardware_name",
    "keep_machine",
    "kept_machine",
    "kept_path",
]
