"""Readers and features give, column by column, what they gave (golden/columns.json)."""

from __future__ import annotations

import column_pins as pins
import pytest

RUN = "run tests/column_pins.py"
STORED = pins.stored()


@pytest.mark.parametrize("name", STORED)
def test_columns(name: str) -> None:
    found, want = pins.all_values()[name], STORED[name]
    assert not {k: (want.get(k), v) for k, v in found.items() if want.get(k) != v}, RUN
    assert found.keys() == want.keys(), RUN


def test_every_input_is_pinned() -> None:
    assert pins.all_values().keys() == STORED.keys(), RUN
