"""What the plugin registers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from xwheel.plugin import has_node_libraries, hookimpl
from xwheel_commands import Command

if TYPE_CHECKING:
    from xwheel.config import Config

    from xwheel_accounts.audit.book import AuditRecorder
    from xwheel_accounts.gate import AccountsGate
    from xwheel_accounts.local import LocalAccounts
    from xwheel_accounts.resources import AccountsResources
    from xwheel_accounts.tables import AccountsTables


COMMANDS = (
    Command(
        "account",
        "Accounts of people: who may sign in, and what each may do.",
        "xwheel_accounts.cli.account",
        is_one=False,
    ),
    Command(
        "audit",
        "Who did what, when, from where and why, and whether that was changed since.",
        "xwheel_accounts.cli.audit",
        is_one=False,
    ),
)


# commands are asked for at every start of xwheel, and need nothing of the rest
@hookimpl
def xwheel_register_commands() -> Iterable[Command]:
    """Return the commands."""
    return COMMANDS


@hookimpl
def xwheel_register_tables() -> Iterable[AccountsTables]:
    """Return the tables."""
    if not has_node_libraries():
        return []
    from xwheel_accounts.tables import AccountsTables

    return [AccountsTables()]


@hookimpl
def xwheel_register_identity_providers() -> Iterable[LocalAccounts]:
    """Return the accounts whose passwords are kept here."""
    if not has_node_libraries():
        return []
    from xwheel_accounts.local import LocalAccounts

    return [LocalAccounts()]


@hookimpl
def xwheel_register_gates(config: Config) -> Iterable[AccountsGate]:
    """Return what identifies people by their sessions."""
    if not has_node_libraries():
        return []
    from xwheel_accounts.gate import AccountsGate

    return [AccountsGate(config)]


@hookimpl
def xwheel_register_recorders(config: Config) -> Iterable[AuditRecorder]:
    """Return the audit."""
    if not has_node_libraries():
        return []
    from xwheel_accounts.audit.book import AuditRecorder

    return [AuditRecorder(config)]


@hookimpl
def xwheel_register_resources(config: Config) -> Iterable[AccountsResources]:
    """Return the resources."""
    if not has_node_libraries():
        return []
    from xwheel_accounts.resources import AccountsResources

    return [AccountsResources(config)]
