# cython: boundscheck=False, wraparound=False, initializedcheck=False
"""Rows of a feature set from a static matrix and the columns that change, without the GIL."""

from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy
from libcpp.vector cimport vector

# Rows that are filled at once: they stay in a core's own cache while their columns are written.
cdef Py_ssize_t BLOCK = 1024

cdef enum Kind:
    U8, U16, U32, U64, F32, BIT, LOOKUP, BITS_OF

cdef struct Step:
    Kind kind
    const void* values
    Py_ssize_t column
    uint64_t mask
    int shift
    const float* lookup

ctypedef fused number:
    uint8_t
    uint16_t
    uint32_t
    uint64_t
    float


cdef inline void put(const number* values, Py_ssize_t n, float* out, Py_ssize_t width) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(n):
        out[i * width] = <float>values[i]


cdef void run(const Step& s, Py_ssize_t first, Py_ssize_t n, float* out, Py_ssize_t width) noexcept nogil:
    cdef const uint8_t* codes
    cdef const uint64_t* wide
    cdef Py_ssize_t i
    out += s.column
    if s.kind == U8:
        put(<const uint8_t*>s.values + first, n, out, width)
    elif s.kind == U16:
        put(<const uint16_t*>s.values + first, n, out, width)
    elif s.kind == U32:
        put(<const uint32_t*>s.values + first, n, out, width)
    elif s.kind == U64:
        put(<const uint64_t*>s.values + first, n, out, width)
    elif s.kind == F32:
        put(<const float*>s.values + first, n, out, width)
    elif s.kind == BITS_OF:
        wide = <const uint64_t*>s.values + first
        for i in range(n):
            out[i * width] = <float>(wide[i] >> s.shift & s.mask)
    elif s.kind == BIT:
        codes = <const uint8_t*>s.values + first
        for i in range(n):
            out[i * width] = 1.0 if codes[i] & s.mask else 0.0
    else:
        codes = <const uint8_t*>s.values + first
        for i in range(n):
            out[i * width] = s.lookup[codes[i]]


cdef class Assembly:
    """Rows of a table, one for each of ``ids``, with some columns' values put in."""

    cdef const float[:, ::1] _table
    cdef const uint32_t[::1] _ids
    cdef list _kept
    cdef vector[Step] _steps

    def __init__(self, const float[:, ::1] table, const uint32_t[::1] ids):
        cdef Py_ssize_t i
        cdef uint32_t most = 0
        self._table, self._ids, self._kept = table, ids, []
        for i in range(ids.shape[0]):
            most = max(most, ids[i])
        if ids.shape[0] and most >= table.shape[0]:
            raise IndexError("static instruction out of range")

    cdef Step _step(self, object values, Py_ssize_t rows, Py_ssize_t column) except *:
        cdef Step s
        if rows != self._ids.shape[0] or not 0 <= column < self._table.shape[1]:
            raise ValueError("a column of another shape")
        self._kept.append(values)
        s.column = column
        s.mask = 0
        s.shift = 0
        s.lookup = NULL
        return s

    cdef void _add(self, Step s, Kind kind, const void* values):
        s.kind, s.values = kind, values
        self._steps.push_back(s)

    def put(self, const number[::1] values, Py_ssize_t column):
        """Column = values."""
        cdef Step s = self._step(values, values.shape[0], column)
        if number is uint8_t:
            self._add(s, U8, &values[0])
        elif number is uint16_t:
            self._add(s, U16, &values[0])
        elif number is uint32_t:
            self._add(s, U32, &values[0])
        elif number is uint64_t:
            self._add(s, U64, &values[0])
        else:
            self._add(s, F32, &values[0])

    def put_bit(self, const uint8_t[::1] bits, uint8_t mask, Py_ssize_t column):
        """Column = 1 where bits & mask, else 0."""
        cdef Step s = self._step(bits, bits.shape[0], column)
        s.mask = mask
        self._add(s, BIT, &bits[0])

    def put_lookup(self, const uint8_t[::1] codes, const float[::1] lookup, Py_ssize_t column):
        """Column = lookup[codes]; codes at or over len(lookup) are an error."""
        cdef Step s = self._step(codes, codes.shape[0], column)
        cdef uint8_t most = 0
        cdef Py_ssize_t i
        for i in range(codes.shape[0]):
            most = max(most, codes[i])
        if codes.shape[0] and most >= lookup.shape[0]:
            raise IndexError("code out of range")
        self._kept.append(lookup)
        s.lookup = &lookup[0]
        self._add(s, LOOKUP, &codes[0])

    def put_bits_of(self, const uint64_t[::1] values, int shift, uint64_t mask, Py_ssize_t column):
        """Column = values >> shift & mask."""
        cdef Step s = self._step(values, values.shape[0], column)
        s.mask, s.shift = mask, shift
        self._add(s, BITS_OF, &values[0])

    def take(self, const int64_t[::1] starts, float[:, :, ::1] out):
        """out[k] = the rows from starts[k] on."""
        cdef Py_ssize_t length = out.shape[1], width = out.shape[2], k, a, b, i
        cdef size_t s
        cdef int64_t first
        cdef float* to
        if out.shape[0] != starts.shape[0] or width != self._table.shape[1]:
            raise ValueError("out has another shape")
        for k in range(starts.shape[0]):
            if not 0 <= starts[k] <= self._ids.shape[0] - length:
                raise IndexError("a window outside of the rows")
        if length == 0 or width == 0:
            return
        with nogil:
            for k in range(starts.shape[0]):
                a = 0
                while a < length:
                    b = min(a + BLOCK, length)
                    first = starts[k] + a
                    to = &out[k, a, 0]
                    for i in range(b - a):
                        memcpy(to + i * width, &self._table[self._ids[first + i], 0],
                               width * sizeof(float))
                    for s in range(self._steps.size()):
                        run(self._steps[s], first, b - a, to, width)
                    a = b
