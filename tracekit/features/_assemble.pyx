# cython: boundscheck=False, wraparound=False, initializedcheck=False
"""Rows of a feature set from a static matrix and the columns that change, without the GIL."""

import numpy as np

from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy

ctypedef fused number:
    uint8_t
    uint16_t
    uint32_t
    uint64_t
    float


def gather(const float[:, ::1] table, const uint32_t[::1] ids, float[:, ::1] out):
    """out[i] = table[ids[i]]; every id must be below len(table)."""
    cdef Py_ssize_t i, n = ids.shape[0], width = table.shape[1]
    if out.shape[0] != n or out.shape[1] != width:
        raise ValueError("out has another shape")
    if width == 0:
        return
    cdef uint32_t last = <uint32_t>table.shape[0]
    cdef bint bad = False
    with nogil:
        for i in range(n):
            if ids[i] >= last:
                bad = True
                break
            memcpy(&out[i, 0], &table[ids[i], 0], width * sizeof(float))
    if bad:
        raise IndexError("static instruction out of range")


def put(const number[::1] values, float[:, ::1] out, Py_ssize_t column):
    """out[:, column] = values."""
    cdef Py_ssize_t i, n = values.shape[0]
    if out.shape[0] != n or not 0 <= column < out.shape[1]:
        raise ValueError("out has another shape")
    with nogil:
        for i in range(n):
            out[i, column] = <float>values[i]


def put_bit(const uint8_t[::1] bits, uint8_t mask, float[:, ::1] out, Py_ssize_t column):
    """out[:, column] = 1 where bits & mask, else 0."""
    cdef Py_ssize_t i, n = bits.shape[0]
    if out.shape[0] != n or not 0 <= column < out.shape[1]:
        raise ValueError("out has another shape")
    with nogil:
        for i in range(n):
            out[i, column] = 1.0 if bits[i] & mask else 0.0


def put_lookup(const uint8_t[::1] codes, const float[::1] lookup, float[:, ::1] out, Py_ssize_t column):
    """out[:, column] = lookup[codes]; codes at or over len(lookup) are an error."""
    cdef Py_ssize_t i, n = codes.shape[0], size = lookup.shape[0]
    cdef bint bad = False
    if out.shape[0] != n or not 0 <= column < out.shape[1]:
        raise ValueError("out has another shape")
    with nogil:
        for i in range(n):
            if codes[i] >= size:
                bad = True
                break
            out[i, column] = lookup[codes[i]]
    if bad:
        raise IndexError("code out of range")


def put_bits_of(const uint64_t[::1] values, int shift, uint64_t mask, float[:, ::1] out, Py_ssize_t column):
    """out[:, column] = values >> shift & mask."""
    cdef Py_ssize_t i, n = values.shape[0]
    if out.shape[0] != n or not 0 <= column < out.shape[1]:
        raise ValueError("out has another shape")
    with nogil:
        for i in range(n):
            out[i, column] = <float>(values[i] >> shift & mask)
