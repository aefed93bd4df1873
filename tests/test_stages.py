"""Stages in threads, and reading ahead by whoever has time."""

from __future__ import annotations

import threading

import pytest

from tracekit.inputs.ahead import Ahead
from tracekit.pipeline import overlap


def test_what_one_thread_reads_the_other_gets_in_order() -> None:
    ahead = Ahead(range(1000))
    helped = threading.Event()
    out: list[int] = []

    def work() -> None:
        helped.wait()
        out.extend(ahead)

    thread = threading.Thread(target=work)
    thread.start()
    assert ahead.help() and ahead.help() and not ahead.help()  # two ahead, no more
    helped.set()
    while len(out) < 1000:
        ahead.help()
    thread.join()
    assert out == list(range(1000)) and not ahead.help()


def test_nobody_needs_to_help() -> None:
    assert list(Ahead(range(5))) == [0, 1, 2, 3, 4]
    assert list(Ahead([])) == []


def test_an_error_is_its_reader_s_and_ends_the_items() -> None:
    def items():
        yield 1
        raise OSError("gone")

    ahead = Ahead(items())
    assert ahead.help()
    with pytest.raises(OSError, match="gone"):
        ahead.help()
    assert list(ahead) == [1]
    with pytest.raises(OSError, match="gone"):
        list(Ahead(items()))


def test_the_consumer_helps_before_it_waits() -> None:
    ahead = Ahead(range(300))
    assert list(overlap(lambda: iter(ahead), meanwhile=ahead.help)) == list(range(300))


def test_an_error_of_what_is_read_ahead_comes_out_of_the_stage() -> None:
    def items():
        yield from range(50)
        raise OSError("gone")

    ahead = Ahead(items())
    got: list[int] = []
    with pytest.raises(OSError, match="gone"):
        for one in overlap(lambda: iter(ahead), meanwhile=ahead.help):
            got.append(one)
    assert got == list(range(len(got)))
