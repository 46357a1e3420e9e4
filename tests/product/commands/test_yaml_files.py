"""YAML that is not trusted: what is taken, and one line with file and line for what is not."""

from __future__ import annotations

import io
from typing import Any

import pytest
from xwheel_commands import yaml_files
from xwheel_commands.yaml_files import MAX_BYTES, YamlFileError, read_documents


def read(text: str | bytes) -> list[Any]:
    content = text.encode() if isinstance(text, str) else text
    return [document.plain() for document in read_documents("f", io.BytesIO(content))]


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
    with pytest.raises(YamlFileError, match="f: is too large: at most 32 MiB"):
        read_documents("f", stream)  # type: ignore[arg-type]
    assert stream.taken == MAX_BYTES + 1


def test_bare_words_are_what_every_reader_agrees_on() -> None:
    words = ["yes", "no", "on", "1e3", "0x10", "0o7", "2026-01-01", "1_000", ".5", "12:30:45", "010", "+1", "TRUE"]
    assert read(f"[{', '.join(words)}]") == [words]
    assert read("[true, false, null, ~, 0, -12, '5']") == [[True, False, None, None, 0, -12, "5"]]


def test_aliases_repeat_values_and_empty_documents_are_left_out() -> None:
    assert read("a: &x {y: 1}\nb: [*x, *x]\n---\n---\nc: 2\n") == [{"a": {"y": 1}, "b": [{"y": 1}, {"y": 1}]}, {"c": 2}]


LAUGHS = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{chr(98 + n)}: &{chr(98 + n)} [{','.join(['*' + chr(97 + n)] * 9)}]\n" for n in range(9)
)


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
    ],
    ids=range(14),
)
def test_what_cannot_be_used_is_one_sentence_with_its_place(text: str | bytes, message: str) -> None:
    with pytest.raises(YamlFileError, match=message) as caught:
        read(text)
    assert len(str(caught.value).splitlines()) == 1
    assert len(str(caught.value)) < 1500


def test_too_many_values_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(yaml_files, "MAX_NODES", 1000)
    with pytest.raises(YamlFileError, match="f:1: holds too much: at most 1000 values"):
        read(f"[{','.join('a' * 1001)}]")
