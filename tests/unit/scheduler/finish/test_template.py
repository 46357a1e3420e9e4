"""Parameter templates and the success of a fire: decided from rows alone."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.rows import NOW, make_run
from xwheel.errors import FieldError
from xwheel.model import Run, RunState
from xwheel.scheduler.finish.template import MAX_RESULT, Success, TemplateError, check_template, render, succeeded


def success(*results: str, job_id: int = 4, param: str = "given") -> Success:
    return Success(make_run(70, job_id=job_id, planned_ms=NOW + 5), results, param)


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("", ""),
        ("plain", "plain"),
        ("${result}", 'say "hi"'),
        ('{"r": "${result:json}"}', '{"r": "say \\"hi\\""}'),
        ("${param}/${run_id}/${job_id}/${planned_ms}", f"given/70/4/{NOW + 5}"),
        ("${run_id:json}", "70"),
        ("$$${run_id}", "$70"),
        ("$${result}", "${result}"),
        ("{result} %s {0}", "{result} %s {0}"),
        ("${result.4}+${result.9}", 'say "hi"+other'),
    ],
)
def test_templates_are_filled(template: str, text: str) -> None:
    check_template(template, (4, 9))
    assert render(template, success('say "hi"'), {9: success("other", job_id=9)}) == text


@given(st.text(max_size=200))
def test_what_is_handed_on_as_json_comes_back_unchanged(result: str) -> None:
    filled = render('{"r": "${result:json}"}', success(result), {})
    assert json.loads(filled) == {"r": result}


@given(st.text(alphabet="${}result.:json 4_x", max_size=40))
def test_a_template_that_was_checked_can_be_filled(template: str) -> None:
    try:
        check_template(template, (4,))
    except FieldError as error:  # refused on save, so that it is never filled
        refused = error
    else:
        render(template, success("r"), {})
        return
    assert refused.field == "param"
    assert re.search(r"is no name of a template|is no parent", str(refused))
    assert "$" in template


@given(st.text(max_size=60))
def test_what_a_result_says_is_never_filled_again(result: str) -> None:
    assert render("${result}", success(f"${{param}}{result}"), {}) == f"${{param}}{result}"


@pytest.mark.parametrize(
    "template", ["$", "${}", "${nothing}", "${result.x}", "${result.0}", "${RESULT}", "${ result}"]
)
def test_an_unknown_name_is_refused_with_the_known_ones(template: str) -> None:
    with pytest.raises(FieldError, match=r"known: \$\{result\}"):
        check_template(template)


def test_only_parents_have_results() -> None:
    check_template("${result.4}", (4, 5))
    with pytest.raises(FieldError, match="job 6 is no parent; parents: 4, 5"):
        check_template("${result.6}", (4, 5))


def test_a_broadcast_hands_on_a_list() -> None:
    assert json.loads(render("${result}", success("a", "", 'c"'), {})) == ["a", "", 'c"']


@pytest.mark.parametrize(("length", "fits"), [(MAX_RESULT - 1, True), (MAX_RESULT, True), (MAX_RESULT + 1, False)])
def test_a_result_has_its_limit(length: int, fits: bool) -> None:
    if fits:
        assert len(render("${result}", success("x" * length), {})) == length
        return
    with pytest.raises(TemplateError, match=f"{length} characters"):
        render("${result}", success("x" * length), {})


@pytest.mark.parametrize(("more", "fits"), [(0, True), (1, False)])
def test_a_parameter_has_its_limit(more: int, fits: bool) -> None:
    template = "${result}" * 4 + "y" * more
    most = 3 * 4 * MAX_RESULT
    long = success("\u6587" * MAX_RESULT)
    if fits:
        assert len(render(template, long, {}, max_bytes=most).encode()) == most
        return
    with pytest.raises(TemplateError, match=rf"{most + 1} bytes as UTF-8, {most} are .*api\.max_param_bytes"):
        render(template, long, {}, max_bytes=most)


def test_a_result_that_nobody_has_is_an_error() -> None:
    with pytest.raises(TemplateError, match="job 8 has no result in this chain"):
        render("${result.8}", success("r"), {})


def shard(run_id: int, index: int, state: RunState, *, attempt: int = 1, total: int = 2, message: str = "") -> Run:
    return make_run(
        run_id, root_id=1, shard_index=index, shard_total=total, attempt=attempt, state=state, message=message
    )


def test_every_shard_must_have_succeeded_in_one_of_its_attempts() -> None:
    good, bad, lost = RunState.SUCCEEDED, RunState.FAILED, RunState.LOST
    first, second = shard(1, 0, good, message="a"), shard(2, 1, bad)
    again = shard(3, 1, good, attempt=2, message="b")
    assert succeeded([first, second], "p") is None
    assert succeeded([first], "p") is None, "a shard that is not there has not succeeded"
    assert succeeded([shard(1, 0, lost), again], "p") is None
    whole = succeeded([first, second, again], "p")
    assert whole is not None
    assert (whole.first.id, whole.results, whole.param) == (1, ["a", "b"], "p")
    # the run was not lost after all, and the recovery run came to nothing
    late = [first, shard(2, 1, good, message="late"), shard(3, 1, RunState.CANCELLED, attempt=2)]
    found = succeeded(late, "p")
    assert found is not None
    assert found.results == ["a", "late"]


def test_the_runs_own_parameter_goes_before_the_jobs_even_if_it_is_empty() -> None:
    run = make_run(1, state=RunState.SUCCEEDED, param="")
    found = succeeded([run], "the job's")
    assert found is not None
    assert found.param == ""
