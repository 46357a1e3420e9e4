"""HTTP clients. What travels is bytes; :mod:`xwheel.wire.codec` reads and writes them.

``clients`` makes one call at a time, or many in flight on one thread, with ``curl``'s handles, under the files of
``tls``. ``rest`` is the client of the management API.
"""

from __future__ import annotations

from xwheel.wire.http.clients import HttpClient, MultiClient, post
from xwheel.wire.http.curl import HttpCall, HttpResult

__all__ = ["HttpCall", "HttpClient", "HttpResult", "MultiClient", "post"]
