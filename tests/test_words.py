"""Texts keep to the field's plain English: readers of a second language meet no word that has a simpler one."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.paths import DOCS_PAGES, ROOT

CODE = [
    path
    for folder in (ROOT / "xwheel", *(ROOT / "plugins").glob("*/xwheel_*"))
    for path in sorted(folder.rglob("*.py"))
]
PAGES = [
    *DOCS_PAGES,
    *sorted((ROOT / "plugins").glob("*/xwheel_*/**/*.txt")),
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")),
]

# the word, and what says the same: again, no one, next to or besides, anyone who, this many
WORDS = re.compile(
    r"\b(?P<word>anew|Anew|nobody|Nobody|whoever|Whoever|beside|Beside|[Ss]o (?:many|long|much) [a-z]+ as)\b"
)
# names that only who wrote them understands
NAMES = re.compile(
    r"^(?:Told|Sight|Audience|Weather|Standing|people?|doubt|doubted|is_beyond|sturdy|nobody|anew|whoever)$",
    re.IGNORECASE,
)
# Unix's account, programs' options
MEANT = re.compile(r"[`'\"]nobody[`'\"]|run_as = \"nobody\"|//nobody|curl\.NOBODY")


def texts(path: Path) -> Iterator[tuple[int, str]]:
    """Give a page, or the comments and texts of a file of code, with their lines; texts of one word are values."""
    whole = path.read_text("utf-8")
    if path.suffix != ".py" or not WORDS.search(whole):
        yield 1, whole
        return
    for token in tokenize.generate_tokens(io.StringIO(whole).readline):
        if token.type == tokenize.COMMENT or (token.type == tokenize.STRING and " " in token.string):
            yield token.start[0], token.string


def odd_words(number: int, text: str) -> Iterator[tuple[int, str]]:
    """Give the words of a text that have a simpler one."""
    for offset, line in enumerate(text.splitlines()):
        for match in WORDS.finditer(MEANT.sub("", line)):
            yield number + offset, match["word"]


@pytest.mark.parametrize("path", [CODE, PAGES], ids=["code", "pages"])
def test_words_have_no_simpler_one(path: list[Path]) -> None:
    found = [
        f"{file.relative_to(ROOT)}:{number}: {word}"
        for file in path
        for begin, text in texts(file)
        for number, word in odd_words(begin, text)
    ]
    assert not found, "write again, no one, next to, besides, anyone who, or this many"


def test_names_of_classes_and_functions_are_the_fields_own() -> None:
    found = [
        f"{file.relative_to(ROOT)}:{node.lineno}: {node.name}"
        for file in CODE
        for node in ast.walk(ast.parse(file.read_text("utf-8")))
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and NAMES.match(node.name)
    ]
    assert not found, "design.md, section 2, has the field's terms"


def test_the_check_finds_words() -> None:
    found = list(odd_words(3, "read anew\nby the user `nobody`\nNobody reads, besides so many lines as fit"))
    assert found == [(3, "anew"), (5, "Nobody"), (5, "so many lines as")]
