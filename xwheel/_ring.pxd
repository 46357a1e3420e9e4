# distutils: language = c++
# cython: boundscheck=False, wraparound=False, cdivision=True
"""What the wheel of timeouts shares with the time ring."""

from libc.stdint cimport int64_t, uint32_t, uint64_t
from libcpp.vector cimport vector


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


cdef enum:
    FAR_BITS = 8  # 256 revolutions have a vector of their own; what lies further waits for its turn in one of them


cdef class _Slots:
    cdef vector[vector[Entry]] _slots  # the slots, then the revolutions ahead
    cdef vector[int64_t] _earliest  # for each of these: no pair in it is due before this
    cdef vector[Entry] _batch, _sorted
    cdef vector[uint32_t] _counts
    cdef int _bits
    cdef Py_ssize_t _stored
    cdef int64_t _width, _now, _tick, _base_tick, _base

    cdef int _lay_out(self, int64_t start, int64_t tick, Py_ssize_t slots) except -1
    cdef int _take(self, size_t place, int64_t now) except -1
    cdef int _deal(self, int64_t lap) except -1
    cdef int _order(self) except -1
    cdef int _collect(self, int64_t now) except -1
    cdef int _emit(self) except -1
    cdef int _expect(self, size_t place) except -1
    cdef int64_t _first(self) noexcept


cdef inline int64_t floor_of(int64_t number, int64_t by) noexcept nogil:
    # C rounds towards zero, which is another tick before 1970
    return number // by - (1 if number % by < 0 else 0)


cdef inline int64_t tick_of(_Slots slots, int64_t due) noexcept nogil:
    # a 32-bit division takes a third of the time, and reaches seven weeks past the start
    cdef uint64_t delta = <uint64_t>due - <uint64_t>slots._base
    if delta >> 32 == 0 and slots._width >> 32 == 0:
        return slots._base_tick + <uint32_t>delta // <uint32_t>slots._width
    return floor_of(due, slots._width)


cdef inline uint32_t place_of(_Slots slots, int64_t due) noexcept nogil:
    """Return which vector a pair belongs in now."""
    cdef int64_t tick = max(tick_of(slots, due), slots._tick)
    cdef int64_t lap = tick >> slots._bits
    if lap == slots._tick >> slots._bits:
        return tick & ((1 << slots._bits) - 1)
    return (1 << slots._bits) + (lap & ((1 << FAR_BITS) - 1))


cdef inline int store(_Slots slots, int64_t key, int64_t due, size_t place) except -1:
    cdef Entry entry
    entry.id = key
    entry.due = due
    slots._slots[place].push_back(entry)
    slots._stored += 1
    if due < slots._earliest[place]:
        slots._earliest[place] = due
    return 0
