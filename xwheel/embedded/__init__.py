"""Embedded mode: a node and an executor inside one Python process, on SQLite.

::

    from xwheel import embedded

    scheduler = embedded.EmbeddedScheduler("schedule")

    @scheduler.job(every="2s")
    def greet():
        print("hello")

    scheduler.run_forever()

``declarations`` makes jobs of functions. ``scheduler`` contends for the lock of the ``folder``; the process that has it
builds a ``leader``, which writes the declared ``jobs`` to the database and starts node and executor. The others stand
by, and trigger runs through the leader's management API.
"""

from __future__ import annotations

from xwheel.embedded.scheduler import EmbeddedScheduler
from xwheel.executor import JobContext, current_job

__all__ = ["EmbeddedScheduler", "JobContext", "current_job"]
