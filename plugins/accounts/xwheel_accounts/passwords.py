"""Passwords of people: hashed with argon2id, and refused where they would be guessed.

The rules are those of NIST SP 800-63B revision 4, section 3.1.1.2, for a password that stands alone: length and a list
of what is known, and no rule about kinds of characters.
"""

from __future__ import annotations

import itertools
import math
import re
import secrets
import unicodedata
from collections.abc import Iterable
from functools import cache
from typing import TYPE_CHECKING, Final

from xwheel.errors import ConfigError, FieldError
from xwheel.extras import extra
from xwheel.guessing import easy_pattern, is_walk, without_phrases

if TYPE_CHECKING:
    from argon2 import PasswordHasher

FIELD: Final = "password"
MIN_LENGTH: Final = 15
"""What NIST SP 800-63B revision 4 asks of a password that no second factor adds to."""

MAX_LENGTH: Final = 256
MIN_OWN: Final = 8
"""Letters and digits that a password must have besides words that are known."""

MEMORY_KIB: Final = 19 * 1024
"""Memory, passes and lanes as the OWASP Password Storage Cheat Sheet says: about 25 ms on a core of 2023."""

PASSES: Final = 2
LANES: Final = 1
MAX_STORED: Final = 255
DUMMY: Final = "$argon2id$v=19$m=19456,t=2,p=1$Fvhd5KW+v3nNznbwkht5BA$6qWwF0/fom9FNqGxIPIYd5lefk3A1Jm4JimXOEzMlC8"
"""The hash of nothing that is known: to judge the password of an unknown name costs as much as that of a known one."""

LETTERS: Final = "abcdefghjkmnpqrstuvwxyz23456789"
"""Of what made passwords consist: nothing that is easily mistaken for something else, nor needs a shift key."""

MADE_PARTS: Final = 4
MADE_LENGTH: Final = 5
OWN_WORDS: Final = ("xwheel", "password", "passwort")
SHORTEST_WORD: Final = 2
_BETWEEN: Final = re.compile(r"[\s!-/:-@\[-`{-~]")
LEAST_GUESSES: Final = 9
"""Powers of ten of guesses that a password of common words must take; five words by chance take 15 and more."""


def hash_password(text: str) -> str:
    """Return what is stored of a password: argon2id with a salt of its own, in the usual form of such hashes."""
    return _hasher().hash(_bytes(text))


def verify_password(stored: str | None, text: str) -> bool:
    """Return whether a password is the one that was hashed; it takes as long for a name that is unknown.

    Args:
        stored: What :func:`hash_password` returned; None if there is none, or no such name.
        text: What somebody typed.
    """
    from argon2.exceptions import InvalidHashError, VerificationError

    is_fit = stored is not None and 0 < len(text) <= MAX_LENGTH
    try:
        return _hasher().verify(stored if stored and is_fit else DUMMY, _bytes(text[:MAX_LENGTH])) and is_fit
    except (InvalidHashError, VerificationError):
        return False


def needs_rehash(stored: str) -> bool:
    """Return whether a hash was made with other parameters than new ones are: hash the password again at a sign-in."""
    from argon2.exceptions import InvalidHashError

    try:
        return _hasher().check_needs_rehash(stored)
    except InvalidHashError:
        return True


def check_password(text: str, words: Iterable[str] = ()) -> None:
    """Refuse a password that is too short, known, or easily guessed.

    Args:
        text: The password.
        words: What an attacker would try first for this account: its name, the person's name, the company's.

    Raises:
        FieldError: Says what is wrong, and holds nothing of the password.
    """
    plain = _normalised(text)
    if not MIN_LENGTH <= len(plain) <= MAX_LENGTH:
        raise FieldError(
            FIELD,
            f"must have {MIN_LENGTH} to {MAX_LENGTH} characters; several words that do not belong together do well",
        )
    try:
        plain.encode()
    except UnicodeEncodeError:
        raise FieldError(FIELD, "must not hold halves of characters") from None
    if weakness := _weakness(plain.casefold(), _parts_of(words)):
        raise FieldError(FIELD, f"must not {weakness}")


def make_password() -> str:
    """Return a random password that people can read aloud and type: about 99 bits."""
    parts = ("".join(secrets.choice(LETTERS) for _ in range(MADE_LENGTH)) for _ in range(MADE_PARTS))
    return "-".join(parts)


def _weakness(bare: str, words: Iterable[str]) -> str:
    """Return what makes a password easy to guess, or an empty text."""
    if easy := easy_pattern(bare):
        return easy
    if bare in _known_passwords():
        return "be one that is on lists of known passwords"
    rest = bare
    for word in sorted(words, key=len, reverse=True):
        rest = rest.replace(word, "")
    if rest != bare and _is_little(rest):
        return "consist of names and words that everybody knows"
    return _weakness_of_parts(bare)


def _weakness_of_parts(bare: str) -> str:
    """Return what makes a password easy to guess though it is not known as a whole, or an empty text."""
    rest = without_phrases(bare)
    if rest != re.sub(r"[\W_]", "", bare) and _is_little(rest):
        return "consist of a phrase that everybody knows"
    core = re.sub(r"^[\W\d_]+|[\W\d_]+$", "", bare)
    rest = bare.replace(core, "") if core else bare
    if (core in _known_passwords() or easy_pattern(core)) and _is_little(rest):
        return "be one that is on lists of known passwords, with something in front of or behind it"
    if is_walk(bare):
        return "walk over the keyboard"
    if _is_guessed(bare):
        return "consist of few words that people use most: take five words by chance, or more"
    return ""


def _is_little(rest: str) -> bool:
    """Return whether what a password has besides known words is guessed soon."""
    return sum(char.isalnum() for char in rest) < MIN_OWN or bool(easy_pattern(rest)) or is_walk(rest)


def _is_guessed(bare: str) -> bool:
    """Return whether a text is put together from words and names that people use most, with little else.

    The cheapest way to put it together counts: a word as its place in the list that it stands first in, another sign as
    ten guesses. What stands between words counts where it changes. The time grows with the length and no other way.
    """
    between = _BETWEEN.findall(bare)
    text = _BETWEEN.sub("", bare)
    known, longest = _known_passwords(), _longest_known()
    best = [0.0]
    for end in range(1, len(text) + 1):
        cheapest = best[end - 1] + 1
        for begin in range(max(0, end - longest), end):
            place = known.get(text[begin:end])
            if place is not None:
                cheapest = min(cheapest, best[begin] + math.log10(2 * (place + 1)))
        best.append(cheapest)
    changes = sum(one != two for one, two in itertools.pairwise(between))
    return bool(best[-1] + changes < LEAST_GUESSES)


def _parts_of(words: Iterable[str]) -> set[str]:
    """Return words and what stands in them between dots, blanks and the like, all in small letters."""
    whole = {_normalised(word).casefold() for word in (*words, *OWN_WORDS)}
    parts = {part for word in whole for part in re.split(r"[\W_]+", word)}
    return {word for word in whole | parts if len(word) >= SHORTEST_WORD}


@cache
def _known_passwords() -> dict[str, int]:
    """Return passwords, words and names that are tried first, each with its place in the list that it is first in.

    Read once, when the first password is set.
    """
    with extra("server", lambda why: ConfigError(f"judging passwords {why}")):
        from zxcvbn.frequency_lists import FREQUENCY_LISTS

    found: dict[str, int] = {}
    for words in FREQUENCY_LISTS.values():
        for place, word in enumerate(words, 1):
            found[word] = min(place, found.get(word, place))
    return found


@cache
def _longest_known() -> int:
    return max(map(len, _known_passwords()))


@cache
def _hasher() -> PasswordHasher:
    with extra("server", lambda why: ConfigError(f"hashing passwords {why}")):
        from argon2 import PasswordHasher

    return PasswordHasher(time_cost=PASSES, memory_cost=MEMORY_KIB, parallelism=LANES)


def _normalised(text: str) -> str:
    """Return a text in the one form that all keyboards and systems come to."""
    return unicodedata.normalize("NFC", text)


def _bytes(text: str) -> bytes:
    return _normalised(text).encode("utf-8", "surrogatepass")
