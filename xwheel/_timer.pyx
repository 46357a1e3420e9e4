# distutils: language = c++
# cython: boundscheck=False, wraparound=False, cdivision=True
"""The wheel of timeouts, compiled; :mod:`xwheel._timer_py` is the same in Python.

Pairs lie in vectors as those of the time ring do. Here a pair leads to an object, which knows itself whether it still
counts; a cancelled one is let go when its tick comes, or by a sweep once cancelled ones outnumber those that wait.
"""

cimport cython
from cpython.ref cimport Py_DECREF, Py_INCREF, PyObject
from libc.math cimport floor
from libc.stdint cimport INT64_MAX, int64_t
from libcpp.vector cimport vector
from xwheel._ring cimport Entry, _Slots, place_of, prefetch, store

import sys

from xwheel.errors import TimerFullError, TimerStoppedError


cdef enum:
    AHEAD = 16  # objects asked for in advance
    SPARE = 4096  # cancelled timeouts that are never worth a sweep
    WAITING = 0
    CANCELLED = 1
    EXPIRED = 2
    NS = 1_000_000_000
    FARTHEST = 9_000_000_000  # seconds: as nanoseconds, 64 bits hold it


cdef class _Count:
    """How many timeouts of a wheel wait; the timeouts know this object, and so do not keep their wheel alive."""

    cdef Py_ssize_t waiting


@cython.final
@cython.no_gc  # what waits is held by its wheel, what does not wait holds nothing: the collector need not see a million
@cython.freelist(1024)
cdef class Timeout:
    """A call that waits in a wheel; see :class:`xwheel._timer_py.Timeout`."""

    cdef object _callback, _args
    cdef _Count _count
    cdef readonly double when
    cdef int _state

    def __init__(self):
        raise TypeError("a Timeout is what schedule() returns")

    @property
    def callback(self):
        return self._callback

    @property
    def args(self):
        return self._args

    @property
    def is_cancelled(self):
        return self._state == CANCELLED

    @property
    def is_expired(self):
        return self._state == EXPIRED

    def cancel(self):
        """Give the call up; return whether this kept it from being made."""
        if self._state != WAITING:
            return False
        _callback, _args = self._callback, self._args  # let go of at the end, since that may run anything
        self._leave(CANCELLED)
        return True

    def __repr__(self):
        state = ("waiting", "cancelled", "expired")[self._state]
        return f"<Timeout {state} when={self.when:.6f} callback={self._callback!r}>"

    cdef inline int _leave(self, int state) except -1:
        self._state = state
        self._callback = self._args = None
        if self._count is not None:
            self._count.waiting -= 1
            self._count = None
        return 0


cdef class TimeoutWheel(_Slots):
    """Timeouts by their times; arguments, errors and rules are documented at :class:`xwheel._timer_py.TimeoutWheel`.

    Thread-safety:
        All calls may come from any thread: between them stands the interpreter's lock. One :meth:`run_due` works at a
        time; a second one does nothing.
    """

    cdef object _clock
    cdef public object _submit
    cdef public double _wake_at
    cdef public bint _closed
    cdef bint _running
    cdef _Count _count
    cdef Py_ssize_t _limit
    cdef vector[Entry] _due  # taken out, and not called yet from _at on
    cdef size_t _at

    def __cinit__(self, *args, **named):
        self._lay_out(0, 1, 1)
        self._count = _Count()
        self._wake_at = -FARTHEST

    def __init__(self, clock, double tick_s=0.001, Py_ssize_t slots=4096, limit=None):
        cdef double now = clock()
        if not 1e-6 <= tick_s <= 3600:
            raise ValueError(f"tick_s: 0.000001 to 3600 seconds, not {tick_s}")
        if not 1 <= slots <= 1 << 24:
            raise ValueError(f"slots: 1 to 16777216, not {slots}")
        if limit is not None and limit < 1:
            raise ValueError(f"limit: at least 1, or None, not {limit}")
        if self._stored or self._due.size():
            raise RuntimeError("a wheel that holds timeouts cannot be set up again")
        self._clock = clock
        self._limit = sys.maxsize if limit is None else limit
        self._lay_out(_nanoseconds(now, "clock"), <int64_t>(tick_s * NS), slots)

    def __dealloc__(self):
        cdef size_t place, i
        for place in range(self._slots.size()):
            for i in range(self._slots[place].size()):
                Py_DECREF(_timeout(self._slots[place][i]))
        for i in range(self._at, self._due.size()):
            Py_DECREF(_timeout(self._due[i]))

    def schedule(self, double delay_s, callback, *args):
        """Make a call ``delay_s`` seconds from now, or at once if that is not above 0."""
        return self._hold(<double>self._clock() + delay_s, callback, args)

    def schedule_at(self, double when, callback, *args):
        """Make a call at this time of the clock."""
        return self._hold(when, callback, args)

    cdef Timeout _hold(self, double when, object callback, tuple args):
        cdef int64_t due = _nanoseconds(when, "delay_s")
        cdef Timeout timeout = Timeout.__new__(Timeout)  # first, since the collector may run anything now
        if not callable(callback):
            raise TypeError(f"callback: a function is needed, not {type(callback).__name__}")
        if self._closed:
            raise TimerStoppedError("the timer was stopped")
        if self._count.waiting >= self._limit:
            raise TimerFullError(f"{self._limit} timeouts wait, which is the limit of this timer")
        timeout.when = when
        timeout._callback = callback
        timeout._args = args
        timeout._count = self._count
        if self._stored - self._count.waiting > self._count.waiting + SPARE:
            self._sweep()
        store(self, <int64_t><Py_ssize_t><PyObject *>timeout, due, place_of(self, due))
        Py_INCREF(timeout)
        self._count.waiting += 1
        if when < self._wake_at:
            try:
                self._sooner(when)
            except BaseException:
                timeout.cancel()
                raise
        return timeout

    cdef int _sweep(self) except -1:
        """Let go of what was cancelled, once that is more than what waits."""
        cdef size_t place, i, kept
        cdef Entry *pairs
        self._stored = 0
        for place in range(self._slots.size()):
            pairs = self._slots[place].data()
            kept = 0
            self._earliest[place] = INT64_MAX
            for i in range(self._slots[place].size()):
                if i + AHEAD < self._slots[place].size():
                    prefetch(<void *><Py_ssize_t>pairs[i + AHEAD].id)
                if _timeout(pairs[i])._state == WAITING:
                    self._earliest[place] = min(self._earliest[place], pairs[i].due)
                    pairs[kept] = pairs[i]
                    kept += 1
                else:
                    Py_DECREF(_timeout(pairs[i]))
            self._slots[place].resize(kept)
            self._slots[place].shrink_to_fit()
            self._stored += kept
        return 0

    cdef int _emit(self) except -1:
        """Add what still waits in ``_batch`` to ``_due``, in order; let go of the rest."""
        cdef size_t i, kept = 0
        cdef Entry *pairs = self._batch.data()
        for i in range(self._batch.size()):
            if i + AHEAD < self._batch.size():
                prefetch(<void *><Py_ssize_t>pairs[i + AHEAD].id)
            if _timeout(pairs[i])._state == WAITING:
                pairs[kept] = pairs[i]
                kept += 1
            else:
                Py_DECREF(_timeout(pairs[i]))
        self._batch.resize(kept)
        self._order()
        self._due.insert(self._due.end(), self._batch.begin(), self._batch.end())
        return 0

    def run_due(self, double now):
        """Make the calls that are due at this time of the clock, in order; return how many."""
        cdef Py_ssize_t made = 0
        cdef Timeout timeout
        if self._running:
            return 0
        self._running = True
        try:
            self._collect(_nanoseconds(now, "now"))
            while self._at < self._due.size() and not self._closed:
                timeout = _timeout(self._due[self._at])
                self._at += 1
                Py_DECREF(timeout)  # the variable holds it
                if timeout._state != WAITING:
                    continue
                callback, args = timeout._callback, timeout._args
                timeout._leave(EXPIRED)
                made += 1
                try:
                    if self._submit is None:
                        (<object>callback)(*<tuple>args)
                    else:
                        self._submit(self._guarded, callback, args)
                except BaseException as error:
                    self._failed(callback, error)
        finally:
            self._running = False
            if self._at == self._due.size():
                self._due.clear()
                self._at = 0
        return made

    def _guarded(self, callback, args):
        """Make a call; what it raises goes to :meth:`_failed`."""
        try:
            callback(*args)
        except BaseException as error:
            self._failed(callback, error)

    def _failed(self, callback, error):
        """Be told what a call raised."""
        raise error

    def _sooner(self, when):
        """Be told of a timeout before ``_wake_at``."""

    def _after_fork(self):
        """Forget, in a child process, that another thread makes calls."""
        self._running = False

    def next_when(self):
        """Return a time of the clock before which nothing is due, or None if nothing waits."""
        if self._count.waiting == 0:
            return None
        if self._at < self._due.size():
            return _timeout(self._due[self._at]).when
        return <double>self._first() / NS

    def drain(self):
        """Take out all that wait, in order; they will not be called."""
        cdef size_t i
        cdef Timeout timeout
        cdef vector[Entry] rest
        self._batch.clear()
        for i in range(self._slots.size()):
            self._take(i, INT64_MAX)
        self._emit()
        rest.insert(rest.end(), self._due.begin() + self._at, self._due.end())
        self._due.clear()
        self._at = 0
        left = []
        for i in range(rest.size()):
            timeout = _timeout(rest[i])
            Py_DECREF(timeout)
            if timeout._state == WAITING:
                self._count.waiting -= 1
                timeout._count = None
                left.append(timeout)
        return left

    def __len__(self):
        return self._count.waiting


cdef inline Timeout _timeout(Entry pair):
    return <Timeout><PyObject *><Py_ssize_t>pair.id


cdef int64_t _nanoseconds(double seconds, str name) except? -1:
    if not -FARTHEST < seconds < FARTHEST:
        raise ValueError(f"{name}: {seconds} is not a time within 285 years of the clock's zero, in seconds")
    return <int64_t>floor(seconds * NS)
