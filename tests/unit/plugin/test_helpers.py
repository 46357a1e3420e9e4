"""Secrets are hidden however a text spells them."""

from __future__ import annotations

import base64
import html
import json
import re
from collections.abc import Callable
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xwheel.plugin import SecretMask


def test_a_secret_is_hidden_in_every_spelling() -> None:
    secret = 's3cret/ with+odd "signs'
    mask = SecretMask([secret, "", "s3cret"])
    texts = [secret, "s3cret%2F%20with%2Bodd%20%22signs", "s3cret%2F+with%2Bodd+%22signs", json.dumps(secret)[1:-1]]
    for text in texts:
        assert mask.hide(f"a {text} b") == "a *** b"
    assert mask.hide("a s3cret") == "a ***"
    assert mask.longest >= max(map(len, texts))
    assert (SecretMask([]).hide("abc"), SecretMask([]).longest) == ("abc", 0)


SECRET = 's3cret/ with+odd "signs€'
UNITS = [f"\\u{ord(one):04x}" for one in SECRET]
PERCENT = "".join(f"%{octet:02x}" for octet in SECRET.encode())
SPELLINGS = {
    "json": json.dumps(SECRET)[1:-1].replace("/", "\\/"),
    "json unicode": "".join(UNITS),
    "json unicode in capitals": "".join(UNITS).upper().replace("U", "u"),
    "json in json": json.dumps("".join(UNITS))[1:-1],
    "html": html.escape(SECRET),
    "html names": html.escape(SECRET).replace("€", "&euro;").replace("&", "&amp;"),
    "html numbers": "".join(f"&#{ord(one)};" for one in SECRET),
    "html hexadecimal": "".join(f"&#x{ord(one):04X};" for one in SECRET),
    "percent in small letters": PERCENT,
    "percent quoted again": PERCENT.replace("%", "%25"),
    "percent where it must be": quote(SECRET, safe="").lower(),
    "form in small letters": quote_plus(SECRET).lower(),
    "mixed": "".join([SECRET[:3], *UNITS[3:9], PERCENT[27:]]),
    "hexadecimal": SECRET.encode().hex().upper(),
}


@pytest.mark.parametrize("text", SPELLINGS.values(), ids=list(SPELLINGS))
def test_a_secret_is_hidden_as_formats_spell_it(text: str) -> None:
    """S18: as answers repeat it, in capitals or not, each character in its own way."""
    mask = SecretMask([SECRET])
    assert mask.hide(f"a|{text}|b") == "a|***|b"
    assert mask.longest >= len(text)
    assert mask.hide(text[:-9]) == text[:-9]


@pytest.mark.parametrize("place", [0, 1, 2])
@pytest.mark.parametrize("encode", [base64.b64encode, base64.urlsafe_b64encode, base64.encodebytes])
def test_a_secret_is_hidden_in_base64(place: int, encode: Callable[[bytes], bytes]) -> None:
    """S18: wherever it begins among other octets, as after a name and a colon, and in lines."""
    mask = SecretMask([SECRET])
    for before, after in ((b"", b""), (b"n" * 60, b""), (b"", b"e" * 60), (b"somebody:", b"more")):
        whole = encode(b"-" * place + before + SECRET.encode() + after).decode()
        for text in (whole, whole.rstrip("="), whole.replace("\n", "\\n"), quote(whole, safe="")):
            said = mask.hide(text)
            assert "***" in said
            # what is left is of the others alone
            left = "".join(said.split("***")).replace("\\n", "").replace("%0A", "").replace("\n", "")
            assert len(re.sub(r"%3D|=", "", left)) <= (place + len(before) + len(after)) * 4 // 3 + 1


def test_what_is_no_secret_stays() -> None:
    mask = SecretMask([SECRET, "k" * 40, "\\" * 30 + "k"])
    for text in ("", "k" * 39, "\\" * 1000, "%" * 1000, "&#" * 1000, "%25" * 1000, "s3cret", "s3cret/ with+odd"):
        assert mask.hide(text) == text


@given(st.text(min_size=1), st.text(), st.text())
def test_any_secret_is_hidden_and_any_text_is_read(secret: str, before: str, after: str) -> None:
    said = SecretMask([secret]).hide(f"{before}{secret}{after}")
    assert "***" in said
    assert secret not in said.replace("***", "") or secret in f"{before}{after}" or set(secret) & set("*")
