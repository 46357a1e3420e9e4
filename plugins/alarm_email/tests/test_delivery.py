"""Mails to real servers, and servers that refuse, hang and close."""

from __future__ import annotations

import gc
import shutil
import socket
import threading
from collections.abc import Callable
from typing import Any, cast

import pytest
import trustme
from conftest import DEADLINE_S, PASSWORD, USER, MailServer, RawServer, alarm_of, register
from xwheel_alarms import AlarmKind, AlarmRetryLater
from xwheel_devtools.testing import check_alarm_channel

from xwheel_alarm_email import EmailChannel, EmailError

Start = Callable[..., MailServer]
Raw = Callable[[Callable[[socket.socket], None]], RawServer]


def content_of(part: Any) -> str:
    return cast(str, part.get_content()).replace("\r\n", "\n")


def channel_to(port: int, security: str = "plain", **options: object) -> EmailChannel:
    given = {"host": "127.0.0.1", "port": port, "security": security, "sender": "xwheel@example.com", "timeout_s": 60}
    return register(**(given | options))[0]


@pytest.mark.parametrize("security", ["tls", "starttls"])
def test_a_mail_arrives_encrypted_after_a_login(start: Start, ca_file: str, security: str) -> None:
    server = start(security, login=True)
    channel = channel_to(server.port, security, ca_file=ca_file, username=USER, password=PASSWORD)
    answer = channel.send(alarm_of(receivers=["a@example.com", "b@example.com"]))
    assert answer == "sent to a@example.com, b@example.com: kept as 42"
    assert server.logins == [USER]
    ((receivers, _),) = server.mails
    assert receivers == ["a@example.com", "b@example.com"]
    mail = server.parsed()
    assert mail["From"] == "xwheel <xwheel@example.com>"
    assert mail["To"] == "a@example.com, b@example.com"
    assert mail["Subject"] == "[xwheel] nightly report failed"
    assert mail["Auto-Submitted"] == "auto-generated"
    assert (mail["X-Xwheel-Alarm"], mail["X-Xwheel-Kind"]) == ("7", "failed")
    assert mail.get_content_type() == "multipart/alternative"
    text, html = mail.iter_parts()
    assert text.get_content_type() == "text/plain"
    assert "9999\ndisk is full\n\nalarm 7, failed, 2026-01-01 00:00:01 UTC" in content_of(text)
    assert html.get_content_type() == "text/html"
    assert "9999\ndisk is full</pre>" in content_of(html)


def test_a_mail_goes_unencrypted_only_if_the_options_say_so(plain: MailServer) -> None:
    channel = channel_to(plain.port, html="", text="{title}", receivers=["c@example.com"])
    assert channel.send(alarm_of(receivers=())) == "sent to c@example.com: kept as 42"
    assert plain.parsed().get_content_type() == "text/plain"
    assert content_of(plain.parsed()) == "nightly report failed\n"


@pytest.mark.parametrize("login", [{}, {"username": USER, "password": PASSWORD}])
def test_a_server_without_starttls_gets_no_login_and_no_mail(
    plain: MailServer, ca_file: str, login: dict[str, str]
) -> None:
    channel = channel_to(plain.port, "starttls", ca_file=ca_file, **login)
    with pytest.raises(EmailError, match="STARTTLS extension"):
        channel.send(alarm_of())
    assert (plain.logins, plain.mails) == ([], [])


@pytest.mark.parametrize("security", ["tls", "starttls"])
def test_a_certificate_of_others_is_not_trusted(start: Start, tmp_path: object, security: str) -> None:
    other = f"{tmp_path}/other.pem"
    trustme.CA().cert_pem.write_to_path(other)
    server = start(security, login=True)
    channel = channel_to(server.port, security, ca_file=other, username=USER, password=PASSWORD)
    with pytest.raises(EmailError, match="certificate verify failed"):
        channel.send(alarm_of())
    assert (server.logins, server.mails) == ([], [])


def test_a_certificate_for_another_name_is_not_trusted(start: Start, ca_file: str) -> None:
    server = start("tls")
    channel = channel_to(server.port, "tls", ca_file=ca_file, host="localhost")
    with pytest.raises(EmailError, match="certificate verify failed|[Hh]ostname"):
        channel.send(alarm_of())
    assert server.mails == []


@pytest.mark.parametrize("said", ["535 5.7.8 no", f"535 {PASSWORD} is wrong", "454 4.7.0 not now"])
def test_a_refused_login_is_reported_without_the_password(start: Start, ca_file: str, said: str) -> None:
    server = start("tls", login=True)
    server.login_reply = said
    channel = channel_to(server.port, "tls", ca_file=ca_file, username=USER, password=PASSWORD)
    with pytest.raises((EmailError, AlarmRetryLater), match="refused the login: (535|454) ") as caught:
        channel.send(alarm_of())
    assert isinstance(caught.value, AlarmRetryLater) == said.startswith("454")
    assert PASSWORD not in repr(caught.value)
    assert server.mails == []


def test_one_refused_receiver_is_tried_again_without_the_others(plain: MailServer) -> None:
    plain.receiver_replies = {"gone@example.com": "550 5.1.1 no such user"}
    channel = channel_to(plain.port)
    alarm = alarm_of(receivers=["a@example.com", "gone@example.com", "b@example.com"])
    with pytest.raises(EmailError) as caught:
        channel.send(alarm)
    assert str(caught.value) == (
        "not sent to gone@example.com: 550 5.1.1 no such user; sent to a@example.com, b@example.com"
    )
    with pytest.raises(EmailError, match="^not sent to gone@example.com: 550 5.1.1 no such user$"):
        channel.send(alarm)
    plain.receiver_replies = {}
    assert channel.send(alarm) == "sent to gone@example.com: kept as 42"
    assert [receivers for receivers, _ in plain.mails] == [["a@example.com", "b@example.com"], ["gone@example.com"]]
    assert plain.parsed(0)["Message-ID"] == plain.parsed(1)["Message-ID"]


def test_a_summary_is_not_taken_for_a_repetition(plain: MailServer) -> None:
    plain.receiver_replies = {"gone@example.com": "550 no"}
    channel = channel_to(plain.port)
    for count in (1, 5):
        with pytest.raises(EmailError):
            channel.send(alarm_of(receivers=["a@example.com", "gone@example.com"], count=count))
    assert len(plain.mails) == 2
    assert plain.parsed(0)["Message-ID"] != plain.parsed(1)["Message-ID"]


def test_a_test_is_sent_to_all_receivers_each_time(plain: MailServer) -> None:
    plain.receiver_replies = {"gone@example.com": "550 no"}
    channel = channel_to(plain.port)
    for _ in range(2):
        with pytest.raises(EmailError):
            channel.send(alarm_of(kind=AlarmKind.TEST, receivers=["a@example.com", "gone@example.com"]))
    assert len(plain.mails) == 2


def test_what_is_no_address_is_named_and_the_others_get_the_mail(plain: MailServer) -> None:
    alarm = alarm_of(receivers=["a@example.com", "b@example.com>\r\nRCPT TO:<c@example.com", "nobody", "é@example.com"])
    with pytest.raises(EmailError, match=r"not sent to 'b@example\.com>\\r\\nRCPT.*not sent to 'nobody': must be"):
        channel_to(plain.port).send(alarm)
    assert [receivers for receivers, _ in plain.mails] == [["a@example.com"]]


def test_an_alarm_without_receivers_is_an_error(plain: MailServer) -> None:
    with pytest.raises(EmailError, match="no receivers: .*plugins.options.alarm_email.receivers"):
        channel_to(plain.port).send(alarm_of(receivers=()))
    with pytest.raises(EmailError, match="101 receivers are more than 100"):
        channel_to(plain.port).send(alarm_of(receivers=[f"a{n}@example.com" for n in range(101)]))
    assert plain.mails == []


@pytest.mark.parametrize(("reply", "error"), [("451 4.3.0 later", AlarmRetryLater), ("554 5.6.0 never", EmailError)])
def test_a_refused_mail_is_repeated_later_if_the_server_says_so(
    plain: MailServer, reply: str, error: type[Exception]
) -> None:
    plain.data_reply = reply
    channel = channel_to(plain.port)
    with pytest.raises(error, match=f"refused the mail: {reply}") as caught:
        channel.send(alarm_of())
    if isinstance(caught.value, AlarmRetryLater):
        assert caught.value.after_s == 60
    plain.data_reply = "250 OK"
    assert channel.send(alarm_of()) == "sent to ops@example.com: OK"


def test_a_receiver_refused_for_now_is_repeated_later(plain: MailServer) -> None:
    plain.receiver_replies = {"grey@example.com": "450 4.2.0 greylisted", "gone@example.com": "550 no"}
    with pytest.raises(AlarmRetryLater, match="not sent to gone.*450 4.2.0 greylisted.*sent to a@example.com"):
        channel_to(plain.port).send(alarm_of(receivers=["gone@example.com", "grey@example.com", "a@example.com"]))


def read_line(connection: socket.socket) -> bytes:
    found = b""
    while not found.endswith(b"\r\n"):
        part = connection.recv(1)
        if not part:
            raise OSError("closed")
        found += part
    return found


@pytest.mark.parametrize("security", ["tls", "starttls", "plain"])
def test_a_server_that_says_nothing_meets_the_time_limit(raw: Raw, security: str) -> None:
    def listen(connection: socket.socket) -> None:
        while connection.recv(1000):
            pass

    server = raw(listen)
    with pytest.raises(EmailError, match=rf"127\.0\.0\.1:{server.port} did not take the mail within 1 s"):
        channel_to(server.port, security, timeout_s=1).send(alarm_of())
    gc.collect()  # a connection left open would be an error here


def test_a_server_that_sends_byte_by_byte_meets_the_time_limit(raw: Raw) -> None:
    over = threading.Event()

    def drip(connection: socket.socket) -> None:
        connection.sendall(b"220 hello\r\n")
        while not over.wait(0.1):  # each line comes in time; all of them together never end
            connection.sendall(b"250-more\r\n")

    server = raw(drip)
    try:
        with pytest.raises(EmailError, match="did not take the mail within 1 s"):
            channel_to(server.port, timeout_s=1).send(alarm_of())
    finally:
        over.set()


def test_a_server_that_closes_is_an_error(raw: Raw) -> None:
    server = raw(lambda connection: None)
    with pytest.raises(EmailError, match=rf"127\.0\.0\.1:{server.port}: "):
        channel_to(server.port).send(alarm_of())
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        with pytest.raises(EmailError, match="Error connecting"):
            channel_to(unused.getsockname()[1]).send(alarm_of())


def talk(*, after_data: bytes, after_quit: bytes) -> Callable[[socket.socket], None]:
    """Return a server that takes a mail, and then says this and closes."""

    def serve(connection: socket.socket) -> None:
        connection.sendall(b"220 hello\r\n")
        while True:
            verb = read_line(connection)[:4].upper()
            if verb == b"DATA":
                connection.sendall(b"354 go on\r\n")
                while read_line(connection) != b".\r\n":
                    pass
                if not after_data:
                    return
                connection.sendall(after_data)
            elif verb == b"QUIT":
                connection.sendall(after_quit)
                return
            else:
                connection.sendall(b"250 OK\r\n")

    return serve


def test_a_server_that_closes_instead_of_an_answer_has_not_taken_the_mail(raw: Raw) -> None:
    server = raw(talk(after_data=b"", after_quit=b""))
    with pytest.raises(EmailError, match=rf"127\.0\.0\.1:{server.port}: "):
        channel_to(server.port).send(alarm_of())


def test_an_error_at_quit_changes_nothing(raw: Raw) -> None:
    server = raw(talk(after_data=b"250 kept\r\n", after_quit=b""))
    assert channel_to(server.port).send(alarm_of()) == "sent to ops@example.com: kept"


def test_a_name_look_up_that_hangs_ends_with_the_time_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    over = threading.Event()

    def hang(*args: object, **options: object) -> list[object]:
        over.wait(DEADLINE_S)
        return []

    monkeypatch.setattr(socket, "getaddrinfo", hang)
    try:
        with pytest.raises(EmailError, match="did not take the mail within 1 s"):
            channel_to(25, host="mail.invalid", timeout_s=1).send(alarm_of())
        assert not over.is_set()
    finally:
        over.set()


def test_the_trusted_authorities_are_read_anew_for_each_mail(start: Start, ca_file: str, tmp_path: object) -> None:
    server = start("tls")
    path = f"{tmp_path}/ca.pem"
    trustme.CA().cert_pem.write_to_path(path)
    channel = channel_to(server.port, "tls", ca_file=path)
    with pytest.raises(EmailError, match="certificate verify failed"):
        channel.send(alarm_of())
    shutil.copy(ca_file, path)
    assert channel.send(alarm_of()).startswith("sent to")


def test_the_contract_of_channels_holds(plain: MailServer) -> None:
    check_alarm_channel(channel_to(plain.port), receivers=["a@example.com"])
    assert plain.mails
