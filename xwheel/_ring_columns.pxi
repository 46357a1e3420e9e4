# Included by _ring.pyx: what C has and Cython does not know, and reading what a caller gives.

cdef extern from *:
    """
    #include <cstdint>
    #if defined(__GNUC__) || defined(__clang__)
    #define XW_PREFETCH(address) __builtin_prefetch(address)
    #else
    #define XW_PREFETCH(address) ((void)0)
    #endif
    #if defined(__linux__)
    #include <sys/mman.h>
    // a large table is read all over: with 2 MiB pages the address translation stays in the processor's cache
    static inline void xw_huge_pages(void *from, size_t size) {
        uintptr_t start = ((uintptr_t)from + 4095) & ~(uintptr_t)4095;
        if (size >= (4u << 20)) (void)madvise((void *)start, size - 8192, MADV_HUGEPAGE);
    }
    #else
    static inline void xw_huge_pages(void *, size_t) {}
    #endif
    struct XwEntry {
        int64_t id;
        int64_t due;
        bool operator<(const XwEntry &other) const { return due < other.due; }
    };
    """
    cdef cppclass Entry "XwEntry":
        int64_t id
        int64_t due
    void prefetch "XW_PREFETCH" (const void *address) noexcept nogil
    void huge_pages "xw_huge_pages" (void *start, size_t size) noexcept nogil
    PyObject **PySequence_Fast_ITEMS(object seq)
    Py_ssize_t PySequence_Fast_GET_SIZE(object seq)


cdef inline int64_t _floor(int64_t number, int64_t by) noexcept nogil:
    # C rounds towards zero, which is another tick before 1970
    return number // by - (1 if number % by < 0 else 0)


cdef class _Column:
    """Integers of a caller as C data: a buffer of 64-bit integers as it is, or a copy of any other sequence."""

    cdef const int64_t *data
    cdef Py_ssize_t size
    cdef const int64_t[::1] _view
    cdef int64_t *_copy

    def __cinit__(self, values):
        if not isinstance(values, (list, tuple)):
            try:
                self._view = values
            except (TypeError, ValueError):
                values = list(values)
            else:
                self.size = self._view.shape[0]
                self.data = &self._view[0] if self.size else NULL
                return
        self._read(values)

    def __dealloc__(self):
        PyMem_RawFree(self._copy)

    cdef int _read(self, object values) except -1:
        cdef PyObject **items = PySequence_Fast_ITEMS(values)
        cdef Py_ssize_t i, n = PySequence_Fast_GET_SIZE(values)
        cdef int overflow = 0
        self._copy = <int64_t *>PyMem_RawMalloc(max(n, 1) * sizeof(int64_t))
        if self._copy == NULL:
            raise MemoryError("no memory for a batch")
        for i in range(n):
            if i + AHEAD < n:
                prefetch(items[i + AHEAD])
            if not PyLong_Check(<object>items[i]):  # nothing below runs code that could change the list
                raise TypeError(f"ids and due times are integers, not {type(<object>items[i]).__name__}")
            # unlike PyLong_AsLongLong, this one has a short way for numbers above 30 bits
            self._copy[i] = PyLong_AsLongLongAndOverflow(<object>items[i], &overflow)
            if overflow != 0:
                raise OverflowError("ids and due times are signed 64-bit integers")
        self.data = self._copy
        self.size = n
        return 0
