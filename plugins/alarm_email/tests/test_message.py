"""What a mail looks like, for any text in an alarm."""

from __future__ import annotations

import html
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import default
from typing import Any, cast

import pytest
from conftest import alarm_of, register
from hypothesis import given
from hypothesis import strategies as st

from xwheel_alarm_email.addresses import parse_address
from xwheel_alarm_email.message import MAX_SUBJECT, MessageWriter

HEADERS = [
    "Subject",
    "From",
    "To",
    "Date",
    "Message-ID",
    "Auto-Submitted",
    "X-Xwheel-Alarm",
    "X-Xwheel-Kind",
    "MIME-Version",
    "Content-Type",
]


def write(options: dict[str, Any] | None = None, receivers: tuple[str, ...] = ("a@b.c",), **alarm: Any) -> EmailMessage:
    given = {"host": "h", "sender": "x@example.com"}
    (channel,) = register(**(given | (options or {})))
    raw = MessageWriter(channel._options).write(alarm_of(**alarm), receivers)
    head, _, _ = raw.partition(b"\r\n\r\n")
    assert all(len(line) <= 998 for line in raw.split(b"\r\n"))
    assert b"\n" not in raw.replace(b"\r\n", b"")
    names = [line.split(b":")[0].decode() for line in head.split(b"\r\n") if line[:1] not in b" \t"]
    assert names == HEADERS
    return cast(EmailMessage, message_from_bytes(raw, policy=default))


def parts_of(mail: EmailMessage) -> tuple[str, str]:
    text, page = mail.iter_parts()
    return text.get_content().replace("\r\n", "\n"), page.get_content().replace("\r\n", "\n")


@pytest.mark.parametrize(
    "mark", ["\r\n", "\n", "\r", "\x0b", "\x0c", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029", "\0", "\r\n\r\n"]
)
def test_a_name_adds_no_header(mark: str) -> None:
    mail = write(title=f"job{mark}Bcc: victim@example.com{mark}{mark}<html>")
    assert mail["Subject"] == "[xwheel] job Bcc: victim@example.com <html>"
    assert mail["Bcc"] is None


WORDS = {
    "header": "=?utf-8?Q?=0D=0AReply-To:=20evil@example.com=0D=0A=0D=0Abody?=",
    "base64": "=?utf-8?b?DQpCY2M6IGVAeC55DQoNCmJvZHk=?=",
    "two": "=?utf-8?q?a?= =?utf-8?q?=0Ab?=",
    "charset": "=?us-ascii?q?=0d=0aBcc:_a@b.c?=",
    "beside": "nächtlich =?iso-8859-1?q?=0aBcc=3A?= x",
    "none": "=?=?=",
}


@pytest.mark.parametrize("name", WORDS)
def test_s22_what_looks_like_an_encoded_word_stays_as_it_was_written(name: str) -> None:
    """S22: on some releases of Python the name of a job added headers and a body."""
    mail = write(title=WORDS[name])
    assert mail["Subject"] == f"[xwheel] {WORDS[name]}"
    assert list(mail.keys()) == HEADERS


@given(st.text("=?utf-8QB09ADab \n_.", max_size=100))
def test_s22_any_subject_is_read_as_it_was_written(text: str) -> None:
    shown = " ".join(f"[xwheel] {text}".split())
    assert write(title=text)["Subject"] == shown


@given(st.text(max_size=300), st.text(max_size=2000))
def test_any_alarm_makes_one_valid_mail(title: str, body: str) -> None:
    mail = write(title=title, text=body)
    assert len(mail["Subject"]) <= MAX_SUBJECT
    text, page = parts_of(mail)
    for part in (text, page):
        part.encode()
        assert not set(part) & {chr(code) for code in range(32) if chr(code) not in "\t\n\r"}
    assert page.count("<") == 9


def test_shell_marks_and_markup_arrive_as_they_were_written() -> None:
    name = "$(touch /tmp/x) `id` ; | & > \" ' \\ <script>alert(1)</script> {title} ${HOME} %s 任务"
    text, page = parts_of(mail := write(title=name, text=name))
    assert mail["Subject"] == f"[xwheel] {name}"
    assert text.splitlines()[:2] == [name, ""]
    assert "<script>" not in page
    assert html.unescape(page).count(name) == 1


def test_long_texts_are_cut_and_say_so() -> None:
    mail = write(title="ä" * 5000, text="line\n" * 100_000)
    assert len(mail["Subject"]) == MAX_SUBJECT
    assert mail["Subject"].endswith("ä [...]")
    text, _ = parts_of(mail)
    assert len(text) < 60_000
    assert "[...]" in text


def test_templates_are_the_operators() -> None:
    options = {
        "sender_name": "Zeitplan Käfer, Abt. 3",
        "subject": "{kind}: {reason}",
        "text": "{count} times",
        "html": "<b>{reason}</b>",
    }
    mail = write(options, receivers=("a@b.c", "d@e.f"), reason="<&>", count=4)
    assert mail["From"].addresses[0].display_name == "Zeitplan Käfer, Abt. 3"
    assert [address.addr_spec for address in mail["To"].addresses] == ["a@b.c", "d@e.f"]
    assert mail["Subject"] == "failed: <&>"
    assert parts_of(mail) == ("4 times\n", "<b>&lt;&amp;&gt;</b>\n")


def test_a_hundred_receivers_fit_in_the_header() -> None:
    receivers = tuple(f"somebody.with.a.name{number}@a-rather-long-domain.example.com" for number in range(100))
    mail = write(receivers=receivers)
    assert [address.addr_spec for address in mail["To"].addresses] == list(receivers)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("ops@example.com", "ops@example.com"),
        (" a.b+c@x-y.example ", "a.b+c@x-y.example"),
        ("ops@bücher.example", "ops@xn--bcher-kva.example"),
        ("root@localhost", "root@localhost"),
    ],
)
def test_addresses(text: str, found: str) -> None:
    assert parse_address(text) == found


@pytest.mark.parametrize(
    "text",
    [
        "",
        "@",
        "a@",
        "@b",
        "a b@c.d",
        "a@b@c.d",
        "Name <a@b.c>",
        "a@b.c,d@e.f",
        "a@b.c\nX: y",
        "a\n@b.c",
        "a@b\n.c",
        '"a b"@c.d',
        "ä@b.c",
        ".a@b.c",
        "a@-b.c",
        "a@b..c",
        "a@b.c.",
        "a@[127.0.0.1]",
        "a@" + "b" * 64 + ".c",
        "a" * 251 + "@b.c",
        "a@b.c>",
        "a@b.c SIZE=1",
    ],
)
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(ValueError, match="^m(ust|ay) "):
        parse_address(text)


@given(st.text(max_size=60))
def test_an_accepted_address_is_harmless_on_a_command_line(text: str) -> None:
    try:
        found = parse_address(text)
    except ValueError as error:
        refused = error
    else:
        assert found.isascii()
        assert not set(found) & set(' <>",;:()[]\\\r\n\t\0')
        assert found.count("@") == 1
        return
    assert str(refused).startswith(("must ", "may "))
