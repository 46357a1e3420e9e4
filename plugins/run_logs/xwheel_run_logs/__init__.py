"""Logs of runs in a log store, where they outlast their executors.

``stores`` calls the plugins that keep them, ``shipped`` takes what xwheel's executors send while they write, ``fetch``
asks other executors while a run is open and once after its end, ``reading`` reads for people, from the store and behind
what it has from the executor, and ``expiry`` deletes. Which runs are to be fetched ``dispatched`` notes with the fence.
The rows are in ``tables`` and ``storage``, the calls in ``resources`` and ``messages``; ``files`` is a store.

Stores are plugins of their own: ``contract`` says what they must be able to do, and they import it from here.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from xwheel_run_logs.contract import ChecksSetup, LogChunk, LogEnd, LogKey, LogStore

__all__ = ["ChecksSetup", "LogChunk", "LogEnd", "LogKey", "LogStore"]

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        # the settings are read by processes that need nothing else from here
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from xwheel_run_logs import contract

        return getattr(contract, name)
