"""From planned runs that are due to calls that are ready: the tick thread.

``tick`` holds the ring, ``batch`` takes what is due and routed through places, ``limits`` and the ``fence``;
``deferred`` holds what may not go yet.
"""
