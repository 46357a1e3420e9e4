"""What who acts may give away, and whose tokens are, as far as gates of plugins know."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from xwheel.errors import FieldError, ForbiddenError, OutageError, PluginError
from xwheel.model.access import NOTHING, Actor, ActorKind, Grants, Permission
from xwheel.plugin.gates import Gate, KnowsOwners, TokenOwner, checked_owners
from xwheel.plugin.validation import guarded
from xwheel.storage import executors
from xwheel.storage.access import tokens
from xwheel.storage.access.tokens import KnownToken
from xwheel.storage.database.engine import Connection
from xwheel.storage.database.outage import is_of_database

logger = logging.getLogger(__name__)


class Rights:
    """Asks gates of plugins about accounts; without one that knows them, their tokens open nothing.

    Thread-safety: any thread may ask.
    """

    def __init__(self, gates: Mapping[str, Gate]) -> None:
        self._known = [(name, gate) for name, gate in sorted(gates.items()) if isinstance(gate, KnowsOwners)]

    def owners(self, conn: Connection, ids: Collection[int]) -> dict[int, TokenOwner]:
        """Return accounts by id as they stand in the database; what a gate that fails says counts for nothing."""
        found: dict[int, TokenOwner] = {}
        for name, gate in self._known if ids else ():
            try:
                said = guarded(f"gate {name}", lambda: gate.owners(conn, ids), allowed=OutageError)  # noqa: B023
                found = {**checked_owners(name, said, ids), **found}
            except PluginError as error:
                if is_of_database(error):
                    raise
                logger.error("tokens of accounts open nothing: %s", error)
        return found

    def with_owners(self, conn: Connection, known: Iterable[KnownToken]) -> list[KnownToken]:
        """Return tokens, those of accounts with what these may do now."""
        found = list(known)
        owners = self.owners(conn, {item.account_id for item in found if item.account_id is not None})
        return [_with_owner(item, owners.get(item.account_id or 0)) for item in found]

    def present(self, conn: Connection, actor: Actor) -> Grants:
        """Return what an actor may do as it stands in the database: who lost a role a moment ago gives nothing away."""
        if actor.account_id is not None:
            owner = self.owners(conn, {actor.account_id}).get(actor.account_id)
            return NOTHING if owner is None or owner.is_shut_out else actor.grants.within(owner.grants)
        if actor.kind is ActorKind.TOKEN:
            found = tokens.find_token(conn, actor.name)
            return NOTHING if found is None else actor.grants.within(found.grants)
        return actor.grants

    def check(self, conn: Connection, actor: Actor, grants: Grants, before: Grants = NOTHING) -> None:
        """Refuse to give what the actor does not have, or a role in a group that is not there.

        It is asked in the transaction that gives; a group of what there was before may have gone meanwhile. Raises
        ForbiddenError if the actor may do less, FieldError if there is no such group.
        """
        if not self.present(conn, actor).covers(grants):
            raise ForbiddenError(Permission.ADMIN, "no one gives away more than they may do themselves")
        missing = set(grants.groups) - set(before.groups) - set(executors.get_groups(conn, grants.groups.keys()))
        if missing:
            raise FieldError("groups", f"group {min(missing)} does not exist")


def _with_owner(known: KnownToken, owner: TokenOwner | None) -> KnownToken:
    if owner is None:
        return known
    return replace(known, account_name=owner.name, account_grants=owner.grants, disabled=owner.is_shut_out)
