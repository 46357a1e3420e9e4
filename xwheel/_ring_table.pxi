# Included by _ring.pyx: which ids are held, and the due time that counts for each.


@cython.final
cdef class _Table:
    """Open addressing: linear probing, multiplicative hash, deletion by shifting back (Knuth, vol. 3, 6.4)."""

    cdef Entry *_table
    cdef uint64_t _mask
    cdef int _shift
    cdef Py_ssize_t count

    def __cinit__(self):
        self._allocate(FIRST_BITS)

    def __dealloc__(self):
        PyMem_RawFree(self._table)

    cdef int _allocate(self, int bits) except -1:
        # the system's allocator hands out fresh zero pages, where Python's writes every byte
        cdef Entry *table = <Entry *>PyMem_RawCalloc(<size_t>1 << bits, sizeof(Entry))
        if table == NULL:
            raise MemoryError("no memory for the ring's table")
        huge_pages(table, sizeof(Entry) << bits)
        self._table = table
        self._mask = (<uint64_t>1 << bits) - 1
        self._shift = 64 - bits
        return 0

    cdef inline uint64_t home(self, int64_t key) noexcept nogil:
        return (<uint64_t>key * <uint64_t>0x9E3779B97F4A7C15) >> self._shift

    cdef inline Entry *find(self, int64_t key) noexcept nogil:
        """Return the id's line in the table, or the empty line where it would be."""
        cdef uint64_t at = self.home(key)
        while self._table[at].id != key and self._table[at].id != 0:
            at = (at + 1) & self._mask
        return &self._table[at]

    cdef inline void erase(self, Entry *line) noexcept nogil:
        """Empty a line and shift back what had to go past it."""
        cdef uint64_t hole = line - self._table
        cdef uint64_t at = hole
        while True:
            at = (at + 1) & self._mask
            if self._table[at].id == 0:
                break
            if ((at - self.home(self._table[at].id)) & self._mask) >= ((at - hole) & self._mask):
                self._table[hole] = self._table[at]
                hole = at
        self._table[hole].id = 0
        self.count -= 1

    cdef int reserve(self, Py_ssize_t more) except -1:
        """Make room for more ids: the table stays at most three quarters full."""
        cdef Entry *old = self._table
        cdef uint64_t i, size = self._mask + 1
        cdef int bits = 64 - self._shift
        while <uint64_t>(self.count + more) * 4 > (<uint64_t>1 << bits) * 3:
            bits += 1
        if bits == 64 - self._shift:
            return 0
        self._allocate(bits)
        for i in range(size):
            if old[i].id != 0:
                self.find(old[i].id)[0] = old[i]
        PyMem_RawFree(old)
        return 0

    cdef inline void expect(self, int64_t key) noexcept nogil:
        prefetch(&self._table[self.home(key)])

    cdef inline int64_t peek(self, int64_t key) noexcept nogil:
        return self._table[self.home(key)].id
