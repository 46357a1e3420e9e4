"""From planned runs that are due to calls that are ready: the tick thread.

``tick`` holds the ring, ``batch`` takes what is due through routing, places (``pool``, ``parcels``), ``limits``
and the ``fence``; ``deferred`` holds what may not go yet.
"""
