"""Delivery of outcomes and registration, step by step, with a scheduler made of a list."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any, cast

from xwheel.clock import SystemClock
from xwheel.errors import WireError
from xwheel.executor.journal import Journal
from xwheel.executor.reporting.admin_client import AdminClient, CallRefusedError, Registration
from xwheel.executor.reporting.outcomes import BATCH_CHARACTERS, IDLE_MS, OutcomeDelivery
from xwheel.wire.messages import BadItem, CallbackItem, RegistryRequest, Response


class Clock(SystemClock):
    at_ms = 1_000_000

    def monotonic_ms(self) -> int:
        return self.at_ms


class Spool:
    """Stands in for the journal."""

    def __init__(self, count: int, size: int = 10) -> None:
        self.items = [
            CallbackItem(run_id=n, job_id=1, created_ms=1, code=200, message="x" * size) for n in range(1, count + 1)
        ]

    def pending(self, limit: int) -> list[CallbackItem]:
        return self.items[:limit]

    def acknowledge(self, items: Sequence[CallbackItem]) -> None:
        self.items = [item for item in self.items if item not in items]


class Admin:
    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.down = False
        self.poison: set[int] = set()
        self.refused: list[BadItem] = []
        self.xwheel = True

    def deliver(self, items: Sequence[CallbackItem]) -> tuple[Response, list[BadItem]]:
        ids = [item.run_id for item in items]
        self.batches.append(ids)
        if self.down:
            raise WireError("down")
        if self.poison & set(ids):
            raise CallRefusedError("500")
        return Response(code=200, xwheel=self.xwheel), self.refused

    def register(self, _request: RegistryRequest) -> Response:
        if self.down:
            raise WireError("down")
        return Response(code=200, xwheel=self.xwheel)


def make(count: int, size: int = 10) -> tuple[OutcomeDelivery, Admin, Spool, Clock]:
    admin, spool, clock = Admin(), Spool(count, size), Clock()
    return OutcomeDelivery(cast(AdminClient, admin), cast(Journal, spool), clock), admin, spool, clock


def drain(delivery: OutcomeDelivery, limit: int = 50) -> int:
    for _ in range(limit):
        wait_ms = delivery.step(0)
        if wait_ms:
            return wait_ms
    raise AssertionError("it never rests")


def test_batches_grow_once_the_scheduler_is_known_to_be_xwheel() -> None:
    delivery, admin, spool, _ = make(1200)
    assert drain(delivery) == IDLE_MS
    assert [len(batch) for batch in admin.batches] == [50, 500, 500, 150]
    assert spool.items == []
    assert delivery.is_empty()


def test_foreign_schedulers_get_small_batches() -> None:
    delivery, admin, _, _ = make(120)
    admin.xwheel = False
    drain(delivery)
    assert [len(batch) for batch in admin.batches] == [50, 50, 20]


def test_batches_are_bounded_by_size() -> None:
    delivery, admin, _, _ = make(100, size=15_000)
    drain(delivery)
    assert max(len(batch) for batch in admin.batches) <= BATCH_CHARACTERS // 15_000


def test_a_scheduler_that_is_down_is_left_alone_for_longer_and_longer() -> None:
    delivery, admin, spool, clock = make(3)
    admin.down = True
    pauses = []
    for _ in range(9):
        pauses.append(delivery.step(0))
        assert delivery.step(0) == pauses[-1]  # woken too early: it calls no scheduler
        clock.at_ms += pauses[-1]
    assert pauses == [200, 400, 800, 1600, 3200, 6400, 10_000, 10_000, 10_000]
    assert len(admin.batches) == 9
    admin.down = False
    drain(delivery)
    assert spool.items == []


def test_one_poisoned_outcome_waits_alone() -> None:
    delivery, admin, spool, clock = make(5)
    admin.poison = {3}
    wait_ms = drain(delivery)
    assert [item.run_id for item in spool.items] == [3]
    assert 0 < wait_ms <= 60_000
    admin.batches.clear()
    assert delivery.step(0) == wait_ms
    assert admin.batches == []
    clock.at_ms += 60_000
    delivery.step(0)
    assert admin.batches == [[3]]


def test_n41_outcomes_that_were_never_refused_come_first() -> None:
    delivery, admin, spool, clock = make(5)
    admin.poison = {3}
    drain(delivery)
    clock.at_ms += 60_000
    spool.items.append(CallbackItem(run_id=9, job_id=1, created_ms=1, code=200, message=""))
    admin.batches.clear()
    delivery.step(0)
    assert admin.batches[0] == [9]


def test_a_scheduler_that_refuses_everything_is_not_flooded() -> None:
    delivery, admin, spool, clock = make(40)
    admin.poison = set(range(1, 41))
    assert delivery.step(0) == 200
    assert [len(batch) for batch in admin.batches] == [40, *[1] * 40]
    while clock.at_ms < Clock.at_ms + 60_000:
        clock.at_ms += delivery.step(0)
    assert len(spool.items) == 40
    assert len(admin.batches) <= 15 * 41
    admin.poison = set()
    start_ms = clock.at_ms
    while spool.items:
        clock.at_ms += delivery.step(0)
    assert clock.at_ms - start_ms <= 10_000


def test_poisoned_outcomes_do_not_hold_up_later_ones() -> None:
    """However many are refused for ever and however old they are, the rest gets through."""
    delivery, admin, spool, clock = make(300)
    admin.xwheel = False
    admin.poison = set(range(1, 211))
    for _ in range(40):
        clock.at_ms += delivery.step(0)
        if clock.at_ms > Clock.at_ms + 30_000:
            break
    assert {item.run_id for item in spool.items} == admin.poison
    admin.poison = {2}
    for _ in range(200):
        clock.at_ms += delivery.step(0)
        if len(spool.items) == 1:
            break
    assert [item.run_id for item in spool.items] == [2]


def test_what_was_delivered_before_the_scheduler_went_down_is_confirmed() -> None:
    delivery, admin, spool, _ = make(5)
    admin.poison = {1}
    real = admin.deliver

    def deliver(items: Sequence[CallbackItem]) -> tuple[Response, list[BadItem]]:
        admin.down = len(admin.batches) >= 4
        return real(items)

    admin.deliver = deliver  # type: ignore[method-assign]
    delivery.step(0)
    assert [item.run_id for item in spool.items] == [1, 4, 5]


def test_what_was_delivered_is_confirmed_though_no_outcome_was_refused_by_itself() -> None:
    """The scheduler refused the batch because it was about to go down, took two of it, and went."""
    delivery, admin, spool, _ = make(5)
    real = admin.deliver

    def deliver(items: Sequence[CallbackItem]) -> tuple[Response, list[BadItem]]:
        if len(items) > 1:
            raise CallRefusedError("500")
        admin.down = len(admin.batches) >= 2
        return real(items)

    admin.deliver = deliver  # type: ignore[method-assign]
    delivery.step(0)
    assert [item.run_id for item in spool.items] == [3, 4, 5]


def test_a_refusal_for_good_ends_the_attempts(caplog: Any) -> None:
    delivery, admin, spool, _ = make(3)
    admin.refused = [BadItem(index=1, run_id=2, error="run 2 does not exist")]
    drain(delivery)
    assert spool.items == []
    assert "refuses the outcome of run 2 for good" in caplog.text


def test_beats_and_what_silence_forbids() -> None:
    admin, clock = Admin(), Clock()
    request = RegistryRequest(group="EXECUTOR", app_name="a", address="http://h:1/")
    registration = Registration(cast(AdminClient, admin), lambda: request, clock, beat_ms=30_000)
    ours, foreign = "f00d", ""
    assert not registration.registered.is_set()
    assert registration.step(0) == 30_000
    assert registration.registered.is_set()
    clock.at_ms += 60_000
    assert registration.may_start(ours) == ""
    clock.at_ms += 1
    assert registration.may_start(ours) == "no scheduler confirmed a beat for 60 s"
    assert registration.may_start(foreign) == ""
    admin.down = True
    assert registration.step(0) == 1000
    assert registration.may_start(ours)
    admin.down, admin.xwheel = False, False
    registration.step(0)
    assert registration.may_start(ours)  # a foreign scheduler's answer says nothing about ours
    admin.xwheel = True
    registration.step(0)
    assert registration.may_start(ours) == ""


def test_n41_a_beat_that_is_missed_once_forbids_nothing() -> None:
    """Of an executor that beats seldom, too."""
    admin, clock = Admin(), Clock()
    request = RegistryRequest(group="EXECUTOR", app_name="a", address="http://h:1/")
    registration = Registration(cast(AdminClient, admin), lambda: request, clock, beat_ms=45_000)
    registration.step(0)
    clock.at_ms += 90_000
    assert registration.may_start("f00d") == ""
    clock.at_ms += 1
    assert registration.may_start("f00d") == "no scheduler confirmed a beat for 90 s"


def test_no_beat_arrives_after_the_farewell() -> None:
    """A beat is on its way while the executor leaves; the farewell waits for it."""
    calls: list[str] = []
    inside, release = threading.Event(), threading.Event()

    class SlowAdmin:
        def register(self, _request: RegistryRequest) -> Response:
            inside.set()
            release.wait(10)
            calls.append("beat")
            return Response(code=200, xwheel=True)

        def deregister(self, _request: RegistryRequest) -> None:
            calls.append("farewell")

    request = RegistryRequest(group="EXECUTOR", app_name="a", address="http://h:1/")
    registration = Registration(cast(AdminClient, SlowAdmin()), lambda: request, Clock(), beat_ms=30_000)
    beat = threading.Thread(target=registration.step, args=(0,))
    beat.start()
    assert inside.wait(10)
    leave = threading.Thread(target=registration.leave)
    leave.start()
    leave.join(0.05)
    release.set()
    beat.join(10)
    leave.join(10)
    registration.step(0)
    assert calls == ["beat", "farewell"]


def test_a_scheduler_that_recovers_in_the_middle_of_a_batch_gets_the_rest_at_once() -> None:
    delivery, admin, spool, clock = make(5)
    real = admin.deliver

    def deliver(items: Sequence[CallbackItem]) -> tuple[Response, list[BadItem]]:
        admin.poison = {1, 2, 3, 4, 5} if len(admin.batches) < 4 else set()
        return real(items)

    admin.deliver = deliver  # type: ignore[method-assign]
    start_ms = clock.at_ms
    while spool.items:
        clock.at_ms += delivery.step(0)
    assert clock.at_ms - start_ms <= 1000


def test_outcomes_that_a_scheduler_refused_as_it_failed_are_sent_soon_again() -> None:
    """That it took those before proves nothing against these: it took none after them."""
    delivery, admin, spool, clock = make(5)
    real = admin.deliver

    def deliver(items: Sequence[CallbackItem]) -> tuple[Response, list[BadItem]]:
        admin.poison = set() if len(admin.batches) in (1, 2) else {1, 2, 3, 4, 5}
        return real(items)

    admin.deliver = deliver  # type: ignore[method-assign]
    start_ms = clock.at_ms
    clock.at_ms += delivery.step(0)
    assert [item.run_id for item in spool.items] == [3, 4, 5]
    admin.deliver = real  # type: ignore[method-assign]
    admin.poison = set()
    while spool.items:
        clock.at_ms += delivery.step(0)
    assert clock.at_ms - start_ms <= 1000
