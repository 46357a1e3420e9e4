# distutils: language = c++
# cython: boundscheck=False, wraparound=False, cdivision=True
"""The time ring and the pool selector, compiled; :mod:`xwheel._ring_py` is the same in Python.

A slot is a vector of (id, due) pairs in the order of their pushes. One open-addressing table (linear probing,
Knuth's multiplicative hash, deletion by shifting back) knows the due time that counts for each id. Cancelling or
moving an id only touches the table; the pair that is left in a slot is stale, and is dropped when its slot is
visited, or by a sweep once stale pairs outnumber living ones. Batch calls ask the processor for table lines
ahead of their use: random ids miss every cache, and that wait is most of the work.
"""

from cpython.array cimport array, clone
from cpython.list cimport PyList_New, PyList_SET_ITEM
from cpython.long cimport PyLong_AsLongLong, PyLong_FromLongLong
from cpython.mem cimport PyMem_Calloc, PyMem_Free
from cpython.ref cimport Py_INCREF, PyObject
from cpython.sequence cimport PySequence_Fast
from libc.stdint cimport INT64_MAX, int64_t, uint64_t
from libcpp.algorithm cimport stable_sort
from cython.operator cimport dereference
from libcpp.unordered_map cimport unordered_map
from libcpp.vector cimport vector

from array import array as _array


cdef extern from *:
    """
    #include <cstdint>
    #if defined(__GNUC__) || defined(__clang__)
    #define XW_PREFETCH(address) __builtin_prefetch(address)
    #else
    #define XW_PREFETCH(address) ((void)0)
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
    PyObject **PySequence_Fast_ITEMS(object seq)
    Py_ssize_t PySequence_Fast_GET_SIZE(object seq)


cdef enum:
    AHEAD = 12  # table lines asked for in advance; 8 to 24 measure the same
    SPARE = 4096  # stale pairs that are never worth a sweep
    FIRST_BITS = 6

FAST = 0
SLOW = 1

cdef array _template = _array("q")


cdef inline int64_t _floor(int64_t number, int64_t by) noexcept nogil:
    # C rounds towards zero, which is another tick before 1970
    return number // by - (1 if number % by < 0 else 0)


cdef inline int64_t _modulo(int64_t number, int64_t by) noexcept nogil:
    cdef int64_t rest = number % by
    return rest + by if rest < 0 else rest


cdef int _read(object values, vector[int64_t] &into) except -1:
    """Copy a sequence of Python ints, or a buffer of 64-bit integers, into a C vector."""
    cdef const int64_t[::1] view
    cdef PyObject **items
    cdef Py_ssize_t i, n
    if not isinstance(values, (list, tuple)):
        try:
            view = values
        except (TypeError, ValueError):
            values = list(values)
        else:
            n = view.shape[0]
            into.resize(n)
            for i in range(n):
                into[i] = view[i]
            return 0
    fast = PySequence_Fast(values, "a sequence of integers is needed")
    n = PySequence_Fast_GET_SIZE(fast)
    into.resize(n)
    items = PySequence_Fast_ITEMS(fast)
    for i in range(n):
        into[i] = PyLong_AsLongLong(<object>items[i])
    return 0


cdef class TimeRing:
    """Ids waiting for their due times.

    Args:
        start_ms: Where time stands now, in epoch milliseconds.
        tick_ms: Width of a slot in milliseconds.
        slots: Number of slots. One revolution is ``tick_ms * slots``; entries may lie further ahead, but are
            looked at once per revolution.
        limit: Most entries that may be held; None for no limit.

    Raises:
        ValueError: If a width, count or limit is not positive.

    Thread-safety:
        None of its own. One thread owns the ring, or one lock guards every call; no call waits for anything.
    """

    cdef vector[vector[Entry]] _slots
    cdef vector[int64_t] _earliest  # per slot: no pair in it is due before this
    cdef vector[Entry] _out  # what the advance under way has found
    cdef Entry *_table
    cdef uint64_t _mask
    cdef int _shift
    cdef Py_ssize_t _count, _stored, _limit
    cdef int64_t _tick_ms, _now, _tick

    def __cinit__(self, int64_t start_ms, int64_t tick_ms=20, Py_ssize_t slots=4096, limit=None):
        if tick_ms < 1 or slots < 1 or (limit is not None and limit < 1):
            raise ValueError("tick_ms, slots and limit must be at least 1")
        self._slots.resize(slots)
        self._earliest.assign(slots, INT64_MAX)
        self._limit = -1 if limit is None else limit
        self._tick_ms = tick_ms
        self._now = start_ms
        self._tick = _floor(start_ms, tick_ms)
        self._new_table(FIRST_BITS)

    def __dealloc__(self):
        PyMem_Free(self._table)

    cdef int _new_table(self, int bits) except -1:
        cdef Entry *table = <Entry *>PyMem_Calloc(<size_t>1 << bits, sizeof(Entry))
        if table == NULL:
            raise MemoryError("no memory for the ring's table")
        self._table = table
        self._mask = (<uint64_t>1 << bits) - 1
        self._shift = 64 - bits
        return 0

    cdef inline uint64_t _home(self, int64_t key) noexcept nogil:
        return (<uint64_t>key * <uint64_t>0x9E3779B97F4A7C15) >> self._shift

    cdef inline Entry *_find(self, int64_t key) noexcept nogil:
        """Return the id's place in the table, or the empty place where it would be."""
        cdef uint64_t at = self._home(key)
        while self._table[at].id != key and self._table[at].id != 0:
            at = (at + 1) & self._mask
        return &self._table[at]

    cdef inline void _erase(self, Entry *place) noexcept nogil:
        """Empty a place and shift back what was pushed on by it (Knuth, vol. 3, 6.4, algorithm R)."""
        cdef uint64_t hole = place - self._table
        cdef uint64_t at = hole
        while True:
            at = (at + 1) & self._mask
            if self._table[at].id == 0:
                break
            if ((at - self._home(self._table[at].id)) & self._mask) >= ((at - hole) & self._mask):
                self._table[hole] = self._table[at]
                hole = at
        self._table[hole].id = 0
        self._count -= 1

    cdef int _reserve(self, Py_ssize_t more) except -1:
        """Make room for more ids: the table stays at most three quarters full."""
        cdef Entry *old = self._table
        cdef uint64_t i, size = self._mask + 1
        cdef int bits = 64 - self._shift
        while <uint64_t>(self._count + more) * 4 > (<uint64_t>1 << bits) * 3:
            bits += 1
        if bits == 64 - self._shift:
            return 0
        self._new_table(bits)
        for i in range(size):
            if old[i].id != 0:
                self._find(old[i].id)[0] = old[i]
        PyMem_Free(old)
        return 0

    cdef int _put(self, int64_t key, int64_t due) except -1:
        """Hold an id, or move it; room in the table is there. Return 0 if the limit is reached."""
        cdef Entry *place = self._find(key)
        cdef Entry entry
        cdef int64_t slot
        if place.id == 0:
            if self._count == self._limit:
                return 0
            self._count += 1
        entry.id = key
        entry.due = due
        place[0] = entry
        slot = _modulo(max(_floor(due, self._tick_ms), self._tick), self._slots.size())
        self._slots[slot].push_back(entry)
        self._stored += 1
        if due < self._earliest[slot]:
            self._earliest[slot] = due
        return 1

    def push(self, int64_t run_id, int64_t due_ms):
        """Hold an id until its due time; an id that is held already is moved.

        Args:
            run_id: A positive integer below 2**63.
            due_ms: When it is due, in epoch milliseconds; the past means the next :meth:`advance`.

        Returns:
            False if the limit is reached and nothing was taken.
        """
        if run_id < 1:
            raise ValueError(f"run_id must be at least 1, not {run_id}")
        self._reserve(1)
        taken = self._put(run_id, due_ms) == 1
        self._sweep_if_stale()
        return taken

    def push_many(self, ids, dues):
        """Push pairs in order, up to the limit.

        Args:
            ids: Positive integers: a list, a tuple or a contiguous buffer of signed 64-bit integers.
            dues: As many due times, in epoch milliseconds.

        Returns:
            How many were taken; they are the first ones.

        Raises:
            ValueError: If lengths differ or an id is not positive; nothing is taken then.
        """
        cdef vector[int64_t] keys, times
        cdef Py_ssize_t i, n
        _read(ids, keys)
        _read(dues, times)
        n = keys.size()
        if <Py_ssize_t>times.size() != n:
            raise ValueError(f"{n} ids but {times.size()} due times")
        for i in range(n):
            if keys[i] < 1:
                raise ValueError(f"run_id must be at least 1, not {keys[i]}")
        self._reserve(n if self._limit < 0 else min(n, self._limit - self._count))
        for i in range(n):
            if i + AHEAD < n:
                prefetch(&self._table[self._home(keys[i + AHEAD])])
            if self._put(keys[i], times[i]) == 0:
                n = i
                break
        self._sweep_if_stale()
        return n

    def cancel(self, int64_t run_id):
        """Forget an id; tell whether it was held."""
        cdef Entry *place
        if run_id < 1:
            return False
        place = self._find(run_id)
        if place.id == 0:
            return False
        self._erase(place)
        self._sweep_if_stale()
        return True

    def cancel_many(self, ids):
        """Forget ids; return how many of them were held."""
        cdef vector[int64_t] keys
        cdef Py_ssize_t i, n, before = self._count
        cdef Entry *place
        _read(ids, keys)
        n = keys.size()
        for i in range(n):
            if i + AHEAD < n:
                prefetch(&self._table[self._home(keys[i + AHEAD])])
            if keys[i] > 0:
                place = self._find(keys[i])
                if place.id != 0:
                    self._erase(place)
        self._sweep_if_stale()
        return before - self._count

    cdef int _sweep_if_stale(self) except -1:
        """Drop stale pairs once they outnumber the living: constant work for each push and cancel."""
        cdef size_t i
        if self._stored - self._count > self._count + SPARE:
            for i in range(self._slots.size()):
                self._sweep(i)
        return 0

    cdef int _sweep(self, size_t slot) except -1:
        cdef vector[Entry] *pairs = &self._slots[slot]
        cdef Entry *place
        cdef size_t i, kept = 0, n = pairs.size()
        cdef int64_t earliest = INT64_MAX
        cdef Entry *data = pairs.data()
        for i in range(n):
            place = self._find(data[i].id)
            if place.id != 0 and place.due == data[i].due:
                earliest = min(earliest, data[i].due)
                data[kept] = data[i]
                kept += 1
        pairs.resize(kept)
        pairs.shrink_to_fit()
        self._stored -= n - kept
        self._earliest[slot] = earliest
        return 0

    cdef int _visit(self, size_t slot, int64_t now) except -1:
        """Move what is due from a slot to the end of ``_out``; the rest keeps its order."""
        cdef vector[Entry] *pairs = &self._slots[slot]
        cdef size_t i, kept = 0, n = pairs.size()
        cdef int64_t earliest = INT64_MAX
        cdef Entry *data = pairs.data()
        for i in range(n):
            if data[i].due <= now:
                self._out.push_back(data[i])
            else:
                if data[i].due < earliest:
                    earliest = data[i].due
                data[kept] = data[i]
                kept += 1
        pairs.resize(kept)
        self._stored -= n - kept
        self._earliest[slot] = earliest
        return 0

    cdef int _settle(self, size_t first) except -1:
        """Take from the table what was gathered in ``_out`` from ``first`` on; order it by due time.

        From the back, since of two equal pairs the later one counts: the id was cancelled and pushed again.
        The living pack themselves at the end, in their order.
        """
        cdef size_t n = self._out.size()
        cdef size_t i = n, free = n
        cdef Entry *data = self._out.data()
        cdef Entry *place
        while i > first:
            i -= 1
            if i >= first + AHEAD:
                prefetch(&self._table[self._home(data[i - AHEAD].id)])
            place = self._find(data[i].id)
            if place.id != 0 and place.due == data[i].due:
                self._erase(place)
                free -= 1
                data[free] = data[i]
        if free > first:
            self._out.erase(self._out.begin() + first, self._out.begin() + free)
        if self._out.size() > first + 1:
            stable_sort(self._out.begin() + first, self._out.end())
        return 0

    cdef int _collect(self, int64_t now) except -1:
        """Fill ``_out`` with what is due, in order, and let time stand at ``now``."""
        cdef int64_t tick, last = _floor(now, self._tick_ms)
        cdef int64_t slots = self._slots.size()
        cdef int64_t slot
        cdef size_t first
        cdef bint lapped = last - self._tick >= slots
        self._out.clear()
        if now < self._now:
            return 0
        for tick in range(self._tick, self._tick + slots if lapped else last + 1):
            slot = _modulo(tick, slots)
            if self._earliest[slot] <= now:
                first = self._out.size()
                self._visit(slot, now)
                if not lapped:
                    self._settle(first)
        if lapped:  # one slot gives pairs of several laps, so they are put in order together
            self._settle(0)
        self._now = now
        self._tick = last
        return 0

    def advance(self, int64_t now_ms):
        """Let time pass and take out what is due.

        Args:
            now_ms: The time now, in epoch milliseconds. Before the last time given, nothing happens.

        Returns:
            Ids due at or before ``now_ms``, in order of due time, then of their pushes.
        """
        cdef size_t i
        self._collect(now_ms)
        ids = PyList_New(self._out.size())
        for i in range(self._out.size()):
            value = PyLong_FromLongLong(self._out[i].id)
            Py_INCREF(value)
            PyList_SET_ITEM(ids, i, value)
        return ids

    def advance_array(self, int64_t now_ms):
        """Like :meth:`advance`, but give an ``array('q')``."""
        cdef size_t i
        cdef array ids
        self._collect(now_ms)
        ids = clone(_template, self._out.size(), False)
        for i in range(self._out.size()):
            ids.data.as_longlongs[i] = self._out[i].id
        return ids

    def next_due_ms(self):
        """Return a time before which nothing is due, in epoch milliseconds, or None if nothing is held.

        It is the earliest due time, or earlier where a cancelled or moved entry stood there.
        """
        cdef int64_t earliest = INT64_MAX
        cdef size_t i
        if self._count == 0:
            return None
        for i in range(self._earliest.size()):
            earliest = min(earliest, self._earliest[i])
        return earliest

    def drain(self):
        """Take everything out: (due time in epoch milliseconds, id), in order; for the stop."""
        cdef size_t i
        self._out.clear()
        for i in range(self._slots.size()):
            self._visit(i, INT64_MAX)
        self._settle(0)
        return [(self._out[i].due, self._out[i].id) for i in range(self._out.size())]

    def __len__(self):
        return self._count

    def __contains__(self, run_id):
        return isinstance(run_id, int) and 0 < run_id <= INT64_MAX and self._find(run_id).id != 0


cdef class PoolSelector:
    """Which trigger pool a job's sends belong in, by XXL-JOB's rule.

    A send that took longer than the threshold counts against its job; a job with more than ``count`` of them is
    slow. All counters start again when a send finishes in another window than the last one did, so memory holds
    at most the jobs that were slow within one window.

    Args:
        threshold_ms: A send that took longer is a slow one.
        count: A job with more slow sends than this goes to the slow pool.
        window_ms: Length of a window; windows start at multiples of it since the epoch.

    Raises:
        ValueError: If the window is not positive, or the threshold or count is negative.

    Thread-safety:
        None of its own. One thread owns the selector, or one lock guards every call.
    """

    cdef unordered_map[int64_t, int64_t] _slow
    cdef int64_t _threshold_ms, _count, _window_ms, _window

    def __cinit__(self, int64_t threshold_ms=500, int64_t count=10, int64_t window_ms=60_000):
        if window_ms < 1 or threshold_ms < 0 or count < 0:
            raise ValueError("window_ms must be at least 1, threshold_ms and count at least 0")
        self._threshold_ms = threshold_ms
        self._count = count
        self._window_ms = window_ms
        self._window = 0

    def choose(self, int64_t job_id):
        """Return :data:`FAST` or :data:`SLOW` for the job's next send."""
        it = self._slow.find(job_id)
        return SLOW if it != self._slow.end() and dereference(it).second > self._count else FAST

    def record(self, int64_t job_id, int64_t cost_ms, int64_t now_ms):
        """Count a finished send.

        Args:
            job_id: Whose send it was.
            cost_ms: How long it took, in milliseconds.
            now_ms: When it finished, in epoch milliseconds.
        """
        cdef int64_t window = _floor(now_ms, self._window_ms)
        if window != self._window:
            self._window = window
            self._slow.clear()
        if cost_ms > self._threshold_ms:
            self._slow[job_id] += 1
