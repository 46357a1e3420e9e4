"""The runner of mistakes: on a tree of two files, and that each mistake still fits the code."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.mutants import Mistake
from tests.mutants.__main__ import Outcome, main, survivors, table, verdict
from tests.mutants.catalogue import StaleError, changed, check, folder_of, mistakes, sample
from tests.mutants.explained import EXPLAINED
from tests.support.paths import ROOT

CODE = """\"\"\"Made up.\"\"\"

def smallest(values):
    return min(values)

def largest(values):
    return max(values)
"""
TESTS = """
from xwheel.made_up import largest, smallest

def test_the_smallest():
    assert smallest([2, 1, 3]) == 1

def test_largest():
    assert largest([1]) == 1

def test_broken():
    assert largest([1]) == 2
"""
FILE = "xwheel/made_up.py"
BESIDE = "tests/test_made_up.py"


def a_mistake(
    old: str = "min(values)",
    new: str = "max(values)",
    *,
    why: str = "it gives the largest",
    tests: tuple[str, ...] = (f"{BESIDE}::test_the_smallest",),
    file: str = FILE,
) -> Mistake:
    return Mistake(file=file, old=old, new=new, why=why, tests=tests)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name, text in ((FILE, CODE), ("xwheel/__init__.py", ""), (BESIDE, TESTS)):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    return tmp_path


def test_every_mistake_fits_the_code() -> None:
    faults = []
    for mistake in mistakes():
        try:
            check(mistake, ROOT)
        except StaleError as error:
            faults.append(str(error))
    assert faults == []
    assert set(EXPLAINED) <= {mistake.why for mistake in mistakes()}, "explained, and no longer made"


@pytest.mark.processes
def test_what_no_test_notices_survives(tree: Path) -> None:
    """A wrong answer, an error at import and a process that ends are noticed; what tests do not look at survives."""
    unseen = a_mistake("max(values)", "values[0]", why="it gives the first", tests=(f"{BESIDE}::test_largest",))
    made = [
        a_mistake(),
        a_mistake('"""Made up."""', "raise RuntimeError", why="it cannot be imported"),
        a_mistake("min(values)", "__import__('os').kill(0, 9)", why="it kills its process group"),
        a_mistake("min(values)", "__import__('os')._exit(0)", why="it ends the tests as if all had passed"),
        unseen,
    ]
    assert survivors(made, tree, 2) == Outcome([unseen], {})
    assert (tree / FILE).read_text() == CODE


@pytest.mark.processes
def test_tests_that_fail_without_a_mistake_prove_nothing(tree: Path) -> None:
    unseen = a_mistake("max(values)", "values[0]", why="it gives the first", tests=(f"{BESIDE}::test_largest",))
    broken, gone = (a_mistake(why=name, tests=(f"{BESIDE}::{name}",)) for name in ("test_broken", "test_gone"))
    outcome = survivors([broken, gone, unseen], tree, 1)
    assert outcome.survived == [unseen]
    assert set(outcome.unproven) == {"test_broken", "test_gone"}
    for name, fault in outcome.unproven.items():
        assert fault.startswith("tests fail without any mistake:")
        assert name in fault


@pytest.mark.parametrize(
    ("mistake", "fault"),
    [
        (a_mistake("values"), "4 times, not once"),
        (a_mistake("gone"), "0 times, not once"),
        (a_mistake("min(values)", "min(values)"), "would not change"),
        (a_mistake("min(values)", "min(values"), "was never closed"),
        (a_mistake(file="xwheel/gone.py"), "gone.py does not exist"),
        (a_mistake(tests=("tests/test_gone.py::test_it",)), "test_gone.py::test_it does not exist"),
        (a_mistake(tests=()), "no tests are named"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_does_not_fit_is_named(mistake: Mistake, fault: str, tree: Path) -> None:
    with pytest.raises(StaleError, match=fault) as raised:
        check(mistake, tree)
    assert mistake.why in str(raised.value)


def test_only_one_place_changes() -> None:
    assert changed(CODE, a_mistake()) == CODE.replace("min(values)", "max(values)")


def test_the_verdict() -> None:
    made = [a_mistake(why=str(number)) for number in range(40)]
    two, three = made[:2], made[:3]
    explained = {mistake.why: "no difference" for mistake in made}
    assert verdict(made, two, explained, whole=True) is None
    assert verdict(made, three, explained, whole=True) == "37 of 40 noticed, under 95%"
    assert verdict(made, three, explained, whole=False) is None
    assert verdict(made, two, {}, whole=False) == "2 survived without an explanation"
    assert table(made, two).splitlines()[-1].split() == ["all", "40", "38", "2"]


def test_a_sample_is_the_same_for_the_same_commit() -> None:
    made = [a_mistake(why=str(number)) for number in range(40)]
    first = sample(made, 5, "abc")
    assert len(first) == 5
    assert sample(made, 5, "abc") == first
    assert sample(made, 5, "abd") != first
    assert len(sample(made, 50, "abc")) == 40


def test_a_plugin_is_one_line_of_the_table() -> None:
    assert folder_of(a_mistake(file="xwheel/scheduler/send/lane.py")) == "xwheel/scheduler/send"
    assert folder_of(a_mistake(file="plugins/egress/xwheel_egress/client.py")) == "plugins/egress"


def test_a_mistake_that_fits_nothing_ends_with_its_own_status(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("tests.mutants.__main__.mistakes", lambda: [a_mistake(file="xwheel/gone.py")])
    assert main([]) == 2
    assert "xwheel/gone.py does not exist" in capsys.readouterr().err


def test_what_was_not_made_counts_as_no_success(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made = [a_mistake(why=str(number)) for number in range(3)]
    monkeypatch.setattr("tests.mutants.__main__.mistakes", lambda: made)
    outcome = Outcome([], {"1": "tests fail without any mistake:\nits tests"})
    monkeypatch.setattr("tests.mutants.__main__.survivors", lambda *_: outcome)
    assert main([]) == 2
    said = capsys.readouterr()
    assert said.out.split("all")[1].split() == ["2", "2", "0"]
    assert "its tests" in said.err
