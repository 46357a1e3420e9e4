"""Passwords of people: what is stored of them, and which are refused."""

from __future__ import annotations

import random
import re
import subprocess
import sys
import unicodedata
from hashlib import sha512

import pytest
from argon2 import PasswordHasher, extract_parameters
from argon2.low_level import Type
from xwheel_accounts import passwords
from xwheel_accounts.passwords import check_password, hash_password, make_password, needs_rehash, verify_password

from xwheel.errors import FieldError

GOOD = "nine herons above the weir"


def refusal(text: str, *words: str) -> str:
    with pytest.raises(FieldError) as caught:
        check_password(text, words)
    assert caught.value.field == "password"
    assert text not in str(caught.value)
    return caught.value.reason


def test_a_hash_is_argon2id_with_what_owasp_asks_for_and_a_salt_of_its_own() -> None:
    one, two = hash_password(GOOD), hash_password(GOOD)
    assert one != two
    found = extract_parameters(one)
    assert found.type is Type.ID
    assert (found.memory_cost >= 19 * 1024, found.time_cost >= 2, found.parallelism) == (True, True, 1)
    assert found.salt_len >= 16
    assert len(one) <= passwords.MAX_STORED
    assert verify_password(one, GOOD)
    assert not verify_password(one, f"{GOOD} ")


@pytest.mark.parametrize("stored", [None, "", "plain", "$argon2id$v=19$m=19456,t=2,p=1$broken", "$2b$12$abc"])
def test_what_is_no_hash_is_nobody_s_password(stored: str | None) -> None:
    for text in (GOOD, "", "plain", "x" * 5_000):
        assert not verify_password(stored, text)


def test_an_unknown_name_costs_as_much_as_a_known_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each question is one hash with the same parameters, whatever is asked."""
    judged: list[str] = []
    real = PasswordHasher.verify

    def verify(self: PasswordHasher, stored: str, text: bytes) -> bool:
        judged.append(stored)
        return real(self, stored, text)

    monkeypatch.setattr(PasswordHasher, "verify", verify)
    known = hash_password(GOOD)
    for stored, text in ((known, GOOD), (known, "wrong"), (None, GOOD), (known, "x" * 257), (known, "")):
        verify_password(stored, text)
    assert len(judged) == 5
    assert len({str(extract_parameters(stored)) for stored in judged}) == 1
    assert not needs_rehash(passwords.DUMMY)


def test_a_hash_of_other_parameters_is_made_anew() -> None:
    weak = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1).hash(GOOD)
    assert verify_password(weak, GOOD)
    assert needs_rehash(weak)
    assert needs_rehash("plain")
    assert not needs_rehash(hash_password(GOOD))


def test_the_same_letters_of_two_keyboards_are_one_password() -> None:
    text = "vier Bögen über Flüssen"
    composed, apart = unicodedata.normalize("NFC", text), unicodedata.normalize("NFD", text)
    assert composed != apart
    assert verify_password(hash_password(apart), composed)
    assert verify_password(hash_password(composed), apart)


@pytest.mark.parametrize(
    "text",
    [
        GOOD, "Nine  herons\tabove\x00 the weir", "夜の川に九羽の青鷺が立っていたのを見た",
        "🦩🐘🌵🎻🚲🍋🧊🦔🔭🪁🧦🪴🛶🧲🪵",
        "\u202eright to left marks on weirs", "839204857261049", "x7Kq vT9mzrw8Lp", "Rfk29dl40sk38fj2",
        "the password of nine herons", "&/(x$%)=?!#+*~'{",
        sha512(b"one").hexdigest() + sha512(b"two").hexdigest(),
    ],
)  # fmt: skip
def test_no_rule_about_kinds_of_characters(text: str) -> None:
    check_password(text, ["alice", "Alice Liddell"])
    assert verify_password(hash_password(text), text)


@pytest.mark.parametrize("length", [0, 1, 14, 257, 5_000])
def test_short_and_endless_ones_are_refused(length: int) -> None:
    text = ("kqvtmzrwlpfsn" * 500)[:length]
    with pytest.raises(FieldError, match="must have 15 to 256 characters"):
        check_password(text)


def test_length_is_counted_in_characters_as_they_are_stored() -> None:
    check_password(unicodedata.normalize("NFD", "äöüéèàñçßøåïôûx")[:30])
    assert "15 to 256" in refusal(unicodedata.normalize("NFD", "äöüéèàñçøåïôû"))


def test_half_a_character_is_refused_and_never_breaks_a_check() -> None:
    text = "nine herons above \ud800"
    assert "halves" in refusal(text)
    assert not verify_password(hash_password(GOOD), text)


@pytest.mark.parametrize("text", ["qwertyuiop12345", "1qaz2wsx3edc4rfv", "POLNIYPIZDEC0211", "q1w2e3r4t5y6u7i8o9p0"])
def test_known_ones_are_refused_in_any_case(text: str) -> None:
    assert "lists of known passwords" in refusal(text)


@pytest.mark.parametrize("text", ["Password1234567", "!!!!letmein2024!!", "123456Dragon12345", "Constantinople1!"])
def test_a_known_one_between_figures_is_refused(text: str) -> None:
    assert refusal(text)


@pytest.mark.parametrize(
    "text", ["a" * 20, "abcabcabcabcabc", "hunter2hunter2hunter2", "passwordpassword", "trombonetrombone"]
)
def test_what_repeats_itself_is_refused(text: str) -> None:
    assert refusal(text) == "must not repeat itself"


@pytest.mark.parametrize(
    "text",
    ["1234567890123456", "abcdefghijklmnopq", "zyxwvutsrqponml", "aaaaaaabbbbbbbb", "1111222233334444",
     "987654321098765"],
)  # fmt: skip
def test_what_counts_is_refused(text: str) -> None:
    assert refusal(text) in {"must not count, or repeat characters", "must not repeat itself"}


@pytest.mark.parametrize(
    "text",
    ["Alice.Liddell-2024", "alice-liddell-ali", "alice1234567890", "LiddellAliceXwheel", "liddell password!",
     "xwheel-alice-xwheel"],
)  # fmt: skip
def test_what_is_only_the_account_s_own_words_is_refused(text: str) -> None:
    assert "names and words" in refusal(text, "alice.liddell", "Alice Liddell")
    check_password(f"{GOOD} alice", ["alice.liddell"])


@pytest.mark.parametrize(
    "text",
    ["qwertyuiopasdfgh", "Qwertyuiop Asdfgh", "zaq12wsxcde34rfv", "!QAZ@WSX#EDC$RFV", "poiuytrewqlkjhgf",
     "qwertzuiopasdfgh", "azertyuiopqsdfgh", "yxcvbnmasdfghjk", "7894561230789456"],
)  # fmt: skip
def test_a_walk_over_the_keyboard_is_refused(text: str) -> None:
    """S18: whichever row it begins in, with shift or without, on the keyboards of three countries."""
    assert refusal(text)


@pytest.mark.parametrize(
    "text",
    ["correcthorsebatterystaple", "Correct-Horse-Battery-Staple!", "correct horse battery staple 42",
     "thequickbrownfox", "The quick brown fox jumps", "tobeornottobethatisthequestion", "maytheforcebewithyou1",
     "iloveyouverymuch", "house car dog cat", "sunshine princess dragon", "thisismypassword1"],
)  # fmt: skip
def test_what_everybody_knows_by_heart_is_refused(text: str) -> None:
    """S18: known phrases, and few words that people use most."""
    assert refusal(text)


def test_words_by_chance_are_good() -> None:
    """Five of a list of some thousand short words, with or without something between them, a thousand times."""
    words = [word for word in passwords._known_passwords() if word.isalpha() and 4 <= len(word) <= 8]
    chance = random.Random(26)
    common = sorted(words, key=passwords._known_passwords().__getitem__)[:7776]
    for number in range(1000):
        check_password(("-", " ", "")[number % 3].join(chance.sample(common, 5)), ["alice"])


def test_a_judgement_takes_no_longer_than_its_length_asks_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is typed, each place of it is asked about once for each length that a known word has."""

    class Counting(dict[str, int]):
        asked = 0

        def get(self, *args: object) -> int | None:  # type: ignore[override]
            self.asked += 1
            return super().get(*args)  # type: ignore[call-overload, no-any-return]

    known = Counting(passwords._known_passwords())
    monkeypatch.setattr(passwords, "_known_passwords", lambda: known)
    check_password("4@8({[</369&#!1/|0$5+7%2" * 10 + "k")
    assert 0 < known.asked <= passwords.MAX_LENGTH * passwords._longest_known()


def test_made_ones_are_good_and_differ() -> None:
    made = [make_password() for _ in range(50)]
    assert len(set(made)) == 50
    for text in made:
        assert re.fullmatch(r"([a-hj-km-np-z2-9]{5}-){3}[a-hj-km-np-z2-9]{5}", text)
        check_password(text, ["admin", "xwheel"])


@pytest.mark.processes
def test_lists_and_hashing_are_loaded_when_they_are_needed() -> None:
    code = (
        "import sys, xwheel_accounts.passwords as p; "
        "print(sorted({'argon2', 'zxcvbn'} & set(sys.modules))); "
        "p.verify_password(None, 'x'); print(sorted({'argon2', 'zxcvbn'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["[]", "['argon2']"]
