# Included by _ring.pyx: the pool selector.

FAST = 0
SLOW = 1


cdef class PoolSelector:
    """Which trigger pool a job's sends belong in: slow after more than ``count`` slow sends within a window.

    Arguments, errors and the rule are told at :class:`xwheel._ring_py.PoolSelector`.

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
        cdef int64_t window = _floor(now_ms, self._window_ms)
        if window != self._window:
            self._window = window
            self._slow.clear()
        if cost_ms > self._threshold_ms:
            self._slow[job_id] += 1
