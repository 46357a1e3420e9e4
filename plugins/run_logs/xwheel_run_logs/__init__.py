"""Logs of runs in a log store, where they outlast their executors.

``stores`` calls the plugins that keep them, ``shipped`` takes what xwheel's executors send while they write, ``fetch``
asks other executors while a run is open and once after its end, ``reading`` reads for people, from the store and behind
what it has from the executor, and ``expiry`` deletes. Which runs are to be fetched ``dispatched`` notes with the fence.
The rows are in ``tables`` and ``storage``, the calls in ``resources`` and ``messages``; ``files`` is a store.
"""
