"""``alarmEmail`` goes to the plugin that keeps mails; without one the answer says that none is sent."""

from __future__ import annotations

import pytest

from tests.component.api.conftest import Api
from tests.support.job_calls import Tenant, definition
from xwheel.api.plugins.site import RouteSite
from xwheel.plugin import KeepsMails


class Keeper:
    """A plugin that keeps mails."""

    def __init__(self, words: str = "") -> None:
        self.kept: list[tuple[int, str]] = []
        self._words = words

    def keep_mails(self, job_id: int, addresses: str) -> str:
        self.kept.append((job_id, addresses))
        return self._words


def offer(monkeypatch: pytest.MonkeyPatch, *keepers: Keeper) -> None:
    def offering(site: RouteSite, contract: type[object]) -> list[Keeper]:
        assert contract is KeepsMails
        return list(keepers)

    monkeypatch.setattr(RouteSite, "offering", offering)


def test_the_first_that_keeps_mails_is_told(api: Api, orders: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = Keeper("kept by the first"), Keeper()
    offer(monkeypatch, first, second)
    answer = orders.call("addJob", definition(alarmEmail="a@b, c@d"))
    job_id = int(answer["data"])
    assert answer["msg"] == "Success; kept by the first"
    assert orders.call("updateJob", definition(id=job_id))["msg"] == "Success; kept by the first"
    assert first.kept == [(job_id, "a@b, c@d"), (job_id, "")]
    assert second.kept == []


def test_one_that_has_nothing_to_say_leaves_the_answer_alone(
    api: Api, orders: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    offer(monkeypatch, Keeper())
    assert orders.call("addJob", definition(alarmEmail="a@b"))["msg"] == "Success"


def test_without_one_the_answer_says_that_no_mail_is_sent(
    api: Api, orders: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    offer(monkeypatch)
    answer = orders.call("addJob", definition(alarmEmail="a@b"))
    assert answer["msg"] == "Success; alarmEmail is kept in the job's description, no mail is sent to it"
    assert orders.job(int(answer["data"])).description.endswith("alarmEmail: a@b")
    assert orders.call("updateJob", definition(id=answer["data"]))["msg"] == "Success"
