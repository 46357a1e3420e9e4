"""The listings of the pages: fenced blocks of Markdown, with where they stand."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Final, TypeVar

from tests.support.paths import DOCS_PAGES, ROOT

HISTORY: Final = "CHANGELOG.md"
THEIRS: Final = "theirs"
"""What a fence says behind the language of a listing that belongs to another product."""
_FENCE: Final = re.compile(r"^( *)```(\S*) ?([^\n]*)\n(.*?)^\1```$", re.DOTALL | re.MULTILINE)
_SAVED: Final = re.compile(r"[Ss]ave this as `([^`]+)`")


@dataclass(frozen=True, slots=True)
class Listing:
    """A fenced block of a page.

    Attributes:
        page: The page's path from the root.
        line: The number of the line of its fence.
        language: What the fence says.
        text: Its lines, without the fence's indentation.
        mark: What the fence says behind the language.
        file: The name under which the page wants it saved, or empty.
    """

    page: str
    line: int
    language: str
    text: str
    mark: str = ""
    file: str = ""

    @property
    def first(self) -> str:
        """Its first line that says something, by which tests name it."""
        return next((line.strip() for line in self.text.splitlines() if line.strip()), "")

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


@cache
def all_listings() -> tuple[Listing, ...]:
    """Return the listings of all pages, in the order in which they stand there."""
    pages = [*ROOT.glob("*.md"), *DOCS_PAGES, *ROOT.glob("plugins/*/README.md")]
    return tuple(
        listing
        for path in sorted(pages)
        if path.name != HISTORY
        for listing in read_listings(str(path.relative_to(ROOT)), path.read_text("utf-8"))
    )


def read_listings(page: str, text: str) -> Iterator[Listing]:
    """Yield the listings of a page's text."""
    before = 0
    for found in _FENCE.finditer(text):
        line = text.count("\n", 0, found.start()) + 1
        names = _SAVED.findall(text[before : found.start()])
        yield Listing(page, line, found[2], textwrap.dedent(found[4]), found[3].strip(), (names or [""])[-1])
        before = found.end()


def listings_of(page: str, *languages: str) -> list[Listing]:
    """Return the listings of a page in some languages, or in all."""
    found = [item for item in all_listings() if item.page == page]
    return [item for item in found if not languages or item.language in languages]


def one_listing(page: str, beginning: str) -> Listing:
    """Return the one listing of a page whose first line is this, or else begins so."""
    whole = [item for item in listings_of(page) if item.first == beginning]
    found = whole or [item for item in listings_of(page) if item.first.startswith(beginning)]
    assert len(found) == 1, f"{page} has {len(found)} listings that begin with {beginning!r}"
    return found[0]


@dataclass(frozen=True, slots=True)
class Claim:
    """Who answers for some listings.

    Attributes:
        page: Their page.
        beginning: How the first line of the one listing begins; empty for all of the page.
        languages: Only listings in these; all if there is none. Those of other products are left out.
        by: A test that runs them, or why no one can.
    """

    page: str
    by: str
    beginning: str = ""
    languages: tuple[str, ...] = ()

    def listings(self) -> list[Listing]:
        """Return what it is about; there must be something."""
        if self.beginning:
            return [one_listing(self.page, self.beginning)]
        found = [item for item in listings_of(self.page, *self.languages) if item.mark != THEIRS]
        assert found, f"{self.page} has no such listing"
        return found


RUN: list[Claim] = []
"""What the tests that use :func:`runs` answer for."""

Test = TypeVar("Test", bound=Callable[..., None])


def runs(page: str, beginning: str) -> Callable[[Test], Test]:
    """Say which listing a test runs."""

    def note(test: Test) -> Test:
        RUN.append(Claim(page, f"{test.__module__.replace('.', '/')}.py::{test.__name__}", beginning))
        return test

    return note
