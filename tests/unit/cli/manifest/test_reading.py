"""Files that are not trusted: what is taken, and one line with file and line for what is not."""

from __future__ import annotations

import io

import pytest

from xwheel.cli.manifest import reading
from xwheel.cli.manifest.checking import build_state
from xwheel.cli.manifest.reading import MAX_BYTES, ManifestError, read_documents
from xwheel.cli.manifest.state import Ref, State


def read(text: str | bytes) -> State:
    content = text.encode() if isinstance(text, str) else text
    return build_state([("f", document) for document in read_documents("f", io.BytesIO(content))])


class Endless(io.RawIOBase):
    """A file that never ends, and counts what is read of it."""

    def __init__(self) -> None:
        self.taken = 0

    def read(self, size: int = -1) -> bytes:
        assert size > 0
        self.taken += size
        return b" " * size


def test_too_large_is_refused_before_all_of_it_is_read() -> None:
    stream = Endless()
    with pytest.raises(ManifestError, match="f: is too large: at most 32 MiB"):
        read_documents("f", stream)  # type: ignore[arg-type]
    assert stream.taken == MAX_BYTES + 1


def test_bare_words_are_what_every_reader_agrees_on() -> None:
    words = [
        "yes",
        "no",
        "on",
        "1e3",
        "0x10",
        "0o7",
        "2026-01-01",
        "1_000",
        ".5",
        "12:30:45",
        "010",
        "+1",
        "TRUE",
    ]
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


LAUGHS = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{chr(98 + n)}: &{chr(98 + n)} [{','.join(['*' + chr(97 + n)] * 9)}]\n" for n in range(9)
)
JOB = "groups:\n- app_name: g\n  jobs:\n  - name: j\n    handler: h\n    "


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (LAUGHS, "f:6: aliases repeat too much: at most 100000"),
        ("a: &a [*a]", "f:1: the alias \\*a stands for nothing"),
        ("[" * 100_000, "f:1: is nested too deeply: at most 32"),
        ("a:\n" + "".join(" " * n + "- \n" for n in range(1, 50)), "f:33: is nested too deeply"),
        (b"\xff\xfe\x00\x01", "f:1: is not UTF-8"),
        (b"groups:\n- \x80", "f:2: is not UTF-8"),
        (b"a: \x00\x01", "f.*: is not YAML"),
        ("a: [", "f:.*: is not YAML"),
        ("a: !!python/object:os.system x", "f:1: tags such as"),
        ("a: !!set {x}", "f:1: tags such as"),
        ("? [a]\n: b", "f:1: keys must be text"),
        ("x: &a 1\n*a : b", "f:2: keys must be text, not aliases"),
        ("<<: {}", "f:1: merge keys"),
        ("groups: []\ngroups: []", "f:2: the key 'groups' stands here twice, first in line 1"),
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
    ids=range(38),
)
def test_what_cannot_be_used_is_one_sentence_with_its_place(text: str | bytes, message: str) -> None:
    with pytest.raises(ManifestError, match=message) as caught:
        read(text)
    assert len(str(caught.value).splitlines()) == 1
    assert len(str(caught.value)) < 1500


def test_too_many_values_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "MAX_NODES", 1000)
    with pytest.raises(ManifestError, match="f:1: holds too much: at most 1000 values"):
        read(f"[{','.join('a' * 1001)}]")


def test_a_long_chain_costs_no_recursion() -> None:
    jobs = "".join(f"  - {{name: j{n}, handler: h, children: [j{n + 1}]}}\n" for n in range(1200))
    state = read(f"groups:\n- app_name: g\n  jobs:\n{jobs}  - {{name: j1200, handler: h}}\n")
    assert len(state.jobs) == 1201
