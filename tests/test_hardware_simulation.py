"""Traces on real processors: whole programs of a few instructions, whose times follow from the
machine's numbers."""

from __future__ import annotations

import pytest

from tracekit.hardware import InstructionTable, hardware_machines
from tracekit.hardware.static_ops import schedulers_of


@pytest.mark.parametrize("name", hardware_machines())
def test_each_port_of_a_machine_s_table_has_a_scheduler(name: str) -> None:
    machine = hardware_machines()[name]
    ports = InstructionTable.load(machine.table).ports
    masks = [mask for _, mask in schedulers_of(machine, ports)]
    assert sum(masks) == 2 ** len(ports) - 1 and all(masks), (ports, masks)
