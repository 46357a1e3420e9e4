"""People with sessions and services with tokens, with roles in some groups or in all, for tests of what they may do."""

from __future__ import annotations

from typing import Any, Final

from tests.component.api.conftest import Api
from tests.support.rows import NOW
from xwheel.accounts.sessions import csrf_token
from xwheel.api.http.browsers import COOKIE, CSRF_HEADER
from xwheel.model.access import Grant, Grants, Role
from xwheel.runtime.passwords import hash_password
from xwheel.storage.access import accounts, sessions, settings, tokens

ROLES: Final[dict[str, Grant]] = {
    "viewer": Grant(Role.VIEWER),
    "operator": Grant(Role.OPERATOR),
    "editor": Grant(Role.EDITOR),
    "editor with script": Grant(Role.EDITOR, script=True),
    "admin": Grant(Role.ADMIN),
}
PASSWORD: Final = "seven wet goats sing"
HASHED: Final = hash_password(PASSWORD)
DESK: Final = "10.200.0.1"
"""Where people sit."""


class Person:
    """An account that has signed in.

    Args:
        api: What is called.
        name: The account's name.
        grants: What it may do.
    """

    def __init__(self, api: Api, name: str, grants: Grants) -> None:
        self._api = api
        self.name = name
        self.account = api.db.transaction(
            lambda conn: accounts.insert_account(conn, name, grants, NOW, password=HASHED)
        )
        self.secret = self.sign_in()

    def sign_in(self) -> str:
        """Begin a session; return what its cookie holds."""
        return self._api.parts.access.sessions.begin(self.account, DESK, "browser")[0]

    def new_session(self) -> int:
        """Begin another session; return its id."""
        secret = self.sign_in()
        with self._api.db.read() as conn:
            (found,) = sessions.get_sessions(conn, [tokens.digest_token(secret)]).values()
        return found.id

    def new_token(self) -> str:
        """Make a token of the account that opens nothing; return its name."""
        name = f"{self.name}-{self._api.clock.now_ms()}-{len(self._api.rows()['api_token'])}"
        self._api.db.transaction(
            lambda conn: tokens.insert_token(
                conn, name, f"secret of {name}", NOW, grants=Grants(), account_id=self.account.id
            )
        )
        return name

    def new_setting(self) -> str:
        """Keep a setting of the account; return its name."""
        name = f"setting-{self._api.clock.now_ms()}"
        account_id = self.account.id
        self._api.db.transaction(lambda conn: settings.save_setting(conn, account_id, name, "1", NOW))
        return name

    def call(self, method: str, path: str, body: object = None, csrf: str | None = "", **options: Any) -> Any:
        """Call the management API as a page does; ``csrf`` is sent as it is, None leaves it out."""
        headers = {"Cookie": f"{COOKIE}={self.secret}", **options.pop("headers", {})}
        if csrf is not None:
            headers[CSRF_HEADER] = csrf or csrf_token(self.secret)
        client = self._api.management
        given = {} if body is None else {"json": body}
        return client.simulate_request(method, path, headers=headers, remote_addr=DESK, **given, **options)


class Callers:
    """Makes people and tokens, each once for the same rights, and makes calls with them.

    Args:
        api: What is called.
    """

    def __init__(self, api: Api) -> None:
        self._api = api
        self._people: dict[str, Person] = {}
        self._made: dict[str, str] = {}
        self._count = 0

    def person(self, grants: Grants) -> Person:
        """Return somebody who may do this."""
        key = repr(grants)
        if key not in self._people:
            self._count += 1
            self._people[key] = Person(self._api, f"person{self._count}", grants)
        return self._people[key]

    def forget(self, grants: Grants) -> None:
        """Let the next person with these rights be another one."""
        self._people.pop(repr(grants), None)

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

    def show(
        self, authorization: str | None, method: str, path: str, body: object = None, **options: Any
    ) -> Any:
        """Call the management API, and show this; from an address of its own, so that none is made to wait."""
        self._count += 1
        peer = f"10.{self._count >> 16 & 127}.{self._count >> 8 & 255}.{self._count & 255}"
        headers = {"Authorization": authorization} if authorization is not None else {"Authorization": ""}
        return self._api.call(method, path, body, headers=headers, remote_addr=peer, **options)
