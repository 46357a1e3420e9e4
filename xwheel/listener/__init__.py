"""Serve WSGI applications to callers who may be slow, many or hostile.

:mod:`~xwheel.listener.limits` decides which connection has to go and when, as functions of the time;
:mod:`~xwheel.listener.connection` is one connection: it reads a request at a time, asks who calls before it takes
a large body, and keeps no thread waiting for a peer; :mod:`~xwheel.listener.server` accepts, counts and cuts.
"""

from __future__ import annotations

from xwheel.listener.server import Listener

__all__ = ["Listener"]
