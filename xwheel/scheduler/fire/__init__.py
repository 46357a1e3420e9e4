"""From planned runs that are due, through the fence, to calls that are ready: the tick thread.

``tick`` holds the ring, ``batch`` takes what is due and routed through places, ``limits`` and the ``fence``;
``deferred`` holds what may not go yet.
"""
