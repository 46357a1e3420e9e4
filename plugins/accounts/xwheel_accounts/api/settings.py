"""Settings of an account: what pages keep for it, such as preferences and saved views.

They mean nothing to xwheel and change no one's rights, so the audit has no rows of them.
"""

from __future__ import annotations

from typing import Any

import falcon
import msgspec
from xwheel.api.http.body import MAX_ECHO, InputError, read_fields, rules_of, take_table
from xwheel.api.http.resource import reply
from xwheel.model.access import current_actor
from xwheel.plugin import Operation
from xwheel.storage.database.engine import Connection

from xwheel_accounts.api.messages import MAX_DEPTH, MAX_SETTING, SettingInput, SettingPath, SettingsView
from xwheel_accounts.api.resource import AccountBase
from xwheel_accounts.api.session import own_account
from xwheel_accounts.storage import accounts, settings


class OwnSettings(AccountBase):
    """``/me/settings``."""

    @Operation({200: SettingsView}, problems=("forbidden",))
    def on_get(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Return all settings of the account that asks, by name."""
        del req
        account_id = own_account(current_actor())
        with self._db.read() as conn:
            found = settings.list_settings(conn, account_id)
        reply(resp, SettingsView(settings={name: msgspec.json.decode(text) for name, text in found.items()}))


class OwnSetting(AccountBase):
    """``/me/settings/{setting}``."""

    @Operation({204: None}, body=SettingInput, problems=("forbidden", "conflict"))
    def on_put(self, req: falcon.Request, resp: falcon.Response, setting: str) -> None:
        """Keep a setting, in place of the one of the same name; an account has at most 50."""
        name, text = _named(setting), _text_of(take_table(req, self._limit))
        account_id = own_account(current_actor())

        def work(conn: Connection) -> None:
            accounts.get_account(conn, account_id, lock=True)  # one at a time, so that they are counted
            settings.save_setting(conn, account_id, name, text, self._parts.clock.now_ms())

        self._db.transaction(work)
        resp.status = 204

    @Operation({204: None}, problems=("forbidden", "not-found", "invalid-field"))
    def on_delete(self, req: falcon.Request, resp: falcon.Response, setting: str) -> None:
        """Delete a setting."""
        del req
        name, account_id = _named(setting), own_account(current_actor())
        self._db.transaction(lambda conn: settings.delete_setting(conn, account_id, name))
        resp.status = 204


def _named(setting: str) -> str:
    return read_fields(SettingPath, {"setting": setting}).setting


def _text_of(table: dict[str, Any]) -> str:
    """Return the value of a body as JSON in its shortest form.

    Raises:
        InputError: There is none, or it is too large or too deep.
    """
    for name in table:
        if name != "value":
            raise InputError(name[:MAX_ECHO], "is not a field here; known: value")
    rule = rules_of(SettingInput)["value"]
    if "value" not in table:
        raise InputError("value", f"is required and must be {rule.words}", rule.limit)
    if _is_flat_enough(table["value"]):  # deeper ones could not be written, either
        encoded = msgspec.json.encode(table["value"])
        if len(encoded) <= MAX_SETTING:
            return encoded.decode()
    raise InputError("value", f"must be {rule.words}", rule.limit)


def _is_flat_enough(value: Any) -> bool:
    level = [value]
    for _ in range(MAX_DEPTH + 1):
        nested = [item for item in level if isinstance(item, dict | list)]
        if not nested:
            return True
        level = [inner for item in nested for inner in (item.values() if isinstance(item, dict) else item)]
    return False
