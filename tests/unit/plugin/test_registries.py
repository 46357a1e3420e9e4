"""A name that no plugin has is refused, with what a distribution says about where it comes from."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from xwheel.errors import UnknownNameError
from xwheel.plugin import registries
from xwheel.plugin.registries import Registry, where_it_comes_from

PutHints = Callable[[str, str], None]


@pytest.fixture
def put_hints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[PutHints]:
    """Put a distribution with hints on the path."""

    def put(name: str, source: str) -> None:
        folder = tmp_path / name
        info = folder / f"{name}-1.2.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.2\n")
        (info / "entry_points.txt").write_text(f"[xwheel.hints]\n{name} = {name}:HINTS\n")
        (folder / f"{name}.py").write_text(source)
        monkeypatch.syspath_prepend(str(folder))
        monkeypatch.delitem(sys.modules, name, raising=False)
        registries._all_hints.cache_clear()

    yield put
    registries._all_hints.cache_clear()


def test_a_name_that_a_distribution_knows_has_its_hint(put_hints: PutHints) -> None:
    put_hints("acme_hints", "HINTS = {'router': {'NEARBY': 'NEARBY comes with acme-routers'}}")
    with pytest.raises(UnknownNameError, match="known: FIRST; NEARBY comes with acme-routers$"):
        Registry("router", {"FIRST": 1}, {})["NEARBY"]
    with pytest.raises(UnknownNameError, match="known: FIRST$"):
        Registry("router", {"FIRST": 1}, {})["FARTHER"]
    assert where_it_comes_from("glue type", "NEARBY") == ""


@pytest.mark.parametrize(
    "source", ["raise SystemExit('no')", "HINTS = {'router': ['NEARBY']}", "HINTS = None", "OTHER = {}"]
)
def test_hints_that_cannot_be_read_are_logged_once_and_hide_no_others(
    put_hints: PutHints, caplog: pytest.LogCaptureFixture, source: str
) -> None:
    put_hints("acme_hints", "HINTS = {'router': {'NEARBY': 'NEARBY comes with acme-routers'}}")
    put_hints("broken_hints", source)
    assert where_it_comes_from("router", "NEARBY") == "NEARBY comes with acme-routers"
    assert where_it_comes_from("router", "FARTHER") == ""
    assert caplog.text.count("broken_hints = broken_hints:HINTS of xwheel.hints: ") == 1
