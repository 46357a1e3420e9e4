"""From an accepted run to its outcome.

``worker`` starts and ends runs, each an ``execution``; ``runners`` call handlers on threads (``pool``) or an
event loop, ``process`` in a process of its own (``supervisor``, ``child``); ``interrupts`` end threads.
"""
