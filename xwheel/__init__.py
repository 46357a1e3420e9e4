"""xwheel: a distributed job scheduler that speaks XXL-JOB's wire protocol.

The way of a fire, in ten lines. A *job* row says what to run and when. ``claim`` finds due jobs, ``plan`` decides,
purely, and both the *run* rows and the job's next fire time are written in one transaction. ``adopt`` picks up
planned rows that nobody holds: after a restart, a run-now, a retry. The *ring* keeps what is due within the pre-read
window and gives it back on time. ``route`` chooses the address, the *trigger pool* gives it a place in the fast or
the slow lane, the *fence* writes both down and is the last moment at which a stop or an edit can prevent the run.
``dispatch`` sends. The executor's *outcome* comes back as a callback and is committed before it is answered; what
follows from it, such as a retry, is planned in the same transaction. Memory is only ever a cache of rows.
"""

__version__ = "0.1.0"
