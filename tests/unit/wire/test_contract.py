"""The shared checks of the contract: tokens, URLs, addresses, error codes."""

from __future__ import annotations

import hmac

import pytest

from xwheel.errors import AuthError, HandlerNotFoundError, JobTimeoutError, WireError
from xwheel.model import BlockStrategy
from xwheel.wire import codec, contract
from xwheel.wire.codec import MAX_INT, MAX_MS, encode_trigger, to_int, trigger_bytes
from xwheel.wire.messages import TriggerRequest

TOKEN = "a-token-of-some-length"


@pytest.mark.parametrize("given", [None, "", "wrong", TOKEN + "x", TOKEN[:-1], "\udce9\udce9", "ключ"])
def test_a_wrong_token_is_refused(given: str | None) -> None:
    with pytest.raises(AuthError):
        contract.check_token(given, TOKEN)


def test_any_of_several_tokens_passes() -> None:
    contract.check_token(TOKEN, "the-token-before-rotation", TOKEN)


def test_without_a_token_of_our_own_no_call_passes() -> None:
    with pytest.raises(AuthError):
        contract.check_token("", "")


def test_tokens_are_compared_in_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[bytes, bytes]] = []

    def compare(left: bytes, right: bytes) -> bool:
        seen.append((left, right))
        return left == right

    monkeypatch.setattr(hmac, "compare_digest", compare)
    contract.check_token(TOKEN, TOKEN, "other-token-of-ours")
    assert seen == [(TOKEN.encode(), TOKEN.encode()), (TOKEN.encode(), b"other-token-of-ours")]


@pytest.mark.parametrize("base", ["http://h:1", "http://h:1/", "http://h:1//"])
@pytest.mark.parametrize("path", ["run", "/run"])
def test_urls_have_exactly_one_slash(base: str, path: str) -> None:
    assert contract.join_url(base, path) == "http://h:1/run"


@pytest.mark.parametrize(
    ("value", "canonical"),
    [
        ("http://10.0.0.1:9999/", "http://10.0.0.1:9999"),
        ("http://10.0.0.1:9999", "http://10.0.0.1:9999"),
        (" HTTP://Host.Example:9999// ", "http://host.example:9999"),
        ("http://host", "http://host:80"),
        ("https://host/", "https://host:443"),
        ("http://host:8080/app/path/", "http://host:8080/app/path"),
        ("http://Host.Example.:9999", "http://host.example:9999"),
        ("http://[::1]:9999/", "http://[::1]:9999"),
        ("http://[0:0:0:0:0:0:0:1]:9999/", "http://[::1]:9999"),
        ("http://[0000::0001]", "http://[::1]:80"),
        ("http://[2001:DB8:0:0:1::1]:9999", "http://[2001:db8::1:0:0:1]:9999"),
        ("http://my_container:9999/", "http://my_container:9999"),
    ],
)
def test_addresses_have_one_spelling(value: str, canonical: str) -> None:
    assert contract.normalise_address(value) == canonical
    assert contract.normalise_address(canonical) == canonical


@pytest.mark.parametrize(
    "value",
    [
        "",
        "   ",
        "host:9999",
        "ftp://host:1/",
        "file:///etc/passwd",
        "http://",
        "http://user:pw@host:1/",
        "http://user@host:1/",
        "http://host:1/?q=1",
        "http://host:1/#f",
        "http://host:1/a\x00b",
        "http://host:1/a b",
        "http://ho\nst:1/",
        "http://host:0/",
        "http://host:65536/",
        "http://host:port/",
        "http://[::1/",
        "http://[zz::1]:80/",
        "http://[1:2:3]:80/",
        "http://host..:80/",
        "http://.:80/",
        "http://host:1/a/../b",
        "http://host:1/..",
        "http://host\\evil:1/",
        "http://" + "h" * 250 + ":1/",
    ],
)
def test_impossible_addresses_are_refused_by_name(value: str) -> None:
    with pytest.raises(WireError, match=r"^registryValue: "):
        contract.normalise_address(value)


def test_error_classes_have_codes() -> None:
    assert contract.error_response(AuthError("x")).code == 500
    assert contract.error_response(AuthError("x")).message == "The access token is wrong."
    assert contract.error_response(JobTimeoutError("too long")).code == 502
    missing = contract.error_response(HandlerNotFoundError("job handler [x] not found."))
    assert (missing.code, missing.message) == (500, "job handler [x] not found.")


def test_unexpected_errors_do_not_leak() -> None:
    answer = contract.error_response(RuntimeError("password=hunter2"))
    assert answer.code == 500
    assert "hunter2" not in answer.message


@pytest.mark.parametrize("text", ["", "x", "\x01" * 64, '"' * 65, "漢" * 64, "漢" * 9000, "\U0001f600\n\\\t" * 50])
def test_r3_the_size_of_a_run_is_never_underestimated(text: str) -> None:
    """R3: its numbers may be as long as they come, and any text may need escapes."""
    most = 2**53 - 1
    request = TriggerRequest(
        job_id=most,
        run_id=most,
        created_ms=MAX_MS,
        handler=text[:255],
        param=text,
        block_strategy=max(BlockStrategy, key=lambda item: len(item.value)),
        timeout_s=MAX_INT,
        glue_type=text[:64],
        glue_source=text,
        glue_updated_ms=MAX_MS,
        shard_index=MAX_INT - 1,
        shard_total=MAX_INT,
        planned_ms=MAX_MS,
        attempt=MAX_INT,
        instance=text[:64] or "i",
    )
    texts = (request.handler, request.param, request.glue_type, request.glue_source)
    taken = len(encode_trigger(request))
    assert taken <= trigger_bytes(*texts)
    if len(text) > 64:  # and long ones not by much
        assert trigger_bytes(*texts) < taken + 2000


def test_a_request_holds_a_bounded_number_of_items() -> None:
    for count in (10_000, 10_001):
        body = b"[%b]" % b",".join([b"{}"] * count)
        if count == 10_000:
            assert len(codec.decode_callbacks(body)[1]) == count
            continue
        with pytest.raises(WireError, match=r"^callbackList: must be a JSON array of at most 10000 items$"):
            codec.decode_callbacks(body)


def test_the_largest_number_is_taken_and_none_beyond() -> None:
    assert to_int("x", 9, 1, 9) == to_int("x", "1", 1, 9) + 8
    for value in (0, 10, "10", True):
        with pytest.raises(WireError, match=r"^x: must be a whole number from 1 to 9$"):
            to_int("x", value, 1, 9)
