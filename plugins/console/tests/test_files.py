"""What is shipped: the libraries are those of the manifest, the words are complete, the wheel has all files."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from xwheel_devtools.testing import check_pages

from xwheel_console import Console

HOME = Path(__file__).resolve().parents[1]
STATIC = HOME / "xwheel_console" / "static"
VENDOR = HOME / "vendor"
MANIFEST = json.loads((STATIC / "vendor" / "MANIFEST.json").read_text())
OWN = sorted(path for path in STATIC.rglob("*.js") if "vendor" not in path.parts)
LANGUAGES = sorted(path.name for path in (STATIC / "i18n").iterdir())
AREAS = sorted(path.name for path in (STATIC / "i18n" / "en").iterdir())


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_the_console_keeps_the_contract_of_pages() -> None:
    check_pages(Console())


def test_the_libraries_are_those_of_the_manifest() -> None:
    made = {path.name for path in (STATIC / "vendor").iterdir()} - {"MANIFEST.json"}
    assert made == set(MANIFEST["outputs"])
    for name, digest in MANIFEST["outputs"].items():
        assert sha256(STATIC / "vendor" / name) == digest, name
    for name, digest in MANIFEST["inputs"].items():
        assert sha256(VENDOR / name) == digest, f"{name} has changed: npm ci --ignore-scripts && npm run build"


def test_each_library_has_an_exact_version_and_its_licence_is_there() -> None:
    wanted = json.loads((VENDOR / "package.json").read_text())["dependencies"]
    assert all(re.fullmatch(r"\d+\.\d+\.\d+", version) for version in wanted.values())
    found = {item["name"]: item["version"] for item in MANIFEST["packages"]}
    assert {name: found.get(name) for name in wanted} == wanted
    texts = (STATIC / "vendor" / "LICENSES.txt").read_text()
    for item in MANIFEST["packages"]:
        assert item["licence"] in {"MIT", "Apache-2.0", "BSD-3-Clause", "0BSD"}, item
        head = f"{item['name']} {item['version']} ({item['licence']})\n{'=' * 72}\n"
        assert head in texts
        assert len(texts.partition(head)[2].partition("=" * 72)[0]) > 200, item["name"]


@pytest.mark.skipif(
    not os.environ.get("REQUIRE_SERVERS") and not (VENDOR / "node_modules").is_dir(),
    reason="the npm packages are not installed: 'make console' does that",
)
def test_a_build_anew_gives_the_same_files(tmp_path: Path) -> None:
    subprocess.run(["node", "build.mjs", tmp_path / "out"], cwd=VENDOR, check=True, timeout=120)
    for name, digest in MANIFEST["outputs"].items():
        assert sha256(tmp_path / "out" / name) == digest, name


def test_both_languages_have_the_same_words_with_the_same_slots() -> None:
    assert set(LANGUAGES) == {"en", "zh-CN"}
    for area in AREAS:
        english, chinese = (json.loads((STATIC / "i18n" / lang / area).read_text()) for lang in ("en", "zh-CN"))
        assert list(english) == sorted(english), f"{area} is not sorted"
        assert english.keys() == chinese.keys(), area
        for key, text in english.items():
            slots = set(re.findall(r"\{(\w+)\}", text)) - {"count"}
            assert slots == set(re.findall(r"\{(\w+)\}", chinese[key])) - {"count"}, f"{area}: {key}"
            assert text.strip(), f"{area}: {key} is empty"
            assert chinese[key].strip(), f"{area}: {key} is empty"


def keys_of(text: str) -> set[str]:
    """Return the keys of words that a module names whole."""
    return set(re.findall(r"""\bt\(["']([\w.-]+)["']""", text))


def test_each_word_that_is_asked_for_is_there_and_each_that_is_there_is_asked_for() -> None:
    words = {key for area in AREAS for key in json.loads((STATIC / "i18n" / "en" / area).read_text())}
    plain = {re.sub(r"_(one|other)$", "", key) for key in words}
    whole = "\n".join(path.read_text() for path in OWN)
    missing = {key for key in keys_of(whole) if key not in plain}
    assert not missing
    made = set(re.findall(r"`([\w.-]+\.)\$\{", whole)) | {"health.", "job.giveBack", "job.takeOver", "keys.", "nav."}
    whole_prefix = {prefix for prefix in re.findall(r"""["']([\w.-]+)["']""", whole) if "." in prefix}
    unused = {
        key
        for key in plain
        if f'"{key}"' not in whole
        and not any(key.startswith(prefix) for prefix in made)
        and key.rpartition(".")[0] not in whole_prefix
    }
    assert not unused


def test_no_words_stand_in_the_code() -> None:
    """Text between tags of a template must come from a catalogue."""
    for path in OWN:
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if line.lstrip().startswith(("//", "*", "/*", "/**")):
                continue
            for text in re.findall(r">([^<>${}`]*[A-Za-z]{3,}[^<>${}`]*)</", line):
                assert text.strip() in {"xwheel", "CSV", "PNG", "JSON", "OpenAPI"}, f"{path.name}:{number}: {text!r}"


def test_the_wheel_has_every_file(tmp_path: Path) -> None:
    """And no other; the whole build is tried by 'make wheel' besides."""
    subprocess.run(
        [
            sys.executable,
            "-m",
            "pip",
            "wheel",
            "--quiet",
            "--no-deps",
            "--no-build-isolation",
            "--wheel-dir",
            tmp_path,
            ".",
        ],
        cwd=shutil.copytree(
            HOME, tmp_path / "source", ignore=shutil.ignore_patterns("node_modules", "build", "*.egg-info")
        ),
        check=True,
        timeout=120,
    )
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        shipped = {name for name in archive.namelist() if name.startswith("xwheel_console/static/")}
    there = {
        f"xwheel_console/static/{path.relative_to(STATIC).as_posix()}" for path in STATIC.rglob("*") if path.is_file()
    }
    assert shipped == there


def test_the_first_page_is_light() -> None:
    """What is there before charts: HTML, styles, libraries, the shell, and the page of jobs with its words."""
    import gzip

    html = (STATIC / "index.html").read_text()
    asked = [STATIC / "index.html", *(STATIC / name for name in re.findall(r'(?:href|src)="([^"]+)"', html))]
    seen: dict[Path, int] = {}
    while asked:
        path = asked.pop()
        if path in seen:
            continue
        data = path.read_bytes()
        seen[path] = len(gzip.compress(data, 9))
        if path.suffix == ".js" and "vendor" not in path.parts:
            asked += [(path.parent / name).resolve() for name in re.findall(r'from "(\.[^"]+)"', data.decode())]
    for extra in ("pages/jobs.js", "i18n/en/shell.json", "i18n/en/jobs.json"):
        if (STATIC / extra).exists():
            seen[STATIC / extra] = len(gzip.compress((STATIC / extra).read_bytes(), 9))
    assert sum(seen.values()) < 80_000, seen
