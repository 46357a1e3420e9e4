"""Finding U3: what a client of the management API says when it gets no answer that helps."""

from __future__ import annotations

import pytest
from xwheel_devtools.testing.web import WebServer, web_reply

from tests.support.ports import free_port
from xwheel.errors import ConflictError, FieldError, NotFoundError, WireError, XwheelError
from xwheel.wire.http.rest import RestClient


def error(status: int, body: object) -> XwheelError:
    with WebServer(web_reply(status, body)) as server, pytest.raises(XwheelError) as caught:
        RestClient(server.url, "t").call("GET", "/api/v1/jobs/999")
    return caught.value


def test_u3_an_object_does_not_exist_once() -> None:
    found = error(404, {"detail": "job 999 does not exist", "title": "The object does not exist"})
    assert isinstance(found, NotFoundError)
    assert (str(found), found.kind, found.key) == ("job 999 does not exist", "job", "999")


def test_u3_a_server_that_is_no_node_is_named() -> None:
    assert "has no management API" in str(error(404, b"<html>"))
    assert "which is not the port for executors" in str(error(404, b"<html>"))


def test_a_conflict_and_a_refused_field_are_told_apart_from_what_went_wrong() -> None:
    conflict = error(409, {"detail": "job 999 was changed meanwhile", "title": "Conflict"})
    assert (type(conflict), str(conflict)) == (ConflictError, "job 999 was changed meanwhile")
    refused = error(422, {"detail": "param: at most 4 characters", "field": "param"})
    assert (type(refused), str(refused)) == (FieldError, "param: at most 4 characters")
    assert type(error(422, {"detail": "no"})) is WireError
    assert type(error(500, {"detail": "no"})) is WireError


def test_u3_an_unknown_token_says_where_one_comes_from() -> None:
    said = str(error(401, {"title": "A valid token is needed"}))
    assert "does not know this token" in said
    assert "'xwheel login'" in said


def test_u3_a_port_where_nothing_listens_says_what_helps() -> None:
    with pytest.raises(WireError, match="nothing takes connections there; 'xwheel server' runs a node"):
        RestClient(f"http://127.0.0.1:{free_port()}", "t").call("GET", "/api/v1/jobs")


def test_a_call_sends_what_it_is_given() -> None:
    with WebServer(web_reply(200, {"ok": True})) as server:
        client = RestClient(server.url, "secret")
        params = {"name": "中 文&", "limit": 5, "after": 0, "none": None}
        assert client.call("GET", "/x", params=params) == {"ok": True}
        assert client.call("POST", "/y", {"a": "中"}, headers={"If-Match": '"3"'}) == {"ok": True}
        assert client.call("DELETE", "/z") == {"ok": True}
        assert client.call("PATCH", "/z", {"b": 1}) == {"ok": True}
        got, posted, deleted, patched = server.requests
    assert (got.method, got.path, got.body) == ("GET", "/x?name=%E4%B8%AD+%E6%96%87%26&limit=5&after=0", b"")
    assert got.headers["Authorization"] == "Bearer secret"
    assert (posted.method, posted.document, posted.headers["If-Match"]) == ("POST", {"a": "中"}, '"3"')
    assert (deleted.method, deleted.body) == ("DELETE", b"")
    assert (patched.method, patched.document) == ("PATCH", {"b": 1})
