"""HTML of XXL-JOB's messages becomes text, and what only looks like HTML stays."""

from __future__ import annotations

import pytest

from xwheel.api.xxl.executor_calls import to_plain


@pytest.mark.parametrize(
    ("message", "text"),
    [
        ("", ""),
        ("plain & simple", "plain & simple"),
        ("a<br>b<BR/>c<br />d", "a\nb\nc\nd"),
        ('<span style="color:#00c0ef;" > &gt;&gt;&gt;trigger </span>x', " >>>trigger x"),
        ("<p>one</p><p>two</p>", "one\ntwo\n"),
        ("<b>bold</b> <i>x</i> <A HREF='x'>", "bold x <A HREF='x'>"),
        ("<script>alert(1)</script>", "alert(1)"),
        ("<SCRIPT src=//x>", ""),
        ("<img src=x onerror=alert(1)>", ""),
        ("<svg/onload=alert(1)>", ""),
        ("<!-- note -->x", "x"),
        ("&lt;script&gt;", "<script>"),
        ("&amp;lt;b&amp;gt;", "&lt;b&gt;"),
        ("&#60;&#x3e;&quot;&apos;&nbsp;|", "<>\"' |"),
        ("&#0;&#xD800;|", "\ufffd\ufffd|"),
        ("?a=1&copy=2&lt=3", "?a=1&copy=2&lt=3"),
        ("at Foo.<init>(Foo.java:1)", "at Foo.<init>(Foo.java:1)"),
        ("at Foo.<clinit>", "at Foo.<clinit>"),
        ('File "<stdin>", line 1, in <module>', 'File "<stdin>", line 1, in <module>'),
        ("Map<String, List<T>> a < b c > d", "Map<String, List<T>> a < b c > d"),
    ],
)
def test_messages(message: str, text: str) -> None:
    assert to_plain(message) == text


@pytest.mark.timeout(60)
@pytest.mark.parametrize("piece", ["<b", "<b ", "<!--", "&#", "<br", "<span <", "&lt;<"])
def test_no_message_takes_long(piece: str) -> None:
    to_plain(piece * 50_000)  # half a second; minutes if it took the square of it
