"""S17: an address that a person entered with a secret is replaced by no registration that proves less than one."""

from __future__ import annotations

from typing import Any

import pytest

from tests.component.api.conftest import EXECUTOR_TOKEN, Api
from tests.support.rows import make_executor
from xwheel.model import NO_SECRET, SHARED_SECRET, EnteredAddress, RegisteredExecutor
from xwheel.storage import executors
from xwheel.storage.access import tokens
from xwheel.wire.contract import APP_NAME_HEADER, TOKEN_HEADER

ADDRESS = "http://127.0.0.1:7001"
WORDS = "was entered by hand with an executor secret"
LESS = {"shared": EXECUTOR_TOKEN, "digest": "digest-only-token-of-the-group"}
"""What proves less than an executor secret of the group."""


class Site:
    """A group with two secrets, another group with one, one without, and an address.

    The registry is refreshed after each step.
    """

    def __init__(self, api: Api) -> None:
        self.api = api
        self.registry = api.parts.registry
        self.group_id, other_id, _ = (api.group(name) for name in ("hand", "other", "open"))
        self.tokens = dict(LESS)
        self.ids = {"shared": SHARED_SECRET, "digest": NO_SECRET, "": NO_SECRET}
        for name, group_id in (("named", self.group_id), ("second", self.group_id), ("theirs", other_id)):
            made = api.call("POST", "secrets", {"name": name, "group_id": group_id}).json
            self.tokens[name] = made["secret"]
        api.parts.secrets.look()
        for name in ("named", "second", "theirs"):
            found = api.parts.secrets.find(self.tokens[name])
            assert found is not None
            self.ids[name] = found[0]
        api.db.transaction(
            lambda conn: tokens.insert_token(conn, "digest", LESS["digest"], api.clock.now_ms(), group_id=self.group_id)
        )
        self.look()

    def look(self, by_ms: int = 1000) -> None:
        self.registry.step(self.api.clock.advance(by_ms))

    def enter(self, secret: str | None = "named") -> None:
        body = {"addresses": [] if secret is None else [{"address": ADDRESS, "secret": secret or None}]}
        answer = self.api.call("PATCH", f"groups/{self.group_id}", body)
        assert answer.status_code == 200, answer.text

    def hear(self, secret: str = "named") -> None:
        """Let the address answer a beat, which makes it an executor."""
        entered = EnteredAddress(group_id=self.group_id, address=ADDRESS, secret_id=self.ids[secret])
        self.registry.hear(entered, self.api.clock.now_ms())

    def call(self, uri: str, proof: str, app_name: str = "hand", **fields: Any) -> dict[str, Any]:
        body = {"registryGroup": "EXECUTOR", "registryKey": app_name, "registryValue": ADDRESS, **fields}
        headers = {TOKEN_HEADER: self.tokens.get(proof, "")}
        if proof == "digest":  # as executors of the fourth generation, which these tokens are for
            headers[APP_NAME_HEADER] = app_name
        found: dict[str, Any] = self.api.report_in(f"/api/{uri}", body, headers=headers).json
        return found

    def register(self, proof: str, **fields: Any) -> str:
        """Return what a registration is refused with, or nothing."""
        answer = self.call("registry", proof, **fields)
        return "" if answer["code"] == 200 else str(answer["msg"])

    def was_there(self, proof: str) -> None:
        """Let an executor be at the address that registered before the group had a secret."""
        row = make_executor(
            ADDRESS, group_id=self.group_id, secret_id=self.ids[proof], seen_ms=self.api.clock.now_ms(), instance=""
        )
        self.api.db.transaction(lambda conn: executors.save_executor(conn, row))
        self.look()

    def stored(self) -> list[tuple[bool, int | None]]:
        with self.api.db.read() as conn:
            rows = executors.list_executors(conn)
        return [(row.by_hand, row.secret_id) for row in rows if row.address == ADDRESS]

    def sent(self) -> list[str]:
        """What the next send to the address carries, once for each executor that could get it."""
        return [self.registry.token(item) for item in self.live()]

    def live(self) -> list[RegisteredExecutor]:
        return [item for item in self.registry.all(self.api.clock.now_ms()) if item.address == ADDRESS]


@pytest.fixture
def site(api: Api) -> Site:
    return Site(api)


@pytest.mark.parametrize("is_live", [True, False])
@pytest.mark.parametrize("proof", LESS)
def test_what_proves_less_replaces_nothing(site: Site, proof: str, is_live: bool) -> None:
    site.enter()
    if is_live:
        site.hear()
    before = site.stored()
    for _ in range(2):  # a first call and a repeated one
        assert WORDS in site.register(proof)
        assert site.stored() == before
        assert site.sent() == [site.tokens["named"]] * is_live
        site.look()
    assert site.sent() == [site.tokens["named"]] * is_live


def test_the_refusal_names_the_way_out(site: Site) -> None:
    site.enter()
    said = site.register("shared", instance="i", boot="b")
    assert said.startswith(f"registryValue: {ADDRESS} {WORDS}")
    assert "register with an executor secret of that group" in said
    assert "named" not in said  # which secret it is goes to who may read the group


@pytest.mark.parametrize("proof", ["named", "second"])
def test_a_secret_of_the_group_counts_and_only_that_one_is_sent(site: Site, proof: str) -> None:
    site.enter()
    site.hear()
    assert site.register(proof) == ""
    assert site.stored() == [(False, site.ids[proof])]
    assert site.sent() == [site.tokens[proof]]
    for less in LESS:  # and then what proves less, by the same rule
        assert WORDS in site.register(less)
    site.look()
    assert (site.stored(), site.sent()) == ([(False, site.ids[proof])], [site.tokens[proof]])


@pytest.mark.parametrize("proof", ["theirs", "nothing"])
def test_what_proves_nothing_of_the_group_is_refused(site: Site, proof: str) -> None:
    site.enter()
    site.hear()
    assert site.register(proof)
    assert (site.stored(), site.sent()) == ([(True, site.ids["named"])], [site.tokens["named"]])


@pytest.mark.parametrize("proof", ["digest", "named"])
def test_where_no_secret_was_named_a_registration_counts_with_what_it_proved(site: Site, proof: str) -> None:
    site.enter("")
    site.hear("")
    assert site.sent() == [""]
    assert site.register(proof) == ""
    assert site.stored() == [(False, site.ids[proof])]
    assert site.sent() == ["" if proof == "digest" else site.tokens[proof]]


@pytest.mark.parametrize("proof", LESS)
def test_an_address_that_is_entered_later_ends_what_proved_less(site: Site, proof: str) -> None:
    site.was_there(proof)
    site.enter()
    assert (site.stored(), site.sent()) == ([], [])  # at once: nothing more goes there under the other token
    assert WORDS in site.register(proof)
    site.hear()
    assert site.sent() == [site.tokens["named"]]
    site.enter("second")  # edited again
    assert (site.stored(), site.sent()) == ([], [])
    assert WORDS in site.register(proof)


def test_an_address_that_is_entered_later_leaves_a_registration_with_a_secret(site: Site) -> None:
    assert site.register("second") == ""
    site.enter()
    site.look()
    assert (site.stored(), site.sent()) == ([(False, site.ids["second"])], [site.tokens["second"]])


def test_what_another_node_wrote_in_between_is_no_executor(site: Site) -> None:
    """One of the version before, or one whose transaction began before the address was entered."""
    site.enter()
    for secret_id in (None, SHARED_SECRET, NO_SECRET):
        row = make_executor(ADDRESS, group_id=site.group_id, secret_id=secret_id, seen_ms=site.api.clock.now_ms())
        site.api.db.transaction(lambda conn, row=row: executors.save_executor(conn, row))  # type: ignore[misc]
        site.look()
        assert (site.stored(), site.sent()) == ([], [])
        site.hear()
        site.look()
        assert site.sent() == [site.tokens["named"]]


@pytest.mark.parametrize("proof", LESS)
def test_a_named_secret_that_ended_or_was_rotated_protects_still(site: Site, proof: str) -> None:
    site.enter()
    site.hear()
    assert site.api.call("POST", "secrets/named/rotate", {"name": "next", "expires_in_s": 60}).status_code == 201
    site.look()
    assert WORDS in site.register(proof)
    assert site.sent() == [site.tokens["named"]]
    site.look(61_000)
    assert site.sent() == []  # it ended
    assert WORDS in site.register(proof)
    site.look()
    assert site.sent() == []


def test_the_next_secret_of_a_rotation_counts(site: Site) -> None:
    site.enter()
    site.hear()
    made = site.api.call("POST", "secrets/named/rotate", {"name": "next", "expires_in_s": 60}).json
    site.tokens["next"] = made["secret"]
    site.look(61_000)
    assert site.register("next") == ""
    assert site.sent() == [made["secret"]]


@pytest.mark.parametrize("proof", ["named", "shared", "digest", "theirs"])
def test_no_farewell_takes_an_entered_address_away(site: Site, proof: str) -> None:
    site.enter()
    site.hear()
    site.call("registryRemove", proof)
    site.look()
    assert site.sent() == [site.tokens["named"]]


@pytest.mark.parametrize("is_known", [True, False])
@pytest.mark.parametrize("proof", LESS)
def test_a_farewell_ends_no_registration_that_proved_more(site: Site, proof: str, is_known: bool) -> None:
    if is_known:
        assert site.register("named") == ""
    else:  # another node took it a moment ago
        row = make_executor(
            ADDRESS, group_id=site.group_id, secret_id=site.ids["named"], seen_ms=site.api.clock.now_ms()
        )
        site.api.db.transaction(lambda conn: executors.save_executor(conn, row))
    site.call("registryRemove", proof)
    site.look()
    assert site.sent() == [site.tokens["named"]]
    site.call("registryRemove", "second")
    assert site.sent() == []


@pytest.mark.parametrize("proof", LESS)
def test_an_address_that_is_taken_out_is_free_again(site: Site, proof: str) -> None:
    site.enter()
    site.hear()
    site.enter(None)
    site.look()
    assert site.sent() == []
    assert bool(site.register(proof)) == (proof == "shared")  # which a group with a secret takes from no new executor
    assert site.sent() == [""] * (proof == "digest")


def test_less_than_a_secret_takes_it_to_no_other_group_either(site: Site) -> None:
    """While it does not answer there is no executor that would keep the address."""
    site.enter()
    assert WORDS in site.register("shared", app_name="other")
    site.look()
    assert site.sent() == []
    site.hear()
    assert site.sent() == [site.tokens["named"]]


def test_the_address_of_an_executor_of_another_group_is_not_entered_with_a_secret(site: Site) -> None:
    """It would get nothing there, and the executor with the shared token could not come back from a restart."""
    assert site.register("shared", app_name="open", instance="i", boot="one") == ""
    body = {"addresses": [{"address": ADDRESS, "secret": "named"}]}
    answer = site.api.call("PATCH", f"groups/{site.group_id}", body)
    assert answer.status_code == 422, answer.text
    assert f"{ADDRESS} is registered in another executor group" in answer.text
    assert site.register("shared", app_name="open", instance="i", boot="two") == ""  # it restarted
    assert site.stored() == [(False, SHARED_SECRET)]
    site.call("registryRemove", "shared", app_name="open")  # it is gone: the address is free
    site.look()
    site.enter()
    site.hear()
    assert site.sent() == [site.tokens["named"]]
    assert site.register("shared", app_name="open", instance="i", boot="three")
    site.enter()  # what is entered stays, and is not looked at again


def test_where_groups_share_addresses_the_one_of_another_group_may_be_entered(site: Site) -> None:
    site.registry.shared_addresses = True
    assert site.register("shared", app_name="open") == ""
    site.enter()
    assert site.register("shared", app_name="open", instance="i", boot="two") == ""


PROOFS = ["shared", "digest", "named"]
"""From the weakest on."""


@pytest.mark.parametrize("weaker", PROOFS)
@pytest.mark.parametrize("stronger", PROOFS)
def test_s19_what_proves_less_takes_over_no_executor(site: Site, stronger: str, weaker: str) -> None:
    """S19: one call with the shared token switched an executor's address to that, and its runs were refused."""
    site.was_there(stronger)
    before = (site.stored(), site.sent())
    takes_over = PROOFS.index(weaker) >= PROOFS.index(stronger)
    assert bool(site.register(weaker)) == (not takes_over)
    site.look()
    if not takes_over:
        assert (site.stored(), site.sent()) == before
        for _ in range(4):  # until it is gone, with a flush of beats
            site.look(31_000)
        assert bool(site.register(weaker)) == (weaker == "shared")


def test_s20_a_group_with_a_secret_takes_no_new_executor_with_the_token_that_all_share(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    """S20: a stranger's server joined it, and was sent parameters and sources."""
    refusal = "the group has an executor secret: register with that"
    assert refusal in site.register("shared")
    assert refusal in site.register("shared", xwheel={"instance": "i", "boot": "b"})
    assert (site.stored(), site.live()) == ([], [])
    assert refusal in caplog.text
    assert site.register("shared", app_name="open") == ""  # it has none
    assert site.register("digest", app_name="other")  # another group's
    site.call("registryRemove", "shared", app_name="open")
    for name in ("named", "second"):
        site.api.call("PATCH", f"secrets/{name}", {"expires_in_s": 0})
    site.api.parts.secrets.look()
    assert site.register("shared") == ""  # it has none any more


def test_s20_one_that_was_there_before_the_secret_stays_until_it_has_it(site: Site) -> None:
    """So the secret is given to executors one after the other, under fire."""
    site.was_there("shared")
    assert site.register("shared") == ""  # a beat, or a restart at its address
    assert site.sent() == [EXECUTOR_TOKEN]
    assert site.register("shared", xwheel={"instance": "another", "boot": "b"})  # who is not the same
    assert site.register("named") == ""
    assert site.register("shared")
    assert site.sent() == [site.tokens["named"]]
