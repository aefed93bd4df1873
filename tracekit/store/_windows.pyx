# cython: boundscheck=False, wraparound=False, initializedcheck=False
"""Windows of rows of targets, put together without the GIL."""

from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t
from libc.string cimport memchr, memcpy
from libcpp.vector cimport vector

cdef enum:
    FAR = 255  # tracekit.store.targets
    STEP = 4096

ctypedef fused number:
    uint16_t
    uint32_t
    float


cdef Py_ssize_t count(const uint8_t* at, Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t i, found = 0
    for i in range(n):
        found += at[i] == FAR
    return found


cdef class BytePlane:
    """Numbers of a byte each; where it is 255 the number is the next one of ``far``."""

    cdef const uint8_t[::1] _plane
    cdef const uint32_t[::1] _far
    cdef vector[Py_ssize_t] _before  # how many of far's are before each STEP-th number

    def __init__(self, const uint8_t[::1] plane, const uint32_t[::1] far):
        cdef Py_ssize_t n = plane.shape[0], a = 0, found = 0
        self._plane, self._far = plane, far
        with nogil:
            while a < n:
                self._before.push_back(found)
                found += count(&plane[a], min(<Py_ssize_t>STEP, n - a))
                a += STEP
        if found != far.shape[0]:
            raise ValueError("far numbers are not as many")

    def take(self, const int64_t[::1] starts, number[:, :, ::1] out):
        """out[k] = the rows from starts[k] on; a row is as long as out's."""
        cdef Py_ssize_t width = out.shape[2], size = out.shape[1] * width, k, i, a, f
        cdef const uint8_t* at
        cdef const uint8_t* hit
        cdef number* to
        if out.shape[0] != starts.shape[0]:
            raise ValueError("out has another shape")
        for k in range(starts.shape[0]):
            if starts[k] < 0 or starts[k] * width + size > self._plane.shape[0]:
                raise IndexError("a window outside of the rows")
        if size == 0:
            return
        with nogil:
            for k in range(starts.shape[0]):
                a = starts[k] * width
                at, to = &self._plane[a], &out[k, 0, 0]
                for i in range(size):
                    to[i] = <number>at[i]
                f = self._before[a // STEP] + count(at - a % STEP, a % STEP)
                hit = <const uint8_t*>memchr(at, FAR, size)
                while hit != NULL:
                    to[hit - at] = <number>self._far[f]
                    f += 1
                    hit += 1
                    hit = <const uint8_t*>memchr(hit, FAR, size - (hit - at))


cdef class FloatPlane:
    """Numbers that stand there as they are."""

    cdef const float[::1] _values

    def __init__(self, const float[::1] values):
        self._values = values

    def take(self, const int64_t[::1] starts, float[:, :, ::1] out):
        """out[k] = the rows from starts[k] on; a row is as long as out's."""
        cdef Py_ssize_t width = out.shape[2], size = out.shape[1] * width, k
        if out.shape[0] != starts.shape[0]:
            raise ValueError("out has another shape")
        for k in range(starts.shape[0]):
            if starts[k] < 0 or starts[k] * width + size > self._values.shape[0]:
                raise IndexError("a window outside of the rows")
        if size == 0:
            return
        with nogil:
            for k in range(starts.shape[0]):
                memcpy(&out[k, 0, 0], &self._values[starts[k] * width], size * sizeof(float))
