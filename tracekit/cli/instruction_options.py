"""Options of commands that run models of single instructions."""

from __future__ import annotations

from typing import Any

from tracekit.cli.numbers import at_least

__all__ = ["add_instruction_options"]


def add_instruction_options(p: Any) -> None:
    """Which blocks of rows are asked, and how the model runs."""
    p.add_argument(
        "--sample",
        type=at_least(1),
        default=1,
        metavar="N",
        help="families: every Nth block of 5000 rows (1: all)",
    )
    p.add_argument("--device", default="auto", help="auto, cpu, cuda or torch (torch on the CPU)")
    p.add_argument("--dtype", default="auto", help="f32, bf16, int8 or auto (auto)")
    p.add_argument("--no-history", action="store_true", help="leave the training programs' tables")
