"""What makes a password or a secret easy to guess, by its characters alone: no lists of words, so that all may ask."""

from __future__ import annotations

import itertools
import re
from functools import cache
from typing import Final

# keys that stand next to each other, in the rows of the keyboards that most people have; numbers stand above letters
_KEYBOARDS: Final = (
    ("1234567890-=", "qwertyuiop[]", "asdfghjkl;'", "zxcvbnm,./"),
    ("1234567890ß", "qwertzuiopü+", "asdfghjklöä#", "yxcvbnm,.-"),
    ("1234567890", "azertyuiop", "qsdfghjklm", "wxcvbn,;:!"),
    ("789", "456", "123"),
)
_SHIFTED: Final = str.maketrans("!@#$%^&*()", "1234567890")
PHRASES: Final = tuple(
    re.sub(r"[\W_]", "", text)
    for text in (
        "correct horse battery staple", "the quick brown fox jumps over the lazy dog",
        "to be or not to be that is the question", "mary had a little lamb", "twinkle twinkle little star",
        "may the force be with you", "lorem ipsum dolor sit amet consectetur", "once upon a time", "i love you so much",
        "hello world", "open sesame", "all your base are belong to us", "in the beginning was the word",
        "we the people of the united states", "four score and seven years ago", "live long and prosper",
        "pack my box with five dozen liquor jugs", "let me in please", "this is my password", "this is a secret",
        "somewhere over the rainbow", "winter is coming", "never gonna give you up",
        "supercalifragilisticexpialidocious", "franz jagt im taxi quer durch bayern",
    )
)  # fmt: skip
"""What everybody knows by heart, without what stands between the words; its first words alone count too."""

LEAST_WORDS: Final = 12  # letters of a known phrase that are taken for it


def easy_pattern(text: str) -> str:
    """Return what is wrong with a text of repeated or counting characters, or an empty text."""
    bare = text.casefold()
    if any(bare.startswith(bare[period:]) for period in range(1, len(bare) // 2 + 1)):
        return "repeat itself"
    steps = sum(_counts(one, two) for one, two in itertools.pairwise(bare))
    return "count, or repeat characters" if _is_most(steps, bare) else ""


def is_walk(text: str) -> bool:
    """Return whether the characters of a text are next to each other on a keyboard, for the most part."""
    bare = text.casefold().translate(_SHIFTED)
    pairs = list(itertools.pairwise(bare))
    # each digit is next to half of the others on a block of keys
    spare = len(pairs) // 5 if bare.isdecimal() else 0
    # on one keyboard: next to each other on any of them are so many keys that what chance made would be refused
    return any(
        _is_most(sum(_counts(one, two) or two in keys.get(one, ()) for one, two in pairs) - spare, bare)
        for keys in map(_neighbours, _KEYBOARDS)
    )


def without_phrases(text: str) -> str:
    """Return the letters and digits of a text in small letters, without a phrase that everybody knows."""
    bare = re.sub(r"[\W_]", "", text.casefold())
    for phrase in PHRASES:
        for length in range(len(phrase), min(LEAST_WORDS, len(phrase)) - 1, -1):
            if phrase[:length] in bare:
                bare = bare.replace(phrase[:length], "")
                break
    return bare


def _counts(one: str, two: str) -> bool:
    return abs(ord(one) - ord(two)) in (0, 1, 9, 25)


def _is_most(steps: int, text: str) -> bool:
    return 3 * steps >= 2 * (len(text) - 1) > 0


@cache
def _neighbours(rows: tuple[str, ...]) -> dict[str, frozenset[str]]:
    found: dict[str, set[str]] = {}
    places = [(row, column) for row, keys in enumerate(rows) for column in range(len(keys))]
    for row, column in places:
        around = [(row, column - 1), (row, column + 1)]
        # a row stands half a key to the right of the one above it
        around += [(row - 1, column), (row - 1, column + 1), (row + 1, column - 1), (row + 1, column)]
        for line, place in around:
            if 0 <= line < len(rows) and 0 <= place < len(rows[line]):
                found.setdefault(rows[row][column], set()).add(rows[line][place])
    return {key: frozenset(keys) for key, keys in found.items()}
