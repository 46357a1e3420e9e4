"""Calls that plugins answer on the executor API, in XXL-JOB's envelope, to callers that show a group's token."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Protocol, runtime_checkable

from xwheel.model.access import Actor
from xwheel.plugin.routes import PluginSite
from xwheel.plugin.validation import require

MOST_CALLS: Final = 100
LOWEST_CODE: Final = 200
HIGHEST_CODE: Final = 599
_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9]{0,63}")


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupCall:
    """One call, ``POST /api/NAME`` on the executor API."""

    name: str  #: what is called
    actor: Actor  #: the group's token, which may do everything in its group but administer it
    group_id: int  #: the group
    app_name: str  #: the group's app name
    #: returns the body, and raises what is answered for one over ``api.max_body_bytes``. What is refused whatever the
    #: body says leaves it unread
    read: Callable[[], bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupReply:
    """What a call is answered with, in the envelope that executors know."""

    code: int = LOWEST_CODE  #: 200 for yes, up to 599 for no; the HTTP status is 200 either way
    message: str = ""  #: one sentence for people; empty for the usual word
    content: object = None  #: the payload; JSON

    def check(self) -> None:
        """Refuse what cannot be sent; raises ValueError, which says what is wrong."""
        if type(self.code) is not int or not LOWEST_CODE <= self.code <= HIGHEST_CODE:
            raise ValueError(f"code must be from {LOWEST_CODE} to {HIGHEST_CODE}, not {str(self.code)[:40]}")
        if type(self.message) is not str:
            raise ValueError("message must be text")


@runtime_checkable
class GroupCalls(Protocol):
    """Calls on the executor API for programs that act for a group, next to those of xwheel itself.

    xwheel lets in who shows a group's token and names that group, counts who is refused, and limits bodies; executors'
    own tokens open none of these calls. What a call raises is answered in the envelope: errors of xwheel's with their
    words, anything else with a number under which the log has the details.
    """

    name: str  #: unique among plugins' group calls
    title: str  #: what messages call them, in the plural: ``job calls``

    def calls(self, site: PluginSite) -> Mapping[str, Callable[[GroupCall], GroupReply]]:
        """Return by name what answers each call; called once when a process starts, with what it works with.

        A name has letters and digits, and is none of xwheel's own calls nor of another plugin's. Each is called on
        several threads at once, of those that executors need too, as the caller (:attr:`GroupCall.actor`).

        Raises:
            ConfigError: A setting cannot be used; the node does not start.
        """


def check_group_calls(item: GroupCalls) -> None:
    """Refuse a title that no message can show."""
    is_fit = bool(item.title.strip()) and item.title.isprintable()
    require(is_fit, f"group calls {item.name}: title must be some words")


def read_group_calls(item: GroupCalls, site: PluginSite) -> Mapping[str, Callable[[GroupCall], GroupReply]]:
    """Return the calls of a plugin, once they are known to be such; there may be none."""
    what, found = f"group calls {item.name}", item.calls(site)
    is_fit = isinstance(found, Mapping) and len(found) <= MOST_CALLS
    require(is_fit, f"{what}: calls() must return at most {MOST_CALLS} functions by name")
    for name, answer in found.items():
        is_name = isinstance(name, str) and _NAME.fullmatch(name) is not None
        require(is_name, f"{what}: a call's name has 1 to 64 letters and digits, not {str(name)[:64]!r}")
        require(callable(answer), f"{what}: what answers {name} cannot be called")
    return dict(found)
