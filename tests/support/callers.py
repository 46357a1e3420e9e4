"""Services with tokens, with roles in some groups or in all, for tests of what they may do."""

from __future__ import annotations

from typing import Any, Final

from tests.component.api.conftest import Api
from tests.support.rows import NOW
from xwheel.model.access import Grant, Grants, Role
from xwheel.storage.access import tokens

ROLES: Final[dict[str, Grant]] = {
    "viewer": Grant(Role.VIEWER),
    "operator": Grant(Role.OPERATOR),
    "editor": Grant(Role.EDITOR),
    "editor with script": Grant(Role.EDITOR, script=True),
    "admin": Grant(Role.ADMIN),
}


class Callers:
    """Makes tokens, each once for the same rights, and makes calls with them.

    Args:
        api: What is called.
    """

    def __init__(self, api: Api) -> None:
        self._api = api
        self._made: dict[str, str] = {}
        self._count = 0

    def token(self, grants: Grants) -> str:
        """Return a token of a service that may do this."""
        key = repr(grants)
        if key not in self._made:
            name = f"caller-{len(self._made)}"
            self._made[key] = self.new_token(name, grants=grants)
        return self._made[key]

    def new_token(self, name: str, **fields: Any) -> str:
        """Make a token of a service; return what its bearer shows."""
        secret = f"secret-of-{name}"
        self._api.db.transaction(lambda conn: tokens.insert_token(conn, name, secret, NOW, **fields))
        self._api.clock.advance(1000)  # a new token counts a second later
        return secret

    def call(self, grants: Grants, method: str, path: str, body: object = None, **options: Any) -> Any:
        """Call the management API with a token that may do this."""
        return self.show(f"Bearer {self.token(grants)}", method, path, body, **options)

    def show(self, authorization: str | None, method: str, path: str, body: object = None, **options: Any) -> Any:
        """Call the management API, and show this; from an address of its own, so that none is made to wait."""
        self._count += 1
        peer = f"10.{self._count >> 16 & 127}.{self._count >> 8 & 255}.{self._count & 255}"
        headers = {"Authorization": authorization} if authorization is not None else {"Authorization": ""}
        return self._api.call(method, path, body, headers=headers, remote_addr=peer, **options)
