"""Why a job did not run at a due time, or ran late: one cause, in words, with the rows that say so.

``gathering`` reads rows: ``storage`` has those of versions, ``due_times`` finds due times of a schedule, ``audit``
tells who did what. They come together in ``facts``, of which ``explaining``, a pure function, makes the verdict; its
words for runs are in ``of_runs``, those for due times without a run in ``without_run``. ``resources`` and ``messages``
are the call, ``commands`` the command.
"""
