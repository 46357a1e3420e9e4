"""What the store adds to the console: its files keep the contract, and its words are complete in both languages."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

from xwheel import Config
from xwheel_devtools.testing import check_pages

import xwheel_job_package
from xwheel_job_package.pages import PackagePages

STATIC = Path(PackagePages.folder)
SCRIPTS = {path.name: path.read_text() for path in STATIC.glob("*.js")}
ENGLISH, CHINESE = (json.loads((STATIC / "i18n" / f"{name}.json").read_text()) for name in ("en", "zh-CN"))
IN_MODULE = {"packages.title", "packages.files", "packages.operations", "packages.operate"}


def test_the_pages_keep_the_contract() -> None:
    check_pages(PackagePages())


def test_they_are_there_only_where_a_store_is(tmp_path: Path) -> None:
    assert xwheel_job_package.xwheel_register_pages(Config()) == []
    options = {"job_package": {"store": {"directory": str(tmp_path)}}}
    (found,) = xwheel_job_package.xwheel_register_pages(Config(plugins={"options": options}))  # type: ignore[arg-type]
    assert isinstance(found, PackagePages)


def test_both_languages_have_the_same_words_with_the_same_slots() -> None:
    assert list(ENGLISH) == sorted(ENGLISH)
    assert ENGLISH.keys() == CHINESE.keys()
    for key, text in ENGLISH.items():
        slots, others = (set(re.findall(r"\{(\w+)\}", words)) - {"count"} for words in (text, CHINESE[key]))
        assert slots == others, key
        assert text.strip(), key
        assert CHINESE[key].strip(), key


def test_each_word_is_there_and_each_is_asked_for() -> None:
    whole = "\n".join(SCRIPTS.values())
    plain = {re.sub(r"_(one|other)$", "", key) for key in ENGLISH} | IN_MODULE
    asked = set(re.findall(r"""["'](packages\.[\w.-]+)["']""", whole))
    prefixes = set(re.findall(r"`(packages\.[\w.]+\.)\$\{", whole))
    assert not asked - plain
    unused = {key for key in plain - asked - IN_MODULE if not any(key.startswith(item) for item in prefixes)}
    assert not unused


def test_no_words_stand_in_the_code() -> None:
    for name, text in SCRIPTS.items():
        for number, line in enumerate(text.splitlines(), 1):
            for found in re.findall(r">([^<>${}`]*[A-Za-z]{3,}[^<>${}`]*)</", line):
                assert found.strip() == "SHA-256", f"{name}:{number}: {found!r}"


def test_the_wheel_has_every_file(tmp_path: Path) -> None:
    """UI-2: what browsers load is in the wheel."""
    source = shutil.copytree(
        STATIC.parents[1], tmp_path / "source", ignore=shutil.ignore_patterns("build", "*.egg-info", "tests")
    )
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*command, "--wheel-dir", tmp_path, "."], cwd=source, check=True, timeout=120)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        shipped = {name for name in archive.namelist() if name.startswith("xwheel_job_package/static/")}
    there = {f"xwheel_job_package/static/{path.relative_to(STATIC).as_posix()}" for path in STATIC.rglob("*.*")}
    assert shipped == there
