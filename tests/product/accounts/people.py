"""People with sessions, with roles in some groups or in all, for tests of what they may do."""

from __future__ import annotations

from typing import Any, Final

from xwheel_accounts.browsers import COOKIE, CSRF_HEADER
from xwheel_accounts.passwords import hash_password
from xwheel_accounts.sessions import csrf_token
from xwheel_accounts.storage import accounts, sessions, settings

from tests.product.accounts.conftest import PeopleApi
from tests.support.callers import Callers
from tests.support.rows import NOW
from xwheel.model.access import Grants
from xwheel.storage.access import tokens

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

    def __init__(self, api: PeopleApi, name: str, grants: Grants) -> None:
        self._api = api
        self.name = name
        self.account = api.db.transaction(
            lambda conn: accounts.insert_account(conn, name, grants, NOW, password=HASHED)
        )
        self.secret = self.sign_in()

    def sign_in(self) -> str:
        """Begin a session whose owner has just typed the password once more; return what its cookie holds."""
        secret = self._api.people.sessions.begin(self.account, DESK, "browser")[0]
        self._api.db.transaction(
            lambda conn: sessions.update_confirmed(conn, self.session_of(secret), self._api.clock.now_ms())
        )
        return secret

    def session_of(self, secret: str) -> int:
        """Return the id of the session of a cookie."""
        with self._api.db.read() as conn:
            (found,) = sessions.get_sessions(conn, [tokens.digest_token(secret)]).values()
        return found.id

    def new_session(self) -> int:
        """Begin another session; return its id."""
        return self.session_of(self.sign_in())

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


class PeopleCallers(Callers):
    """Makes people, too.

    Args:
        api: What is called.
    """

    def __init__(self, api: PeopleApi) -> None:
        super().__init__(api)
        self._people_api = api
        self._people: dict[str, Person] = {}

    def person(self, grants: Grants) -> Person:
        """Return somebody who may do this."""
        key = repr(grants)
        if key not in self._people:
            self._count += 1
            self._people[key] = Person(self._people_api, f"person{self._count}", grants)
        return self._people[key]

    def forget(self, grants: Grants) -> None:
        """Let the next person with these rights be another one."""
        self._people.pop(repr(grants), None)
