"""Commands that pages name in passing exist, with the options that they name; listings are run elsewhere."""

from __future__ import annotations

import ast
import importlib
import re
import shlex
import sys
import tomllib
from functools import cache
from pathlib import Path

import pytest

from tests.support.commands import every_command
from tests.support.paths import ROOT
from tests.test_docs import NAMING_PAGES
from xwheel.cli.plugin_commands import INDEX

SPAN = re.compile(r"`(xwheel [^`\n]+)`")
SENTENCES = {"xwheel does not speak '…'"}
FENCE = re.compile(r"^ *```.*?^ *```$", re.DOTALL | re.MULTILINE)


@cache
def of_plugins() -> dict[str, set[str]]:
    """Return the commands of our plugins, which are not installed next to the core's tests, with those below them."""
    found: dict[str, set[str]] = {}
    for path in ROOT.glob("plugins/*/xwheel_*/__init__.py"):
        for node in ast.parse(path.read_text("utf-8")).body:
            if isinstance(node, ast.ClassDef) and "Command" in node.name:
                values = {
                    item.targets[0].id: ast.literal_eval(item.value)
                    for item in node.body
                    if isinstance(item, ast.Assign) and isinstance(item.targets[0], ast.Name)
                }
                if not values:  # what such a class is made of
                    continue
                below = set() if values["is_one"] else commands_in(path.with_name("command.py"))
                found[values["name"]] = below
    return found


def commands_in(path: Path) -> set[str]:
    """Return the names of the commands of a module."""
    text = path.read_text("utf-8")
    return set(re.findall(r'^@app\.command\("(\w+)"\)', text, re.MULTILINE)) | set(
        re.findall(r"^@app\.command\(\)\ndef (\w+)", text, re.MULTILINE)
    )


def unknown_word(command: str) -> str | None:
    """Return the first word of a command line that its command does not know, or None."""
    try:
        words = shlex.split(command)[1:]
    except ValueError:  # a piece of a command
        return None
    if words and words[0] in of_plugins():
        below_it = of_plugins()[words[0]]
        wrong = [one for one in "".join(words[1:2]).split("|") if below_it and one[:1].islower()]
        return next((one for one in wrong if one not in below_it), None)
    at = every_command()
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


def test_commands_in_the_text_exist() -> None:
    assert [
        (str(page.relative_to(ROOT)), span, word)
        for page in NAMING_PAGES
        for span in SPAN.findall(FENCE.sub("", page.read_text("utf-8")))
        if span not in SENTENCES and (word := unknown_word(span))
    ] == []


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
        ("xwheel package check|begin", "begin"),
        ("xwheel node --config node.toml", None),
        ("xwheel db upgrade --help", None),
    ],
)
def test_a_wrong_word_is_found(command: str, word: str | None) -> None:
    assert unknown_word(command) == word


def test_our_distributions_name_each_of_their_commands_in_the_index(monkeypatch: pytest.MonkeyPatch) -> None:
    before, with_commands = dict(sys.modules), set()
    for path in sorted(ROOT.glob("plugins/*/pyproject.toml")):
        entries = tomllib.loads(path.read_text("utf-8"))["project"].get("entry-points", {})
        index = entries.get(INDEX, {})
        if not index and "xwheel_register_commands" not in "".join(
            file.read_text("utf-8") for file in path.parent.glob("xwheel_*/*.py")
        ):
            continue
        with_commands.add(path.parent.name)
        monkeypatch.syspath_prepend(str(path.parent))
        (target,) = entries["xwheel"].values()
        assert {
            item.name: item.module if item.is_one else f"{item.module}:app"
            for item in importlib.import_module(target).xwheel_register_commands()
        } == index
    assert with_commands == {
        "accounts",
        "alarms",
        "cluster_zookeeper",
        "commands",
        "devtools",
        "job_package",
        "job_versions",
        "jobs_as_code",
        "reports",
        "why",
    }
    for name in set(sys.modules) - set(before):
        if name.startswith("xwheel_"):
            del sys.modules[name]
