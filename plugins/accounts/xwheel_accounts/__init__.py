"""People: accounts with roles, sign-in, sessions and tokens of their own; and the audit of what everybody does.

``gate`` says whose cookie a call shows, by ``sessions``; ``sign_in`` judges passwords and links, bounded by ``places``
and ``throttle``, with ``providers`` of identities, of which ``local`` is ours. ``accounts`` makes and changes accounts.
``api`` has the resources, ``cli`` the commands, ``storage`` the tables. The folder ``audit`` signs what is done, and
seals and verifies it. ``parts`` and ``resources`` put all of it together, with what the core gives a plugin.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from xwheel.plugin import hookimpl

if TYPE_CHECKING:
    from xwheel.config import Config

    from xwheel_accounts.audit.book import AuditRecorder
    from xwheel_accounts.gate import AccountsGate
    from xwheel_accounts.local import LocalAccounts
    from xwheel_accounts.resources import AccountsResources
    from xwheel_accounts.tables import AccountsTables


@dataclass(frozen=True)
class PeopleTool:
    """A group of commands."""

    name: str
    help: str
    module: str
    is_one: bool = False


COMMANDS = (
    PeopleTool(
        "account", "Accounts of people: who may sign in, and what each may do.", "xwheel_accounts.cli.account"
    ),
    PeopleTool(
        "audit",
        "Who did what, when, from where and why, and whether that was changed since.",
        "xwheel_accounts.cli.audit",
    ),
)


# commands are asked for at every start of xwheel, and need nothing of the rest
@hookimpl
def xwheel_register_commands() -> Iterable[PeopleTool]:
    """Return the commands."""
    return COMMANDS


@hookimpl
def xwheel_register_tables() -> Iterable[AccountsTables]:
    """Return the tables."""
    from xwheel_accounts.tables import AccountsTables

    return [AccountsTables()]


@hookimpl
def xwheel_register_identity_providers() -> Iterable[LocalAccounts]:
    """Return the accounts whose passwords are kept here."""
    from xwheel_accounts.local import LocalAccounts

    return [LocalAccounts()]


@hookimpl
def xwheel_register_gates(config: Config) -> Iterable[AccountsGate]:
    """Return what identifies people by their sessions."""
    from xwheel_accounts.gate import AccountsGate

    return [AccountsGate(config)]


@hookimpl
def xwheel_register_recorders(config: Config) -> Iterable[AuditRecorder]:
    """Return the audit."""
    from xwheel_accounts.audit.book import AuditRecorder

    return [AuditRecorder(config)]


@hookimpl
def xwheel_register_resources(config: Config) -> Iterable[AccountsResources]:
    """Return the resources."""
    from xwheel_accounts.resources import AccountsResources

    return [AccountsResources(config)]
