"""Faults on purpose: each begins and ends when a test says so, and leaves nothing behind.

``fault`` says what a fault is: it begins and ends, and both may be called again for nothing. ``proxy`` stands between
any two that talk over TCP: it delays, cuts, resets, goes silent, and loses answers. ``processes`` freezes and kills a
process with all that it started. ``database`` stops, kills and freezes a server, and makes it read-only. ``clocks``
gives processes and servers a wall clock that steps (by ``wall_clock.c``). ``plugins`` gives a node a router, a schedule
type, an alarm channel and a run listener (``faulty``) that hang, lie and raise. ``disks`` gives processes a small disk
that is filled.
"""
