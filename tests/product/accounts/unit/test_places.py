"""Places where passwords are judged: in turn, one to an address, bounded, and not for ever."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
from xwheel_accounts.places import FORGOTTEN_MS, MOST_ADDRESSES, MOST_ASKED, PasswordPlaces, PasswordsBusyError
from xwheel_devtools.testing import ManualClock

LONG_S = 20.0


class Caller(threading.Thread):
    """Takes a place, and holds it until it is let go."""

    def __init__(self, places: PasswordPlaces, address: str, took: Callable[[str], None] = lambda _: None) -> None:
        super().__init__(daemon=True)
        self._places, self._address, self._took = places, address, took
        self.has_it, self.may_go = threading.Event(), threading.Event()
        self.refused: Exception | None = None

    def run(self) -> None:
        try:
            with self._places.hold(self._address):
                self._took(self._address)
                self.has_it.set()
                assert self.may_go.wait(LONG_S)
        except PasswordsBusyError as error:
            self.refused = error

    def begin(self) -> Caller:
        self.start()
        return self

    def end(self) -> None:
        self.may_go.set()
        self.join(LONG_S)
        assert not self.is_alive()


def queued(places: PasswordPlaces, count: int) -> None:
    """Return once this many callers wait."""
    pause = threading.Event()
    for _ in range(10_000):
        if len(places._waiting) == count:
            return
        pause.wait(0.005)
    raise AssertionError(f"{len(places._waiting)} wait, not {count}")


def test_who_waits_gets_the_place_in_the_order_of_asking() -> None:
    places, order = PasswordPlaces(1, 3, LONG_S), list[str]()
    first = Caller(places, "10.0.0.1", order.append).begin()
    assert first.has_it.wait(LONG_S)
    others = []
    for number in range(2, 5):
        others.append(Caller(places, f"10.0.0.{number}", order.append).begin())
        queued(places, number - 1)
    first.end()
    for other in others:
        assert other.has_it.wait(LONG_S)
        # a place that was handed on is taken: one more caller comes after those that wait
        other.end()
    assert order == [f"10.0.0.{number}" for number in range(1, 5)]
    with places.hold("10.0.0.1"):
        pass


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        ("192.0.2.1", "192.0.2.1", True),
        ("192.0.2.1", "192.0.2.2", False),
        ("2001:db8:1:2::1", "2001:db8:1:2:ffff::2", True),
        ("2001:db8:1:2::1", "2001:db8:1:3::1", False),
        ("::ffff:192.0.2.1", "192.0.2.1", True),
    ],
)
def test_an_address_holds_one_place(one: str, other: str, is_same: bool) -> None:
    places = PasswordPlaces(2, 1, LONG_S)
    with places.hold(one):
        if is_same:
            with pytest.raises(PasswordsBusyError, match="this address"), places.hold(other):
                pass
        else:
            with places.hold(other):
                pass
    with places.hold(one), pytest.raises(PasswordsBusyError), places.hold(one):
        pass


def test_an_address_waits_for_one_place_and_only_so_many_wait() -> None:
    places = PasswordPlaces(1, 2, LONG_S)
    with places.hold("10.0.0.1"):
        waiting = [Caller(places, "10.0.0.2").begin()]
        queued(places, 1)
        with pytest.raises(PasswordsBusyError, match="this address"), places.hold("10.0.0.2"):
            pass
        waiting.append(Caller(places, "10.0.0.3").begin())
        queued(places, 2)
        with pytest.raises(PasswordsBusyError, match="too many"), places.hold("10.0.0.4"):
            pass
    for caller in waiting:
        assert caller.has_it.wait(LONG_S)
        caller.end()


def test_places_for_what_is_judged_elsewhere_are_others_and_an_address_has_one_of_both() -> None:
    places = PasswordPlaces(1, 1, 0)
    elsewhere = places.elsewhere()
    with elsewhere.hold("10.0.0.1"):
        with places.hold("10.0.0.2"):
            pass
        with pytest.raises(PasswordsBusyError, match="within"), elsewhere.hold("10.0.0.2"):
            pass
        with pytest.raises(PasswordsBusyError, match="this address"), places.hold("10.0.0.1"):
            pass


def test_s24_addresses_that_ask_all_the_time_keep_out_no_one_who_asks_seldom() -> None:
    """Six of them, for one place and three turns: who comes for the first time takes the turn of one of them."""
    clock = ManualClock()
    places = PasswordPlaces(1, 3, LONG_S, clock=clock)
    flood = [f"10.0.0.{number}" for number in range(1, 7)]
    for address in flood * 3:
        with places.hold(address):
            pass
    with places.hold(flood[0]):
        waiting = []
        for number, address in enumerate(flood[1:4], 1):
            waiting.append(Caller(places, address).begin())
            queued(places, number)
        for address in flood[4:]:  # asked as often as those that wait
            with pytest.raises(PasswordsBusyError, match="too many"), places.hold(address):
                pass
        owner = Caller(places, "192.0.2.1").begin()
        waiting[-1].join(LONG_S)
        assert isinstance(waiting[-1].refused, PasswordsBusyError)
        assert [caller.peer for caller in places._waiting] == [*flood[1:3], "192.0.2.1"]
    # and comes before those who asked earlier, but more often
    assert owner.has_it.wait(LONG_S)
    assert not any(caller.has_it.is_set() for caller in waiting)
    owner.end()
    for caller in waiting[:2]:
        assert caller.has_it.wait(LONG_S)
        caller.end()
    with places.hold("192.0.2.1"):
        pass


def test_s24_a_refusal_counts_as_asking_and_is_forgotten_in_time() -> None:
    clock = ManualClock()
    places = PasswordPlaces(1, 1, 0, clock=clock)
    with places.hold("10.0.0.1"):
        for _ in range(3):
            with pytest.raises(PasswordsBusyError), places.hold("10.0.0.1"):
                pass
    asked = places._asked
    assert asked.note("10.0.0.1") == 4
    clock.advance(3 * FORGOTTEN_MS)
    assert asked.note("10.0.0.1") == 2
    clock.advance(100 * FORGOTTEN_MS)
    assert asked.note("10.0.0.1") == 0


def test_s24_not_all_addresses_of_the_world_are_remembered() -> None:
    places = PasswordPlaces(1, 1, 0, clock=ManualClock())
    asked = places._asked
    for number in range(MOST_ADDRESSES + 10):
        asked.note(str(number))
    assert len(asked._known) == MOST_ADDRESSES
    assert asked.note(str(MOST_ADDRESSES + 9)) == 1
    for _ in range(2 * MOST_ASKED):
        asked.note("often")
    assert asked.note("often") == MOST_ASKED


def test_nobody_waits_for_ever_and_who_gave_up_leaves_no_trace() -> None:
    places = PasswordPlaces(1, 1, 0)
    with places.hold("10.0.0.1"):
        for _ in range(3):
            with pytest.raises(PasswordsBusyError, match="within 0 s"), places.hold("10.0.0.2"):
                pass
    with places.hold("10.0.0.2"):
        pass


def test_a_judgement_that_fails_gives_its_place_back() -> None:
    places = PasswordPlaces(1, 1, 0)
    for _ in range(3):
        with pytest.raises(ValueError, match="broken"), places.hold("10.0.0.1"):
            raise ValueError("broken")


@pytest.mark.parametrize(("threads", "total", "waiting"), [(1, 1, 1), (8, 1, 3), (16, 2, 6), (256, 32, 96)])
def test_at_most_half_of_a_listeners_threads_are_with_passwords(threads: int, total: int, waiting: int) -> None:
    places = PasswordPlaces.of_listener(threads, ManualClock())
    assert (places._free, places._most_waiting) == (total, waiting)
