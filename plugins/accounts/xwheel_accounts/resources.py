"""The resources of people and of the audit, and what is done between their calls."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from xwheel.config import Config
from xwheel.errors import XwheelError
from xwheel.plugin import CALLER, PUBLIC, Need, Of, Permission, PluginSite, ResourceRoute

from xwheel_accounts.api.accounts import AccountResource, Accounts, AccountSessions
from xwheel_accounts.api.audit import Audit
from xwheel_accounts.api.resource import AccountBase
from xwheel_accounts.api.session import OwnPassword, OwnSession, OwnSessions, OwnToken, OwnTokens, SessionResource
from xwheel_accounts.api.settings import OwnSetting, OwnSettings
from xwheel_accounts.audit.anchors import Anchors
from xwheel_accounts.audit.book import AuditBook, book_of
from xwheel_accounts.audit.news import AuditNews
from xwheel_accounts.audit.refusals import REST_MS
from xwheel_accounts.audit.sealing import SEAL_MS, SealLoop
from xwheel_accounts.parts import AccountParts, parts_of
from xwheel_accounts.settings import AuditSection
from xwheel_accounts.storage import audit_chain
from xwheel_accounts.sweep import Sweep

logger = logging.getLogger(__name__)

_ADMIN_SOME: Final = Need(Permission.ADMIN, Of.SOME)
_ADMIN_ALL: Final = Need(Permission.ADMIN, Of.ALL)
_MAKE_OWN: Final = Need(Permission.READ, Of.SOME, makes_credential=True)
_MAKE: Final = Need(Permission.ADMIN, Of.ALL, makes_credential=True)

Row = tuple[str, type[AccountBase], Mapping[str, Need]]
_ROUTES: Final[Sequence[Row]] = (
    ("/session", SessionResource, {"GET": CALLER, "POST": PUBLIC, "DELETE": CALLER}),
    ("/session/link", SessionResource, {"POST": PUBLIC}),
    ("/session/confirm", SessionResource, {"POST": CALLER}),
    ("/me/password", OwnPassword, {"PUT": CALLER}),
    ("/me/sessions", OwnSessions, {"GET": CALLER}),
    ("/me/sessions/{session_id:id}", OwnSession, {"DELETE": CALLER}),
    ("/me/tokens", OwnTokens, {"GET": CALLER, "POST": _MAKE_OWN}),
    ("/me/tokens/{name}", OwnToken, {"DELETE": CALLER}),
    ("/me/settings", OwnSettings, {"GET": CALLER}),
    ("/me/settings/{setting}", OwnSetting, {"PUT": CALLER, "DELETE": CALLER}),
    ("/accounts", Accounts, {"GET": _ADMIN_ALL, "POST": _MAKE}),
    ("/accounts/{account_id:id}", AccountResource, {"GET": _ADMIN_ALL, "PATCH": _MAKE, "DELETE": _ADMIN_ALL}),
    ("/accounts/{account_id:id}/reset", AccountResource, {"POST": _MAKE}),
    ("/accounts/{account_id:id}/link", AccountResource, {"POST": _MAKE}),
    ("/accounts/{account_id:id}/sessions", AccountSessions, {"GET": _ADMIN_ALL, "DELETE": _ADMIN_ALL}),
    ("/audit", Audit, {"GET": _ADMIN_SOME}),
    ("/audit/csv", Audit, {"GET": _ADMIN_SOME}),
)
_SUFFIXES: Final = frozenset({"link", "confirm", "reset", "csv"})


class AccountsResources(AuditNews):
    """The routes; between calls the audit is sealed, refused calls are written down, and what is over is deleted.

    Args:
        config: The settings.
    """

    name = "accounts"
    due = audit_chain.UNSEALED
    chapters: Mapping[str, str] = {
        "session": "Signing in and out, and who calls.",
        "me": "What everybody may do about their own account.",
        "accounts": "People, and what each may do.",
        "audit": "Who did what, when, from where and why.",
    }

    def __init__(self, config: Config) -> None:
        self._config = config
        self._parts: AccountParts | None = None
        self._work: AuditWork | None = None
        self.wakeup = threading.Event()

    def resources(self, site: PluginSite) -> Sequence[ResourceRoute]:
        """Return the resources."""
        self._parts = parts = parts_of(site, self._config)
        made: dict[type[AccountBase], AccountBase] = {}
        return [
            ResourceRoute(
                path,
                made.setdefault(kind, kind(parts)),
                needs,
                suffix=last if (last := path.rpartition("/")[2]) in _SUFFIXES else None,
            )
            for path, kind, needs in _ROUTES
        ]

    def step(self, now_ms: int) -> int:
        """Do what is due; return how long to wait in milliseconds."""
        if self._work is None:
            assert self._parts is not None  # noqa: S101 - routes were made before
            book = book_of(self._parts.db, self._config)
            book.warn_of_weak_key()
            book.refusals.wake = self.wakeup.set
            self._work = AuditWork(self._parts, book, self._config)
        return self._work.step(now_ms)

    def end(self) -> None:
        """Write down what was refused until now."""
        if self._work is not None:
            self._work.book.refusals.end()


class AuditWork:
    """What is done again and again in a node.

    Args:
        parts: What the process works with.
        book: The audit.
        config: The settings.
    """

    def __init__(self, parts: AccountParts, book: AuditBook, config: Config) -> None:
        partitions, settings = parts.site.partitions, config.section("audit", AuditSection)
        self.book = book
        self.sealing = SealLoop(
            parts.db, partitions, book.keys, Anchors(settings), retention_days=settings.retention_days
        )
        self.sweep = Sweep(
            parts.db,
            partitions,
            parts.clock,
            interval_ms=config.upkeep.sweep_interval_s * 1000,
            batch=config.upkeep.sweep_batch,
        )
        is_anchored = settings.anchor_file or settings.syslog  # a head may wait to be written out
        self._rest_ms = SEAL_MS if is_anchored else REST_MS
        self._steps: Sequence[Callable[[int], int]] = (book.refusals.step, self._seal, self.sweep.step)

    def _seal(self, now_ms: int) -> int:
        # the node says when another row waits; whether the head is still there is asked now and then
        wait_ms = self.sealing.step(now_ms)
        return self._rest_ms if wait_ms >= SEAL_MS else wait_ms

    def step(self, now_ms: int) -> int:
        """Take one step of each; what one raises is raised once the others are done."""
        waits, failed = [], None
        for step in self._steps:
            try:
                waits.append(step(now_ms))
            except XwheelError as error:
                failed = failed or error
        if failed is not None:
            raise failed
        return min(waits)
