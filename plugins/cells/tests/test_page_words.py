"""The page of cells: its files keep the contract, and its words are complete in both languages."""

from __future__ import annotations

import re
from pathlib import Path

from xwheel_devtools.testing import check_pages

import xwheel_cells
from xwheel_cells import problems
from xwheel_cells.pages import CellPages

STATIC = Path(CellPages.folder)
PAIR = re.compile(r'"?([\w.-]+)"?: "([^"]*)"')


def words() -> tuple[dict[str, str], dict[str, str]]:
    text = (STATIC / "cells.js").read_text("utf-8")
    english, chinese = text[: text.index("menu:")].split('"zh-CN":')
    return dict(PAIR.findall(english)), dict(PAIR.findall(chinese))


def test_the_page_keeps_the_contract() -> None:
    (found,) = xwheel_cells.xwheel_register_pages()
    check_pages(found)


def test_both_languages_have_the_same_words_with_the_same_slots() -> None:
    english, chinese = words()
    assert len(english) > 40
    assert english.keys() == chinese.keys()
    for key, text in english.items():
        slots, others = (set(re.findall(r"\{(\w+)\}", one)) - {"count"} for one in (text, chinese[key]))
        assert slots == others, key
        assert text.strip(), key
        assert chinese[key].strip(), key


def test_every_word_is_there_and_each_is_used() -> None:
    english, _ = words()
    text = "\n".join((STATIC / name).read_text("utf-8") for name in ("page.js", "parts.js"))
    asked = set(re.findall(r'\bw\("([\w.-]+)"', text)) | set(re.findall(r'"(\w+)"', text)) & english.keys()
    assert set(re.findall(r'\bw\("([\w.-]+)"', text)) <= {re.sub("_(one|other)$", "", key) for key in english}
    unused = {re.sub("_(one|other)$", "", key) for key in english if not key.startswith("code.")}
    assert unused - asked <= {"title", "jobs", "runs", "cells", "groups", "executors"}


def test_each_reason_has_words_of_its_own() -> None:
    source = Path(problems.__file__).read_text("utf-8")
    codes = set(re.findall(r'CellError\(\s*"(\w+)"', source)) | set(re.findall(r': \("(\w+)", f?"', source))
    english, _ = words()
    assert {f"code.{code}" for code in codes} == {key for key in english if key.startswith("code.")}
    assert len(codes) == 10
