"""Jobs on a real executor, against a real server."""

from __future__ import annotations

import base64
import html
import json
import re
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest
from conftest import Site
from xwheel_devtools.testing import WebRequest, wait_until, web_reply

LONG_S = 60.0
SECRET = 's3cret/with+odd "signs'


def test_a_job_calls_and_its_log_has_the_answer(site: Site) -> None:
    site.web.reply = web_reply(201, "schön\nzwei".encode(), {"X-Trace": "abc", "Set-Cookie": "id=private"})
    source = {
        "url": f"{site.web.url}/close/${{param}}?shard=${{shard_index}}&of=${{shard_total}}",
        "method": "PUT",
        "headers": {"X-Run": "${run_id}"},
        "json": {"day": "${param}", "deep": [{"job": "job ${job_id}", "n": 1, "x": None, "dollar": "$$"}]},
    }
    code, message = site.run(source, 5, param='2026/11 "x"&y', shard_index=2, shard_total=3, job_id=9)
    assert (code, message) == (200, "HTTP 201")
    (seen,) = site.web.requests
    assert (seen.method, seen.path) == ("PUT", "/close/2026%2F11%20%22x%22%26y?shard=2&of=3")
    assert seen.headers["X-Run"] == "5"
    assert seen.headers["Content-Type"] == "application/json"
    assert json.loads(seen.body) == {
        "day": '2026/11 "x"&y',
        "deep": [{"job": "job 9", "n": 1, "x": None, "dollar": "$"}],
    }
    log = site.log(5)
    assert f"PUT {site.web.url}/close/2026%2F11%20%22x%22%26y?shard=2&of=3" in log
    assert f"HTTP 201 from {site.web.url} in " in log
    assert "x-trace: abc" in log
    assert "schön\nzwei" in log
    assert "private" not in log


def test_a_body_is_text_with_placeholders(site: Site) -> None:
    site.run({"url": site.web.url, "body": '{"p": "${param:json}", "q": "${param:url}"}'}, param='"a b"')
    assert site.web.requests[0].method == "POST"
    assert site.web.requests[0].body == b'{"p": "\\"a b\\"", "q": "%22a%20b%22"}'
    assert "Content-Type" not in site.web.requests[0].headers


@pytest.mark.parametrize(
    ("more", "status", "body", "said"),
    [
        ({}, 500, b"out of\norder", "HTTP 500, expected 200-299: out of order"),
        ({}, 302, b"", "HTTP 302, expected 200-299: "),
        ({"expect_status": [404, "409-410"]}, 404, b"", ""),
        ({"expect_status": [404, "409-410"]}, 410, b"", ""),
        ({"expect_status": [404, "409-410"]}, 200, b"", "HTTP 200, expected 404, 409-410"),
        ({"expect_body": '"done":true'}, 200, b'{"done":true}', ""),
        ({"expect_body": '"done":true'}, 200, b'{"done":false}', "HTTP 200 without what expect_body names"),
        ({"refuse_body": "ERROR"}, 200, b"no ERROR", "HTTP 200 with what refuse_body names: no ERROR"),
        ({"refuse_body": "ERROR"}, 200, b"fine", ""),
    ],
)
def test_what_counts_as_success(more: dict[str, Any], status: int, body: bytes, said: str, site: Site) -> None:
    site.web.reply = web_reply(status, body)
    code, message = site.run({"url": site.web.url, **more})
    assert code == (500 if said else 200)
    assert said in message


def test_the_body_may_be_the_result(site: Site) -> None:
    site.web.reply = web_reply(200, b'{"total": 7}')
    assert site.run({"url": site.web.url, "result": "body"}) == (200, '{"total": 7}')


def test_a_kill_ends_a_call_that_waits_at_once(site: Site) -> None:
    arrived, gone = threading.Event(), threading.Event()

    def reply(handler: BaseHTTPRequestHandler, seen: WebRequest) -> None:
        arrived.set()
        assert handler.connection.recv(1) == b""  # the other side closes
        gone.set()

    site.web.reply = reply
    assert site.start({"url": site.web.url, "timeout_s": 3600}).ok
    assert arrived.wait(LONG_S)
    site.kill()
    code, _ = site.outcome()
    assert code == 500
    assert site.outcomes[1].message
    assert gone.wait(LONG_S)


def test_the_time_limits_end_a_call(site: Site) -> None:
    site.web.reply = site.web.hang
    code, message = site.run({"url": site.web.url, "timeout_s": 0.2})
    assert code == 500
    assert f"{site.web.url}: no complete answer within 0.2 s" in message
    code, message = site.run({"url": site.web.url, "timeout_s": 3600}, 2, timeout_s=1)
    assert code == 502
    assert "time limit of 1 s" in message


def test_many_calls_wait_side_by_side(site: Site) -> None:
    """More than the event loop has helper threads."""
    all_of_them = threading.Barrier(24)

    def reply(handler: BaseHTTPRequestHandler, seen: WebRequest) -> None:
        all_of_them.wait(LONG_S)
        web_reply(200, b"together")(handler, seen)

    site.web.reply = reply
    for run_id in range(1, 25):
        assert site.start({"url": site.web.url, "timeout_s": 600}, run_id).code == 200
    assert {site.outcome(run_id)[0] for run_id in range(1, 25)} == {200}


def test_a_large_answer_is_read_to_a_limit_and_logged_to_another(make_site: Callable[..., Site]) -> None:
    site = make_site({"log_kb": 1, "read_kb": 64})

    def reply(handler: BaseHTTPRequestHandler, seen: WebRequest) -> None:
        handler.send_response(200)
        handler.end_headers()
        while not site.web.closing.is_set():
            handler.wfile.write("ä".encode() * 32768)

    site.web.reply = reply
    assert site.run({"url": site.web.url, "timeout_s": 600})[0] == 200
    log = site.log()
    assert log.count("ä") == 512
    assert "[the body has over 65536 bytes; plugins.options.glue_http.log_kb says how many are kept]" in log
    code, message = site.run({"url": site.web.url, "expect_body": "x", "timeout_s": 600}, 2)
    assert code == 500
    assert "without what expect_body names in the first 65536 bytes" in message


def secrets_of(site_url: str) -> dict[str, Any]:
    return {"secrets": {"billing": {"value": SECRET, "origins": [site_url]}}}


def test_secrets_go_to_their_origin_and_into_no_log(make_site: Callable[..., Site]) -> None:
    other = make_site()
    # the port is known once the server runs, so the origin is the server of another site
    site = make_site(secrets_of(other.web.url), {"allow_ports": ["1-65535"]})
    echo = f"{SECRET} {json.dumps(SECRET)}"
    other.web.reply = web_reply(200, echo.encode(), {"X-Echo": SECRET})
    source = {
        "url": f"{other.web.url}/a?key=${{secret.billing}}",
        "headers": {"Authorization": "Bearer ${secret.billing}"},
        "json": {"key": "${secret.billing}"},
        "result": "body",
    }
    code, message = site.run(source)
    assert code == 200
    seen = other.web.requests[0]
    assert seen.path == "/a?key=s3cret%2Fwith%2Bodd%20%22signs"
    assert seen.headers["Authorization"] == f"Bearer {SECRET}"
    assert json.loads(seen.body) == {"key": SECRET}
    log = site.log()
    assert f"POST {other.web.url}/a?key=***" in log
    for text in (log, message):
        assert "s3cret" not in text
    other.web.reply = web_reply(500, echo.encode())
    code, message = site.run(source, 2)
    assert code == 500
    assert "s3cret" not in message + site.log(2)


def test_a_secret_that_is_cut_in_two_is_not_logged(make_site: Callable[..., Site]) -> None:
    other = make_site()
    options = {**secrets_of(other.web.url), "read_kb": 1, "log_kb": 64}
    site = make_site(options, {"allow_ports": ["1-65535"]})
    other.web.reply = web_reply(200, b"x" * 1014 + SECRET.encode() * 9)
    assert site.run({"url": other.web.url, "headers": {"A": "${secret.billing}"}})[0] == 200
    assert "xxx" in site.log()
    assert "s3c" not in site.log()


def test_a_secret_is_hidden_in_other_spellings(make_site: Callable[..., Site]) -> None:
    """S18: in the log, in the result and in the message of a failure; what stands around it stays."""
    other = make_site()
    site = make_site(secrets_of(other.web.url), {"allow_ports": ["1-65535"]})
    coded = base64.b64encode(f"somebody:{SECRET}".encode()).decode()
    unicode = "".join(f"\\u{ord(one):04x}" for one in SECRET)
    small = "".join(f"%{octet:02x}" for octet in SECRET.encode())
    echo = "|".join(["before", coded, unicode, small, html.escape(SECRET), "after"])
    source = {"url": other.web.url, "headers": {"A": "${secret.billing}"}, "result": "body"}
    for run_id, status in ((1, 200), (2, 500)):
        other.web.reply = web_reply(status, echo.encode())
        _, message = site.run(source, run_id)
        for said in (message, site.log(run_id)):
            assert re.search(r"before\|[A-Za-z0-9]{11}\*\*\*\|\*\*\*\|\*\*\*\|\*\*\*\|after", said), said


@pytest.mark.parametrize("name", ["expect_body", "refuse_body"])
def test_a_pattern_tells_nothing_of_a_secret(make_site: Callable[..., Site], name: str) -> None:
    """S18: whatever a job's author looks for in an answer that repeats a secret, each guess ends in the same way."""
    other = make_site()
    site = make_site(secrets_of(other.web.url), {"allow_ports": ["1-65535"]})
    other.web.reply = web_reply(200, f"key={SECRET}".encode())
    ends = set()
    for run_id, guess in enumerate(("key=s", "key=t", SECRET, "s3cret", "wrong!"), 1):
        source = {"url": other.web.url, "headers": {"A": "${secret.billing}"}, name: guess}
        ends.add(site.run(source, run_id))
    assert len(ends) == 1
    assert site.run({"url": other.web.url, "headers": {"A": "${secret.billing}"}, "expect_body": "key="}, 9)[0] == 200


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:1/x?${secret.billing}",
        "http://localhost:{port}/?${secret.billing}",
        "https://127.0.0.1:{port}/${secret.billing}",
        r"http://127.0.0.1:1/\u0024{secret.billing}",
    ],
)
def test_a_secret_goes_nowhere_else(url: str, make_site: Callable[..., Site]) -> None:
    other = make_site()
    site = make_site(secrets_of(other.web.url), {"allow_ports": ["1-65535"]})
    answer = site.start('{"url": "' + url.replace("{port}", str(other.web.port)) + '"}')
    assert answer.code == 500
    assert "plugins.options.glue_http.secrets.billing.origins does not name it" in answer.message
    answer = site.start({"url": other.web.url, "headers": {"A": "${secret.other}"}})
    assert "headers.A: ${secret.other} is no name of a template" in answer.message
    assert not other.web.requests
    assert not site.web.requests


def test_a_redirect_takes_no_secret_along(make_site: Callable[..., Site]) -> None:
    other = make_site()
    site = make_site(secrets_of(other.web.url), {"allow_ports": ["1-65535"]})
    other.web.reply = web_reply(302, b"", {"Location": f"{site.web.url}/there"})
    source = {"url": other.web.url, "headers": {"X-Key": "${secret.billing}"}, "redirects": 2}
    assert site.run(source)[0] == 200
    assert len(other.web.requests) == len(site.web.requests) == 1
    assert "X-Key" not in site.web.requests[0].headers


def test_a_redirect_inside_is_refused(make_site: Callable[..., Site]) -> None:
    site = make_site(egress={"allow_ports": ["1-65535"]})
    site.web.reply = web_reply(302, b"", {"Location": "http://169.254.169.254/latest/meta-data"})
    code, message = site.run({"url": site.web.url, "redirects": 5})
    assert code == 500
    assert "redirects: http://169.254.169.254: the address is a cloud's metadata service" in message


def test_addresses_inside_are_refused_before_the_run_is_accepted(make_site: Callable[..., Site]) -> None:
    site = make_site(egress={"allow_networks": []})
    answer = site.start({"url": f"{site.web.url}/${{param}}"})
    assert answer.code == 500
    assert f"GLUE_HTTP of job 1: {site.web.url}: the address is loopback; egress.allow_networks" in answer.message
    code, message = site.run({"url": f"http://localhost:{site.web.port}/"}, 2)
    assert code == 500
    assert "is loopback" in message
    assert not site.web.requests


def test_parameters_cannot_leave_their_folder_or_add_a_header(site: Site) -> None:
    code, message = site.run({"url": f"{site.web.url}/a/${{param}}/b"}, param="..")
    assert code == 500
    assert "url: ${param} must not be '..' in a URL" in message
    code, message = site.run({"url": site.web.url, "headers": {"A": "${param}"}}, 2, param="x\r\nB: y")
    assert code == 500
    assert "the header A must be one line" in message
    assert not site.web.requests


def test_an_executor_makes_no_call_unless_its_settings_allow_it(make_site: Callable[..., Site]) -> None:
    site = make_site(allowed=[])
    answer = site.start({"url": site.web.url})
    assert answer.code == 500
    assert "executor.allowed_glue_types must name it" in answer.message
    assert not site.web.requests


def test_an_executor_that_stops_leaves_no_call(site: Site) -> None:
    arrived = threading.Event()

    def reply(handler: BaseHTTPRequestHandler, seen: WebRequest) -> None:
        arrived.set()
        handler.connection.recv(1)

    site.web.reply = reply
    site.start({"url": site.web.url, "timeout_s": 3600})
    assert arrived.wait(LONG_S)
    site.kill()
    site.outcome()
    wait_until(lambda: not [one for one in threading.enumerate() if one.name == "xwheel-http-job"])
