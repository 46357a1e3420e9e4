"""Commands that pages name in passing exist, with the options that they name; listings are run elsewhere."""

from __future__ import annotations

import re
import shlex
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer.main

from tests.support.paths import ROOT
from tests.test_docs import NAMING_PAGES
from xwheel.cli import main

SPAN = re.compile(r"`(xwheel [^`\n]+)`")
SENTENCES = {"xwheel does not speak '…'"}
FENCE = re.compile(r"^ *```.*?^ *```$", re.DOTALL | re.MULTILINE)


@cache
def root() -> Any:
    return typer.main.get_command(main.app)


def unknown_word(command: str) -> str | None:
    """Return the first word of a command line that its command does not know, or None."""
    try:
        words = shlex.split(command)[1:]
    except ValueError:  # a piece of a command
        return None
    at = root()
    for word in words:
        at = getattr(at, "loaded", at)
        if word.startswith("-"):
            known = {name for item in at.params for name in (*item.opts, *item.secondary_opts)}
            if word.split("=")[0] not in known | {"-h", "--help"}:
                return word
        elif below := getattr(at, "commands", None):
            # several stand between bars, and what begins otherwise stands for something
            if wrong := [one for one in word.split("|") if one[:1].islower() and one not in below]:
                return wrong[0]
            at = below.get(word, at)
    return None


@pytest.mark.parametrize("page", NAMING_PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_in_the_text_exist(page: Path) -> None:
    text = FENCE.sub("", page.read_text("utf-8"))
    found = {span: unknown_word(span) for span in SPAN.findall(text) if span not in SENTENCES}
    assert {span: word for span, word in found.items() if word} == {}


@pytest.mark.parametrize(
    ("command", "word"),
    [
        ("xwheel serve", "serve"),
        ("xwheel server --confg x", "--confg"),
        ("xwheel job begin nightly", "begin"),
        ("xwheel job list --everything", "--everything"),
        ("xwheel alarm rule crate x", "crate"),
        ("xwheel job run nightly --wait", None),
        ("xwheel job start|begin", "begin"),
        ("xwheel token …", None),
        ("xwheel db upgrade --help", None),
    ],
)
def test_a_wrong_word_is_found(command: str, word: str | None) -> None:
    assert unknown_word(command) == word
