"""Why a cell is missing in an answer, in words that say what to do; never anything that the cell itself said."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import Struct
from xwheel.plugin import XwheelError

OK: Final = 200
NOT_FOUND: Final = 404
_REDIRECTS: Final = range(300, 400)
_FAILURES: Final = range(500, 600)
_RENEW: Final = (
    "make one there with 'xwheel token create NAME --role viewer --to-file FILE', name that file in token_file, and "
    "start this node again"
)
_STATUSES: Final[Mapping[int, tuple[str, str]]] = {
    401: ("unauthorized", f"it does not know the token (401): {_RENEW}"),
    403: ("forbidden", f"the token may not read this there (403), which takes the role viewer in all groups: {_RENEW}"),
    NOT_FOUND: ("unknown", "it has no {path} (404): install there what this node has, in the same version"),
    429: ("busy", "it takes no more for now (429), as after many calls with a wrong token: ask again in a while"),
}
"""Status to the code and the sentence; another address of the same cell would answer so, too."""


class CellError(XwheelError):
    """A cell gave no usable answer.

    Args:
        code: A stable word for programs.
        reason: A sentence for people.
        elsewhere: Whether another address of the same cell may do better.
    """

    def __init__(self, code: str, reason: str, *, elsewhere: bool = True) -> None:
        super().__init__(reason)
        self.code = code
        self.elsewhere = elsewhere


class Missing(Struct, kw_only=True):
    """A cell of which an answer has nothing, and why."""

    cell: str
    code: str
    reason: str


def unreachable(said: str) -> CellError:
    """Return that no complete answer came; ``said`` is what the client says of it."""
    return CellError(
        "unreachable", f"{said}; see that a node of that cluster runs there, and that this one may connect to it"
    )


def refused(status: int, path: str) -> CellError:
    """Return that another status than 200 came for a path below ``/api/v1/``."""
    if status in _STATUSES:
        code, words = _STATUSES[status]
        return CellError(code, words.replace("{path}", f"/api/v1/{path}"), elsewhere=False)
    if status in _REDIRECTS:
        words = f"it redirects ({status}), which is not followed: name in url the address where the API itself is"
        return CellError("redirects", words)
    if status in _FAILURES:
        return CellError("failing", f"it answers with status {status}: the log of its node or proxy says why")
    words = f"it does not take the question (status {status}): its version may be older, and know no such filter"
    return CellError("refused", words, elsewhere=False)


def malformed(what: str) -> CellError:
    """Return that the answer cannot be used; ``what`` says what is wrong with it."""
    words = f"{what}: see that url is the management API of a node, and that its version is near this node's"
    return CellError("malformed", words)


def too_large(most: int) -> CellError:
    """Return that the body is over the limit, in bytes."""
    return CellError("too_large", f"its answer has more than {most} bytes: ask for fewer with limit", elsewhere=False)


def busy(most: int) -> CellError:
    """Return that as many questions as there may be are under way."""
    words = f"{most} questions to it wait for an answer: it is slow; ask again in a while"
    return CellError("busy", words)


def silent(timeout_ms: int) -> CellError:
    """Return that nothing came in time."""
    words = f"no answer within {timeout_ms} ms, the option timeout_ms: see how its nodes and its database fare"
    return CellError("unreachable", words)


def own_failure(said: str) -> CellError:
    """Return that it is this node that fails; ``said`` says how."""
    return CellError("failing", said)
