"""Memories of machines, by the names of gem5's DRAM interfaces."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["MEMORIES", "Memory", "memory_cycles"]

#: ns of a read in gem5's controller beside the banks and the bus (src/mem/MemCtrl.py: frontend and
#: backend).
_CONTROLLER = 20.0
#: Bursts that are written before reads have their turn (min_writes_per_switch), and of an open row
#: (max_accesses_per_row).
_WRITES_PER_SWITCH = _ROW_ACCESSES = 16
#: What of a memory is a time.
_TIMES = (
    *("cas", "activate", "precharge", "ras", "burst", "write", "column", "activation"),
    *("turnaround", "refresh_every", "refresh"),
)


class Memory(NamedTuple):
    """Of gem5's DRAM interfaces (src/mem/DRAMInterface.py): ns, kB, and whether rows are closed.

    ``burst`` and ``column`` are of 64 bytes (tBURST; tCCD_L, or tBURST + tCS), ``write`` what they
    take of the bus, which is less where bursts lie in each other; ``activation`` is the least time
    between two (tXAW over its limit), ``turnaround`` tWTR + tCL + tRTW, ``read_precharge`` tRTP,
    ``write_precharge`` tCWL + tBURST + tWR, ``writes`` half of the write queue
    (write_low_thresh_perc of write_buffer_size) in bursts, ``banks`` those of all ``ranks``,
    ``groups`` bank_groups_per_rank, ``bursts`` how many make up 64 bytes.
    """

    cas: float
    activate: float
    precharge: float
    ras: float
    burst: float
    write: float
    column: float
    activation: float
    turnaround: float
    row_kb: int
    banks: int
    closes: bool
    refresh_every: float
    refresh: float
    read_precharge: float
    write_precharge: float
    writes: int
    ranks: int
    groups: int
    bursts: int = 1

    @property
    def told_burst(self) -> float:
        """tBURST times the bursts of a line; read one after the other they may take longer."""
        return self.burst if self.bursts == 1 else self.write

    @property
    def line_to_precharge(self) -> float:
        """From the first burst of a line that is read to the precharge of its row."""
        return self._to_last_burst + self.read_precharge

    @property
    def line_to_write_precharge(self) -> float:
        """The same of a line that is written."""
        return self._to_last_burst + self.write_precharge

    @property
    def _to_last_burst(self) -> float:
        return self.burst * (1 - 1 / self.bursts)


# fmt: off
MEMORIES: dict[str, Memory] = {
    "DDR3_1600_8x8": Memory(
        13.75, 13.75, 13.75, 35, 5, 5, 5, 7.5, 23.75, 8,
        16, False, 7800, 260, 7.5, 33.75, 32, 2, 1,
    ),
    "DDR3_2133_8x8": Memory(
        13.09, 13.09, 13.09, 33, 3.75, 3.75, 3.75, 6.25, 23.1, 8,
        16, False, 7800, 260, 7.5, 31.84, 32, 2, 1,
    ),
    "DDR4_2400_8x8": Memory(
        14.16, 14.16, 14.16, 32, 3.33, 3.33, 5, 5.25, 20.8, 8,
        32, False, 7800, 350, 7.5, 32.49, 64, 2, 4,
    ),
    "DDR5_6400_4x8": Memory(
        14.375, 14.375, 14.375, 32, 2.5, 2.5, 5, 2.5, 32.3, 1,
        32, True, 3900, 295, 7.5, 46.25, 32, 1, 8,
    ),
    "LPDDR3_1600_1x32": Memory(
        15, 18, 18, 42, 10, 10, 10, 12.5, 25, 4,
        8, False, 3900, 130, 7.5, 35, 32, 1, 1, 2,
    ),
    "LPDDR5_6400_1x16_BG_BL32": Memory(
        21.25, 18, 18, 42, 7.5, 5, 10, 5, 28.75, 2,
        16, True, 3900, 210, 4.59, 62.75, 32, 1, 4,
    ),
    "HBM_2000_4H_1x64": Memory(
        18, 12, 14, 28, 5, 4, 6, 4, 40, 1,
        16, True, 3900, 220, 5, 23, 32, 1, 4, 2,
    ),
}
# fmt: on


def memory_cycles(mem: str, clock_ghz: float) -> dict[str, float]:
    """What one of MEMORIES is to a core of this clock: times in cycles, and sizes; by the names of
    the core's parameters."""
    clock, memory = float(clock_ghz), MEMORIES[mem]
    return {
        "memory_controller": _CONTROLLER * clock,
        **{f"memory_{k}": getattr(memory, k) * clock for k in _TIMES},
        "memory_read_precharge": memory.line_to_precharge * clock,
        "memory_write_precharge": memory.line_to_write_precharge * clock,
        "memory_writes": float(memory.writes // memory.bursts),
        "memory_write_batch": float(_WRITES_PER_SWITCH // memory.bursts),
        "memory_row_lines": memory.row_kb * 16.0,
        "memory_banks": float(memory.banks),
        "memory_ranks": float(memory.ranks),
        "memory_bank_groups": float(memory.groups),
        "memory_row_accesses": float(_ROW_ACCESSES // memory.bursts),
        "memory_closes": float(memory.closes),
    }
