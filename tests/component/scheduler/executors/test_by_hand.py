"""Addresses that people entered: executors while they answer, with the secret that was named for them and no other."""

from __future__ import annotations

import pytest

from tests.support.network import Network
from tests.support.node import HandNode
from tests.support.rows import make_executor
from xwheel.errors import ConflictError, NotFoundError
from xwheel.model import NO_SECRET, EnteredAddress, RunState
from xwheel.runtime.sealing import KeyRing
from xwheel.scheduler.executors.by_hand import ASK_MS, MISSES
from xwheel.storage import executors
from xwheel.storage.access import executor_secrets
from xwheel.wire.http import HttpCall

ADDRESS = "http://127.0.0.1:7001"
OTHER = "http://127.0.0.1:7002"
SHARED = "x" * 32


class Site(Network):
    """A node, and the addresses that answer it; what they were called with is kept."""

    def __init__(self, node: HandNode) -> None:
        super().__init__(self._answer_beat)
        self.node = node
        self.up = {ADDRESS, OTHER}
        self.wants: dict[str, str] = {}
        self.tokens: list[tuple[str, str | None]] = []
        node.plugs["addresses"].behind = self
        self.group_id = node.group("hand")

    def submit(self, call: HttpCall) -> None:
        self.tokens.append((call.url.removesuffix("/beat"), call.token))
        super().submit(call)

    def _answer_beat(self, address: str, path: str, _body: object) -> dict[str, object] | None:
        assert path == "/beat"
        if address not in self.up:
            return None
        token = next(token for where, token in reversed(self.tokens) if where == address)
        if self.wants.get(address, token) != token:
            return {"code": 500, "msg": "The access token is wrong."}
        return {"code": 200}

    def secret(self, name: str, value: str, group_id: int | None = None) -> int:
        now_ms, keys = self.node.clock.now_ms(), KeyRing()
        made = self.node.db.transaction(
            lambda conn: executor_secrets.insert_secret(
                conn, name, value, keys, now_ms, group_id=group_id or self.group_id
            )
        )
        self.node.scheduler.core.secrets.look()
        return made.id

    def enter(self, **addresses: int) -> None:
        named = {"address": ADDRESS, "other": OTHER}
        wanted = {named[name]: secret_id for name, secret_id in addresses.items()}
        self.node.db.transaction(lambda conn: executors.replace_addresses(conn, self.group_id, wanted))

    def step(self, by_ms: int = 0) -> None:
        """Let time pass as a node does: its registry each second, its questions as long as there are any."""
        for _ in range(by_ms // 1000):
            self.node.scheduler.core.registry.step(self.node.clock.advance(1000))
            self.ask()
        self.ask()

    def ask(self) -> None:
        self.node.keep_lease()
        for _ in range(10):
            if self.node.scheduler.routing.addresses.step(self.node.clock.now_ms()):
                return
        raise AssertionError("the questions find no end")

    def live(self) -> list[str]:
        found = self.node.scheduler.core.registry.live(self.group_id, self.node.clock.now_ms())
        return [item.address for item in found]

    def errors(self) -> dict[str, str]:
        with self.node.db.read() as conn:
            return {item.address: item.error for item in executors.list_addresses(conn)}


@pytest.fixture
def site(node: HandNode) -> Site:
    return Site(node)


def test_one_that_answers_gets_runs_like_one_that_registered(site: Site) -> None:
    secret = site.secret("s", "the-secret-of-the-hand-group")
    site.enter(address=secret)
    assert site.live() == []
    site.step(2000)
    assert site.live() == [ADDRESS]
    assert site.tokens == [(ADDRESS, "the-secret-of-the-hand-group")]
    job = site.node.job(group_id=site.group_id, enabled=False)
    run = site.node.scheduler.management.run_now.run(job.id)
    site.node.run_for(500)
    (call,) = site.node.line.calls
    assert (call.url, call.token) == (f"{ADDRESS}/run", "the-secret-of-the-hand-group")
    site.node.answer()
    (row,) = site.node.runs(job.id)
    assert (row.id, row.state, row.address, row.instance, row.secret_id) == (
        run.id, RunState.RUNNING, ADDRESS, "", secret,
    )  # fmt: skip


def test_it_stays_without_news_to_the_database_and_is_flushed_for_other_nodes(site: Site) -> None:
    site.enter(address=NO_SECRET)
    site.step(300_000)
    assert site.live() == [ADDRESS]
    with site.node.db.read() as conn:
        (row,) = [item for item in executors.list_executors(conn) if item.address == ADDRESS]
    assert row.by_hand
    assert site.node.clock.now_ms() - row.seen_ms < 60_000


def test_three_questions_without_an_answer_end_it_and_the_next_answer_brings_it_back(site: Site) -> None:
    site.enter(address=NO_SECRET, other=NO_SECRET)
    site.step(2000)
    assert site.live() == [ADDRESS, OTHER]
    site.up.remove(ADDRESS)
    site.step(ASK_MS)
    assert site.live() == [OTHER, ADDRESS]  # a suspect: others come first
    site.step(ASK_MS * (MISSES - 1) + 1000)
    assert site.live() == [OTHER]
    assert site.errors() == {ADDRESS: "timed out", OTHER: ""}
    site.up.add(ADDRESS)
    site.step(ASK_MS + 1000)
    assert site.live() == [ADDRESS, OTHER]
    assert site.errors() == {ADDRESS: "", OTHER: ""}


def test_a_wrong_secret_is_said_and_brings_no_runs(site: Site) -> None:
    site.wants[ADDRESS] = "another"
    site.enter(address=site.secret("s", "the-secret-of-the-hand-group"))
    site.step(40_000)
    assert site.live() == []
    assert site.errors() == {ADDRESS: "The access token is wrong."}


def test_a_secret_goes_only_where_it_was_named_for(site: Site) -> None:
    mine, yours = (site.secret("mine", "the-secret-of-the-first-one"), site.secret("yours", "the-secret-of-the-second"))
    site.enter(address=mine, other=NO_SECRET)
    site.step(12_000)
    assert set(site.tokens) == {(ADDRESS, "the-secret-of-the-first-one"), (OTHER, "")}
    # named again: the one before is not sent any more, neither by a question nor with a run
    site.tokens.clear()
    site.enter(address=yours, other=NO_SECRET)
    site.node.scheduler.core.registry.step(site.node.clock.now_ms())
    registry = site.node.scheduler.core.registry
    assert registry.token_at(site.group_id, ADDRESS) == ""
    site.step(12_000)
    assert set(site.tokens) == {(ADDRESS, "the-secret-of-the-second"), (OTHER, "")}
    assert registry.token_at(site.group_id, ADDRESS) == "the-secret-of-the-second"
    assert SHARED not in {token for _, token in site.tokens}


def test_a_secret_that_ended_is_sent_no_more(site: Site) -> None:
    site.enter(address=site.secret("s", "the-secret-of-the-hand-group"))
    site.step(2000)
    now_ms = site.node.clock.now_ms()
    site.node.db.transaction(lambda conn: executor_secrets.retire_secret(conn, "s", now_ms))
    site.tokens.clear()
    site.step(12_000)
    assert (site.live(), site.tokens) == ([], [])
    assert "has ended" in site.errors()[ADDRESS]
    with pytest.raises(ConflictError, match=r"7001, entered by hand for group \d+, is called with s"):
        site.node.db.transaction(lambda conn: executor_secrets.delete_secret(conn, "s"))
    site.enter()
    site.node.db.transaction(lambda conn: executor_secrets.delete_secret(conn, "s"))


def test_what_is_taken_away_is_gone_at_once(site: Site) -> None:
    site.enter(address=NO_SECRET, other=NO_SECRET)
    site.step(2000)
    site.enter(other=NO_SECRET)
    site.step(1000)
    assert site.live() == [OTHER]
    entered = EnteredAddress(group_id=site.group_id, address=ADDRESS, secret_id=NO_SECRET)
    with pytest.raises(NotFoundError):  # the answer to a question of before
        site.node.scheduler.core.registry.hear(entered, site.node.clock.now_ms())
    assert site.live() == [OTHER]


def test_no_farewell_takes_it_away(site: Site) -> None:
    site.enter(address=NO_SECRET)
    site.step(2000)
    registry = site.node.scheduler.core.registry
    assert registry.remove("hand", ADDRESS) is False
    assert site.live() == [ADDRESS]
    site.step(1000)
    assert site.live() == [ADDRESS]


def test_one_that_registers_is_called_with_what_it_proved_until_it_leaves(site: Site) -> None:
    named, proven = (
        site.secret("named", "the-secret-that-was-named"),
        site.secret("proven", "the-secret-proven-there"),
    )
    site.enter(address=named)
    site.step(2000)
    registry = site.node.scheduler.core.registry
    facts = make_executor(ADDRESS, instance="i", boot="b", secret_id=proven)
    registry.register("hand", facts, site.node.clock.now_ms())
    site.step(30_000)
    (item,) = registry.live(site.group_id, site.node.clock.now_ms())
    assert (item.by_hand, item.kind, item.secret_id, item.earlier_secret_id) == (False, "xwheel", proven, None)
    assert registry.token(item) == "the-secret-proven-there"
    # questions go with what was named, as long as that stands there
    assert {token for _, token in site.tokens} == {"the-secret-that-was-named"}
    # it says farewell, and answers still: then it is there by hand
    assert registry.remove("hand", ADDRESS) is True
    assert site.live() == []
    site.step(ASK_MS + 1000)
    (item,) = registry.live(site.group_id, site.node.clock.now_ms())
    assert (item.by_hand, item.kind, item.secret_id) == (True, "foreign", named)


def test_one_that_registered_and_beats_no_more_is_there_by_hand_if_it_answers(site: Site) -> None:
    site.node.scheduler.core.registry.register("hand", make_executor(ADDRESS), site.node.clock.now_ms())
    site.enter(address=NO_SECRET)
    site.step(80_000)
    registry = site.node.scheduler.core.registry
    assert [item.by_hand for item in registry.live(site.group_id, site.node.clock.now_ms())] == [False]
    site.step(25_000)
    assert [item.by_hand for item in registry.live(site.group_id, site.node.clock.now_ms())] == [True]


def test_an_address_of_another_group_is_refused(site: Site) -> None:
    site.node.register(ADDRESS)
    site.enter(address=site.secret("s", "the-secret-of-the-hand-group"))
    site.step(2000)
    assert site.live() == []
    assert site.errors()[ADDRESS].startswith(f"{ADDRESS} is registered in another executor group")


def test_only_the_holder_of_partition_0_asks(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    lease = site.node.scheduler.core.lease
    site.enter(address=NO_SECRET)
    with monkeypatch.context() as patch:
        patch.setattr(type(lease), "epochs", dict.fromkeys(range(1, 64), 1))
        site.ask()
    assert site.tokens == []
    site.ask()
    assert site.tokens == [(ADDRESS, "")]


def test_a_group_takes_its_addresses_along(site: Site) -> None:
    site.enter(address=NO_SECRET)
    site.step(2000)
    site.node.db.transaction(lambda conn: executors.delete_group(conn, site.group_id))
    site.step(2000)
    assert site.errors() == {}
    with site.node.db.read() as conn:
        assert [item for item in executors.list_executors(conn) if item.address == ADDRESS] == []


def test_there_are_not_too_many(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executors, "MAX_ADDRESSES", 1)
    with pytest.raises(ConflictError, match="all groups together may have 1"):
        site.enter(address=NO_SECRET, other=NO_SECRET)
    assert site.errors() == {}
