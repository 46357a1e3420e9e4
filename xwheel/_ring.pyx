# distutils: language = c++
# cython: boundscheck=False, wraparound=False, cdivision=True
"""The time ring and the pool selector, compiled; :mod:`xwheel._ring_py` is the same in Python.

Entries are (id, due) pairs in C vectors, in the order of their pushes: one vector for each slot of the revolution
under way, and one for each of the next revolutions, which is dealt out to the slots when its turn comes. So a pair
is touched at most twice, however far ahead it lies. One open-addressing table (linear probing, multiplicative hash,
deletion by shifting back: Knuth, vol. 3, 6.4) knows the due time that counts for each id. Cancelling or moving an
id only touches the table; the pair left in a vector is stale, and is dropped when its tick comes, or by a sweep
once stale pairs outnumber living ones. Batch calls ask the processor for table lines ahead of their use: random ids
miss every cache, and that wait is most of the work.
"""

cimport cython
from cpython.list cimport PyList_New, PyList_SET_ITEM
from cpython.long cimport PyLong_AsLongLongAndOverflow, PyLong_Check, PyLong_FromLongLong
from cpython.mem cimport PyMem_RawCalloc, PyMem_RawFree, PyMem_RawMalloc
from cpython.ref cimport Py_INCREF, PyObject
from cython.operator cimport dereference
from libc.stdint cimport INT64_MAX, INT64_MIN, int64_t, uint32_t, uint64_t
from libcpp.algorithm cimport stable_sort
from libcpp.unordered_map cimport unordered_map
from libcpp.vector cimport vector


cdef enum:
    AHEAD = 16  # table lines asked for in advance; 8 to 32 measure the same
    SPARE = 4096  # stale pairs that are never worth a sweep
    FIRST_BITS = 6
    ROOMY = 1024  # an empty vector with more room than this gives it back
    WARM = 16  # ticks
    BATCH = 1024  # from here on, room is counted out before pushing

cdef extern from *:
    PyObject **PySequence_Fast_ITEMS(object seq)
    Py_ssize_t PySequence_Fast_GET_SIZE(object seq)


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


FAST = 0
SLOW = 1


cdef class PoolSelector:
    """Which trigger pool a job's sends belong in: slow after more than ``count`` slow sends within a window.

    Arguments, errors and the rule are documented at :class:`xwheel._ring_py.PoolSelector`.

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
        """Count a send of a job that took ``cost_ms`` and finished at ``now_ms``."""
        cdef int64_t window = floor_of(now_ms, self._window_ms)
        if window != self._window:
            self._window = window
            self._slow.clear()
        if cost_ms > self._threshold_ms:
            self._slow[job_id] += 1


cdef class _Slots:
    """Pairs of a key and a due time in vectors by their due time; who inherits it says which pairs still count.

    A time is a number of units since any moment; a tick is this many units.
    """

    cdef int _lay_out(self, int64_t start, int64_t tick, Py_ssize_t slots) except -1:
        self._bits = (slots - 1).bit_length()
        self._slots.resize((1 << self._bits) + (1 << FAR_BITS))
        self._earliest.assign(self._slots.size(), INT64_MAX)
        self._width = tick
        self._now = start
        self._tick = self._base_tick = floor_of(start, tick)
        self._base = self._base_tick * tick
        return 0

    cdef int _take(self, size_t place, int64_t now) except -1:
        """Move what is due from a vector to ``_batch``; the rest keeps its order."""
        cdef vector[Entry] *pairs = &self._slots[place]
        cdef size_t i, kept = 0, n = pairs.size()
        cdef Entry *data = pairs.data()
        self._earliest[place] = INT64_MAX
        for i in range(n):
            if data[i].due <= now:
                self._batch.push_back(data[i])
            else:
                self._earliest[place] = min(self._earliest[place], data[i].due)
                data[kept] = data[i]
                kept += 1
        pairs.resize(kept)
        if kept == 0 and pairs.capacity() > ROOMY:
            pairs.shrink_to_fit()
        self._stored -= n - kept
        return 0

    cdef int _deal(self, int64_t lap) except -1:
        """Bring the pairs of the revolution that begins to their slots; time must stand in it already."""
        cdef size_t far = (1 << self._bits) + (lap & ((1 << FAR_BITS) - 1))
        cdef vector[Entry] pairs
        cdef size_t i, place
        pairs.swap(self._slots[far])
        self._earliest[far] = INT64_MAX
        for i in range(pairs.size()):
            place = place_of(self, pairs[i].due)
            self._slots[place].push_back(pairs[i])
            self._earliest[place] = min(self._earliest[place], pairs[i].due)
        return 0

    cdef int _order(self) except -1:
        """Sort ``_batch`` by due time, ties as they stand; a tick has few different times, so they are counted."""
        cdef size_t i, n = self._batch.size()
        cdef int64_t low = INT64_MAX, high = INT64_MIN
        cdef uint64_t spread
        cdef Entry *data = self._batch.data()
        if n < 2:
            return 0
        for i in range(n):
            low = min(low, data[i].due)
            high = max(high, data[i].due)
        spread = <uint64_t>high - <uint64_t>low
        if spread > 2 * n + 64:
            stable_sort(self._batch.begin(), self._batch.end())
            return 0
        self._counts.assign(spread + 2, 0)
        for i in range(n):
            self._counts[data[i].due - low + 1] += 1
        for i in range(1, spread + 1):
            self._counts[i] += self._counts[i - 1]
        self._sorted.resize(n)
        for i in range(n):
            self._sorted[self._counts[data[i].due - low]] = data[i]
            self._counts[data[i].due - low] += 1
        self._batch.swap(self._sorted)
        return 0

    cdef int _collect(self, int64_t now) except -1:
        """Fill ``_ids`` with what is due, in order, and let time stand at ``now``."""
        cdef int64_t last = floor_of(now, self._width)
        cdef size_t place
        if now < self._now:
            return 0
        self._now = now
        if last - self._tick >= 1 << self._bits:  # a stall: all slots, and what else has come due
            self._batch.clear()
            for place in range(self._slots.size()):
                if self._earliest[place] <= now:
                    self._take(place, now)
            self._tick = last
            self._deal(last >> self._bits)
            self._emit()
            return 0
        while True:
            place = self._tick & ((1 << self._bits) - 1)
            self._expect(place)
            if self._earliest[place] <= now:
                self._batch.clear()
                self._take(place, now)
                self._emit()
            if self._tick == last:
                return 0
            self._tick += 1
            if self._tick & ((1 << self._bits) - 1) == 0:
                self._deal(self._tick >> self._bits)

    cdef int _emit(self) except -1:
        """Take over the pairs in ``_batch``, which are due."""
        raise NotImplementedError

    cdef int _expect(self, size_t place) except -1:
        """Make ready for a slot that will be visited."""
        return 0

    cdef int64_t _first(self) noexcept:
        """Return a time before which nothing is due; it may be the time of a pair that no longer counts."""
        cdef int64_t earliest = INT64_MAX
        cdef size_t i
        for i in range(self._earliest.size()):
            earliest = min(earliest, self._earliest[i])
        return earliest


cdef class TimeRing(_Slots):
    """Ids waiting for their due times.

    Args:
        start_ms: Where time stands now, in epoch milliseconds.
        tick_ms: Width of a slot in milliseconds.
        slots: Number of slots; rounded up to a power of two. One revolution is ``tick_ms * slots``; entries may
            lie any number of revolutions ahead.
        limit: Most entries that may be held; None for no limit.

    Raises:
        ValueError: If a width, count or limit is not positive.

    Thread-safety:
        None of its own. One thread owns the ring, or one lock guards every call; no call waits for anything.
    """

    cdef vector[int64_t] _ids  # what the advance under way has found
    cdef _Table _table
    cdef Py_ssize_t _limit
    cdef size_t _warmed
    cdef int64_t _seen

    def __cinit__(self, int64_t start_ms, int64_t tick_ms=20, Py_ssize_t slots=4096, limit=None):
        if tick_ms < 1 or slots < 1 or (limit is not None and limit < 1):
            raise ValueError("tick_ms, slots and limit must be at least 1")
        self._limit = -1 if limit is None else limit
        self._lay_out(start_ms, tick_ms, slots)
        self._table = _Table()

    cdef int _make_room(self, const int64_t *dues, vector[uint32_t] &places) except -1:
        """Find the places of a batch; let each vector grow once, and not a pair at a time."""
        cdef size_t i, place, need
        self._counts.assign(self._slots.size(), 0)
        for i in range(places.size()):
            places[i] = place_of(self, dues[i])
            self._counts[places[i]] += 1
        for place in range(self._slots.size()):
            need = self._slots[place].size() + self._counts[place]
            if need > self._slots[place].capacity():
                if self._slots[place].size() > 0:  # many small batches must not copy it each time
                    need = max(need, self._slots[place].size() * 2)
                self._slots[place].reserve(need)
        return 0

    cdef int _put(self, int64_t key, int64_t due, uint32_t place) except -1:
        """Hold an id, or move it; room in the table is there. Return 0 if the limit is reached."""
        cdef Entry *line = self._table.find(key)
        if line.id == 0:
            if self._table.count == self._limit:
                return 0
            self._table.count += 1
        line.id = key
        line.due = due
        store(self, key, due, place)
        return 1

    def push(self, int64_t run_id, int64_t due_ms):
        """Hold an id (above 0) until its due time; False if the limit is reached. A held id is moved."""
        if run_id < 1:
            raise ValueError(f"run_id must be at least 1, not {run_id}")
        self._table.reserve(1)
        taken = self._put(run_id, due_ms, place_of(self, due_ms)) == 1
        self._sweep_if_stale()
        return taken

    def push_many(self, ids, dues):
        """Push pairs in order, up to the limit; return how many were taken: the first ones.

        Lists and tuples of ints do, and contiguous buffers of signed 64-bit integers are read where they lie.
        A wrong length or id is a ValueError, and nothing is taken.
        """
        cdef _Column keys = _Column(ids), times = _Column(dues)
        cdef Py_ssize_t i, n = keys.size
        cdef bint batch = n >= BATCH
        cdef vector[uint32_t] places
        cdef uint32_t place
        if times.size != n:
            raise ValueError(f"{n} ids but {times.size} due times")
        for i in range(n):
            if keys.data[i] < 1:
                raise ValueError(f"run_id must be at least 1, not {keys.data[i]}")
        self._table.reserve(n if self._limit < 0 else min(n, self._limit - self._table.count))
        if batch:
            places.resize(n)
            self._make_room(times.data, places)
        for i in range(n):
            if i + AHEAD < n:
                self._table.expect(keys.data[i + AHEAD])
            place = places[i] if batch else place_of(self, times.data[i])
            if self._put(keys.data[i], times.data[i], place) == 0:
                n = i
                break
        self._sweep_if_stale()
        return n

    def cancel(self, int64_t run_id):
        """Forget an id; return whether it was held."""
        return self.cancel_many((run_id,)) == 1

    def cancel_many(self, ids):
        """Forget ids; return how many of them were held."""
        cdef _Column keys = _Column(ids)
        cdef Py_ssize_t i, before = self._table.count
        cdef Entry *line
        for i in range(keys.size):
            if i + AHEAD < keys.size:
                self._table.expect(keys.data[i + AHEAD])
            if keys.data[i] > 0:
                line = self._table.find(keys.data[i])
                if line.id != 0:
                    self._table.erase(line)
        self._sweep_if_stale()
        return before - self._table.count

    cdef int _sweep_if_stale(self) except -1:
        """Drop stale pairs once they outnumber the living: constant work for each push and cancel."""
        cdef size_t place, i, kept
        cdef Entry *line
        cdef Entry *pairs
        if self._stored - self._table.count <= self._table.count + SPARE:
            return 0
        self._stored = 0
        for place in range(self._slots.size()):
            pairs = self._slots[place].data()
            kept = 0
            self._earliest[place] = INT64_MAX
            for i in range(self._slots[place].size()):
                line = self._table.find(pairs[i].id)
                if line.id != 0 and line.due == pairs[i].due:
                    self._earliest[place] = min(self._earliest[place], pairs[i].due)
                    pairs[kept] = pairs[i]
                    kept += 1
            self._slots[place].resize(kept)
            self._slots[place].shrink_to_fit()
            self._stored += kept
        return 0

    cdef int _settle(self) except -1:
        """Take the pairs in ``_batch`` from the table, drop the stale ones, put the others in order of due time.

        From the back, since of two equal pairs the later one counts: the id was cancelled and pushed again.
        The living pack themselves at the end, in their order.
        """
        cdef size_t n = self._batch.size()
        cdef size_t i = n, free = n
        cdef Entry *data = self._batch.data()
        cdef Entry *line
        while i > 0:
            i -= 1
            if i >= AHEAD:
                self._table.expect(data[i - AHEAD].id)
            line = self._table.find(data[i].id)
            if line.id != 0 and line.due == data[i].due:
                self._table.erase(line)
                free -= 1
                data[free] = data[i]
        self._batch.erase(self._batch.begin(), self._batch.begin() + free)
        self._order()
        return 0

    cdef int _expect(self, size_t place) except -1:
        """Read the table lines of the ticks to come: together the misses cost little more than one.

        Loads, since a prefetch is dropped where the address translation misses as well.
        """
        cdef size_t slot, i
        cdef int64_t seen = 0
        if place % WARM != 0 or place == self._warmed:
            return 0
        self._warmed = place
        for slot in range(place, min(place + WARM, <size_t>1 << self._bits)):
            for i in range(min(self._slots[slot].size(), <size_t>AHEAD)):
                seen ^= self._table.peek(self._slots[slot][i].id)
        self._seen = seen
        return 0

    cdef int _emit(self) except -1:
        cdef size_t i, n = self._ids.size()
        self._settle()
        self._ids.resize(n + self._batch.size())
        for i in range(self._batch.size()):
            self._ids[n + i] = self._batch[i].id
        return 0

    def advance(self, int64_t now_ms):
        """Let time pass; return the ids due at or before ``now_ms``, by due time, then in order of their pushes.

        Before the last time given, nothing happens.
        """
        cdef size_t i
        self._ids.clear()
        self._collect(now_ms)
        ids = PyList_New(self._ids.size())
        for i in range(self._ids.size()):
            value = PyLong_FromLongLong(self._ids[i])
            Py_INCREF(value)
            PyList_SET_ITEM(ids, i, value)
        return ids

    def next_due_ms(self):
        """Return a time before which nothing is due, or None if nothing is held.

        It is the earliest due time, or earlier where a cancelled or moved entry stood there.
        """
        return None if self._table.count == 0 else self._first()

    def drain(self):
        """Take everything out: (due time, id) in order; for the stop."""
        cdef size_t i
        self._batch.clear()
        for i in range(self._slots.size()):
            self._take(i, INT64_MAX)
        self._settle()
        return [(self._batch[i].due, self._batch[i].id) for i in range(self._batch.size())]

    def __len__(self):
        return self._table.count

    def __contains__(self, run_id):
        return isinstance(run_id, int) and 0 < run_id <= INT64_MAX and self._table.find(run_id).id != 0
