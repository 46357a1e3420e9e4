"""HTTP clients. What travels is bytes; :mod:`xwheel.wire.codec` reads and writes them.

``calls`` makes one call at a time, ``multi_client`` many in flight on one thread; both are made of ``curl``'s
handles, under the files of ``tls``. ``rest`` is the client of the management API.
"""

from __future__ import annotations

from xwheel.wire.http.calls import post
from xwheel.wire.http.curl import HttpCall, HttpResult
from xwheel.wire.http.multi_client import HttpClient, MultiClient

__all__ = ["HttpCall", "HttpClient", "HttpResult", "MultiClient", "post"]
