"""Who gets a run.

``executors`` knows who is registered and alive, ``secrets`` what each is called with, ``loads`` how busy they
are; ``choose`` asks the job's router, ``async_choose`` does so on threads for routers that ask executors, by
``probes``, or are not trusted.
"""
