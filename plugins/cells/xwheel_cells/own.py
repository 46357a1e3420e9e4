"""The cluster of this node, answered by the node itself: by the very resources that its management API serves."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar
from urllib.parse import urlencode
from wsgiref.util import setup_testing_defaults

import falcon
from xwheel.plugin import FieldError, PluginSite, XwheelError

from xwheel_cells.problems import NOT_FOUND, own_failure, refused

logger = logging.getLogger(__name__)

T = TypeVar("T")

PREFIX: Final = "/api/v1/"


class OwnCell:
    """The cluster that this node is of; asked on the caller's own thread, with the caller's rights.

    Args:
        name: What it is called among the cells.
        site: What the plugin works with.
    """

    url: str | None = None

    def __init__(self, name: str, site: PluginSite) -> None:
        self.name = name
        self.answered_ms: int | None = None
        self._site = site

    def ask(self, path: str, query: Mapping[str, object], deadline: float, read: Callable[[bytes], T]) -> T:
        """Return a good answer; as :meth:`FarCell.ask`, but the database alone limits the time.

        Raises:
            CellError: The node cannot answer.
            FieldError: A parameter is not acceptable.
        """
        del deadline
        responder = self._responder(path)
        if responder is None:
            raise refused(NOT_FOUND, path)
        environ: dict[str, Any] = {"PATH_INFO": PREFIX + path, "QUERY_STRING": urlencode(query)}
        setup_testing_defaults(environ)  # what WSGI wants besides
        response = falcon.Response()
        try:
            responder(falcon.Request(environ), response)
        except FieldError:
            raise
        except XwheelError as error:
            raise own_failure(str(error)) from None
        except Exception:
            logger.exception("%s of this node failed", path)
            raise own_failure("this node failed: its log says why") from None
        found = read(bytes(response.data or b""))
        self.answered_ms = self._site.now_ms()
        return found

    def _responder(self, path: str) -> Any:
        wanted = PREFIX + path
        found = (route for route in self._site.resources() if route.path == wanted and route.suffix is None)
        route = next(found, None)
        return None if route is None else getattr(route.resource, "on_get", None)
