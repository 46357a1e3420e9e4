"""Calls of plugins on the executor API: who answers which, handed over, and what comes back made the envelope."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final, NamedTuple

import falcon

from xwheel.api.http.auth import Caller
from xwheel.api.parts import ApiParts
from xwheel.api.plugins.routes import answered, read_all
from xwheel.api.plugins.site import RouteSite
from xwheel.errors import PluginError, WireError, XwheelError
from xwheel.model.access import current_actor
from xwheel.model.deeds import Deed
from xwheel.plugin.group_calls import GroupCall, GroupReply, read_group_calls
from xwheel.plugin.validation import error_words
from xwheel.scheduler.audit_trail import CHANGE, OPEN_CALL
from xwheel.wire import contract
from xwheel.wire.messages import Response

NOT_FOR_EXECUTORS: Final = (
    f"{contract.TOKEN_HEADER}: the token of executors opens no {{}}; send one of the jobs' group "
    f"(xwheel token create NAME --group APP) and name the group in {contract.APP_NAME_HEADER}"
)


class PluginFailedError(Exception):
    """A plugin raised or returned what it may not; its words are for the log alone."""


class _Known(NamedTuple):
    owner: str
    title: str
    answer: Callable[[GroupCall], GroupReply]


class PluginCalls:
    """The calls of all plugins, by name; none has one of the names that are ``taken`` by xwheel's own."""

    def __init__(self, parts: ApiParts, taken: Collection[str]) -> None:
        self._audit = parts.audit
        self._known: dict[str, _Known] = {}
        for owner, item, found in read_all(
            "group calls", parts.plugins.group_calls, lambda item: read_group_calls(item, RouteSite(parts))
        ):
            for name, answer in found.items():
                if name in taken or name in self._known:
                    other = self._known[name].owner if name in self._known else "xwheel itself"
                    raise PluginError(f"{owner}: group calls {item.name}: {other} answers {name} already")
                self._known[name] = _Known(owner, item.title, answer)

    @property
    def names(self) -> Collection[str]:
        """What can be called."""
        return self._known.keys()

    def answer(self, name: str, caller: Caller, read: Callable[[], bytes]) -> Response:
        """Answer one of the calls, as the caller, who is the current actor; ``read`` reads the body.

        Raises XwheelError for whatever is refused, and PluginFailedError if the plugin failed.
        """
        known = self._known[name]
        if caller.is_executor or caller.group_id is None:
            raise WireError(NOT_FOR_EXECUTORS.format(known.title))
        call = GroupCall(
            name=name, actor=current_actor(), group_id=caller.group_id, app_name=caller.app_name, read=read
        )
        deed = Deed(action=CHANGE, kind="call", object_id=name, group_id=caller.group_id)
        self._audit.open_call(deed)  # one that only reads commits nothing, and leaves no row
        try:
            reply = answered(known.answer, call, GroupReply)
        except (XwheelError, falcon.HTTPError):
            raise
        except BaseException as error:  # whatever it is, it ends this call and nothing else
            raise PluginFailedError(f"{known.owner} fails in {name}: {error_words(error)}") from error
        finally:
            OPEN_CALL.set(None)
        return Response(code=reply.code, message=reply.message, data=reply.content)
