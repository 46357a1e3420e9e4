"""Files that are not trusted: what is taken, and one line with file and line for what is not."""

from __future__ import annotations

import io

import pytest
from xwheel_commands.yaml_files import YamlFileError, read_documents

from xwheel_jobs_as_code.checking import build_state
from xwheel_jobs_as_code.state import Ref, State


def read(text: str) -> State:
    return build_state([("f", document) for document in read_documents("f", io.BytesIO(text.encode()))])


def test_bare_words_are_what_every_reader_agrees_on() -> None:
    words = ["yes", "no", "on", "1e3", "0x10", "0o7", "2026-01-01", "1_000", ".5", "12:30:45", "010", "+1", "TRUE"]
    jobs = ", ".join(f"{{name: j{n}, handler: h, param: {word}}}" for n, word in enumerate(words))
    state = read(f"groups: [{{app_name: g, jobs: [{jobs}]}}]")
    assert [job.values["param"] for job in state.jobs.values()] == words


def test_aliases_repeat_values_and_documents_add_up() -> None:
    state = read(
        "groups:\n- app_name: a\n  jobs:\n  - &j {name: x, handler: h}\n- app_name: b\n  jobs: [*j]\n"
        "---\n---\ngroups:\n- app_name: c\n"
    )
    assert list(state.groups) == ["a", "b", "c"]
    assert list(state.jobs) == [Ref("a", "x"), Ref("b", "x")]


JOB = "groups:\n- app_name: g\n  jobs:\n  - name: j\n    handler: h\n    "


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("- a", "f:1: the document must be a table"),
        ("groupz: []", "f:1: 'groupz': is not a key of the document; did you mean groups"),
        ("groups: 5", "f:1: groups: must be a list"),
        ("groups: [5]", "f:1: a group must be a table"),
        ("groups: [{app_name: 5}]", "f:1: app_name: must be text of 1 to 64 .*quotes"),
        ("groups: [{app_name: a}, {app_name: a}]", "f:1: group a: stands twice, first at f:1"),
        (JOB + "timeout_s: -1", "f:6: job g/j: timeout_s: must be a whole number from 0 to"),
        (JOB + "timeout_s: '5'", "f:6: job g/j: timeout_s: must be a whole number"),
        (JOB + "param: 5", "f:6: job g/j: param: must be text .*; put it in quotes"),
        (JOB + 'param: "a\\0"', "f:6: job g/j: param: must not contain the character NUL"),
        (JOB + "enabled: yes", "f:6: job g/j: enabled: must be true or false"),
        (JOB + "retry_delays_ms: 5", "f:6: job g/j: retry_delays_ms: must be a list"),
        (JOB + "group_id: 5", "f:6: 'group_id': is not a key of a job j"),
        (JOB + "timeot_s: 5", "f:6: 'timeot_s': is not a key of a job j; did you mean timeout_s"),
        (JOB + "handlr: 5", "did you mean handler"),
        (JOB.replace("handler: h", "param: x") + "timeout_s: 5", "f:4: job g/j: handler: must name"),
        (JOB + "children: [a, a]", "f:6: job g/j: children: g/a stands twice"),
        (JOB + "children: [{param: x}]", "children: job: is required"),
        (JOB + "children: [{job: a, paramx: x}]", "'paramx': is not a key of a child; did you mean param"),
        (JOB + "children: [{job: a, param: '${result.5}'}]", "names an id: write"),
        (JOB + "children: [j]", "f:4: job g/j: children: make a cycle: g/j -> g/j"),
        (JOB + "timeout_s: 0\n  - {name: j, handler: h}", "f:7: job g/j: stands twice, first at f:4"),
        ("calendars: [{name: c}]", "f:1: calendar c: definition: is required"),
        ("calendars: [{name: c, definition: {}}, {name: c, definition: {}}]", "stands twice"),
    ],
    ids=range(24),
)
def test_what_cannot_be_used_is_one_sentence_with_its_place(text: str, message: str) -> None:
    with pytest.raises(YamlFileError, match=message) as caught:
        read(text)
    assert len(str(caught.value).splitlines()) == 1
    assert len(str(caught.value)) < 1500


def test_a_long_chain_costs_no_recursion() -> None:
    jobs = "".join(f"  - {{name: j{n}, handler: h, children: [j{n + 1}]}}\n" for n in range(1200))
    state = read(f"groups:\n- app_name: g\n  jobs:\n{jobs}  - {{name: j1200, handler: h}}\n")
    assert len(state.jobs) == 1201
