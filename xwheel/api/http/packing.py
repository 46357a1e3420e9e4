"""Large answers of the API, packed for those who can unpack them: lists of runs and jobs shrink to a tenth."""

from __future__ import annotations

import zlib
from typing import Final

import falcon

SMALLEST_BYTES: Final = 1500  # what fits into one packet gains nothing
NEVER: Final = "/session"  # it holds a secret
LEVEL: Final = 4
GZIP: Final = 16 + zlib.MAX_WBITS


class Packing:
    """Middleware that packs answers of reads; others, which may hold secrets, are sent as they are."""

    def process_response(
        self, req: falcon.Request, resp: falcon.Response, _resource: object, req_succeeded: bool
    ) -> None:
        """Pack an answer that is whole, large and JSON."""
        data = resp.data
        if (
            not req_succeeded
            or req.method != "GET"
            or data is None
            or len(data) < SMALLEST_BYTES
            or resp.get_header("Vary") is not None  # it was decided already
            or resp.content_type not in {None, falcon.MEDIA_JSON}
            or req.path.endswith(NEVER)
            or getattr(resp.context, "as_is", False)
        ):
            return
        resp.set_header("Vary", "Accept-Encoding")
        if "gzip" in (req.get_header("Accept-Encoding") or ""):
            packer = zlib.compressobj(LEVEL, zlib.DEFLATED, GZIP)
            resp.data = packer.compress(data) + packer.flush()
            resp.set_header("Content-Encoding", "gzip")
