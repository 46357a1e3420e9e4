"""Who gets a run: ``(run, job, live executors)`` to executors, one for each shard.

``due`` reads what is due and says what waits for an executor; ``choose`` asks the job's router on the tick thread;
``async_choose`` does so on threads of their own for routers that ask executors, by ``probes``, or are not trusted.
"""
