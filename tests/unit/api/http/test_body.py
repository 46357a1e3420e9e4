"""Every field of every message, at its limits and one step beyond; the values come from the definitions."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from xwheel.api.http.body import FieldRule, InputError, read_fields, rules_of
from xwheel.api.schema import fields, messages
from xwheel.storage.jobs import LISTS
from xwheel.storage.schema import tables

INPUTS = [kind for kind in vars(messages).values() if isinstance(kind, type) and issubclass(kind, messages.Input)]
SAMPLES: dict[type[messages.Input], dict[str, Any]] = {
    messages.GlueSave: {"source": "x"},
    messages.AddressInput: {"address": "x"},
    messages.GroupCreate: {"app_name": "demo"},
    messages.JobCreate: {"group_id": 1, "name": "job"},
    messages.PreviewQuery: {"schedule_type": "CRON"},
    messages.NamePath: {"name": "holidays"},
    messages.ChildInput: {"child_id": 1},
    messages.ChildrenChange: {"children": []},
    messages.Bulk: {"ids": [1]},
    messages.BulkRun: {"ids": [1]},
}
# a good and a bad item of lists of anything but numbers from 1 on
ITEMS: dict[Any, tuple[object, object]] = {
    fields.RunStates: ("failed", "nobody"),
    rules_of(messages.GroupCreate)["addresses"].type: ({"address": "x", "secret": None}, {"address": ""}),
    rules_of(messages.GroupChange)["addresses"].type: ({"address": "x", "secret": None}, {"address": ""}),
    rules_of(messages.ChildrenChange)["children"].type: ({"child_id": 1, "param": None}, {"child_id": 0}),
}
CURSOR = "after"  # its text has a form of its own, tested below


ITEM_LENGTHS: dict[Any, int] = {fields.Addresses: 255}


def rules() -> Iterator[tuple[type[messages.Input], str, FieldRule]]:
    for kind in INPUTS:
        for name, rule in rules_of(kind).items():
            yield kind, name, rule


def values_at(rule: FieldRule) -> tuple[list[object], list[object]]:
    """Return values at the limit, and values just outside it."""
    limit: dict[str, Any] = rule.limit
    if "min" in limit:
        return [limit["min"], limit["max"]], [limit["min"] - 1, limit["max"] + 1]
    if "max_length" in limit:
        low, high = limit["min_length"], limit["max_length"]
        return ["x" * low, "x" * high], (["x" * (low - 1)] if low else []) + ["x" * (high + 1)]
    if "max_items" in limit:
        least, most = limit.get("min_items", 0), limit["max_items"]
        if "max_characters" not in limit:
            good, bad = ITEMS.get(rule.type, (1, -1))
            lists = [[good] * least, [good], [good] * most], [[good] * (most + 1), [bad], [{}], ["x"]]
            return lists[0], [*lists[1], []] if least else lists[1]
        longest = limit["max_characters"]
        each = longest // most
        full = [*["x" * each] * (most - 1), "x" * (longest - each * (most - 1))]
        item = ITEM_LENGTHS.get(rule.type, 64)
        good: list[object] = [[], ["x"], ["x" * item], full, [full[0][1:], *full[1:]]]
        return good, [["x"] * (most + 1), [""], ["x" * (item + 1)], [full[0] + "x", *full[1:]]]
    if "one_of" in limit:
        return list(limit["one_of"]), ["nobody", limit["one_of"][0].swapcase(), ""]
    return [True, False], []


GOOD = [
    (kind, name, value)
    for kind, name, rule in rules()
    for value in values_at(rule)[0]
    if (kind, name) != (messages.RunQuery, CURSOR)
]
BAD = [(kind, name, value) for kind, name, rule in rules() for value in values_at(rule)[1]]
WRONG = [
    (kind, name, value)
    for kind, name, rule in rules()
    for value in (
        1.5,
        {},
        *(["x", 5, [None], [{}]] if "max_items" in rule.limit else [[], ["x"]]),
        "true" if not rule.limit else True,
        "5" if "min" in rule.limit else 5,
    )
]


def short(value: object) -> str:
    return f"{type(value).__name__}-{str(value)[:12]}"


def fields_of(kind: type[messages.Input], name: str, value: object) -> dict[str, Any]:
    return {**SAMPLES.get(kind, {}), name: value}


def test_there_are_limits_to_test() -> None:
    assert len(INPUTS) == 29
    assert len(GOOD) > 390
    assert len(BAD) > 350
    assert len(WRONG) > 900


@pytest.mark.parametrize("kind", INPUTS)
def test_a_value_at_the_limit_is_taken(kind: type[messages.Input]) -> None:
    wrong = []
    for name, value in [(name, value) for mine, name, value in GOOD if mine is kind]:
        try:
            found = msgspec.to_builtins(read_fields(kind, fields_of(kind, name, value)))[name]
        except InputError as error:
            found = error
        if (list(found) if isinstance(found, tuple) else found) != value:
            wrong.append((name, short(value), found))
    assert wrong == []


@pytest.mark.parametrize("kind", INPUTS)
def test_a_value_beyond_the_limit_or_of_another_type_is_refused(kind: type[messages.Input]) -> None:
    wrong = []
    for name, value in [(name, value) for mine, name, value in [*BAD, *WRONG] if mine is kind]:
        rule = rules_of(kind)[name]
        found: object
        try:
            found = read_fields(kind, fields_of(kind, name, value))
        except InputError as error:
            found = (error.field, error.reason, error.limit)
        if found != (name, f"must be {rule.words}", rule.limit):
            wrong.append((name, short(value), found))
    assert wrong == []


@pytest.mark.parametrize("kind", INPUTS)
def test_an_unknown_field_is_refused_with_the_nearest_known_one(kind: type[messages.Input]) -> None:
    for name in rules_of(kind):
        with pytest.raises(InputError, match="did you mean") as caught:
            read_fields(kind, fields_of(kind, f"{name}z", 1))
        assert caught.value.field == f"{name}z"
    with pytest.raises(InputError, match="known"):
        read_fields(kind, {"§": 1})


@pytest.mark.parametrize("kind", INPUTS)
def test_null_is_taken_only_where_it_is_said(kind: type[messages.Input]) -> None:
    for name, rule in rules_of(kind).items():
        if rule.words.endswith("or null"):
            assert getattr(read_fields(kind, fields_of(kind, name, None)), name) is None
        else:
            with pytest.raises(InputError) as caught:
                read_fields(kind, fields_of(kind, name, None))
            assert caught.value.field == name


@pytest.mark.parametrize("kind", SAMPLES)
def test_a_missing_required_field_is_named(kind: type[messages.Input]) -> None:
    for name in SAMPLES[kind]:
        with pytest.raises(InputError, match="is required") as caught:
            read_fields(kind, {key: value for key, value in SAMPLES[kind].items() if key != name})
        assert caught.value.field == name


def test_nul_is_refused_in_every_text() -> None:
    texts = [(kind, name) for kind, name, rule in rules() if "max_length" in rule.limit]
    assert len(texts) > 20
    for kind, name in [(kind, name) for kind, name, rule in rules() if "max_items" in rule.limit]:
        with pytest.raises(InputError):
            read_fields(kind, fields_of(kind, name, ["a\x00b"]))
    for kind, name in texts:
        with pytest.raises(InputError) as caught:
            read_fields(kind, fields_of(kind, name, "a\x00b"))
        assert caught.value.field == name


@pytest.mark.parametrize("name", ["-demo", "_demo", "de mo", "demo\n", "dé", "a/b", "a:b", " demo"])
def test_an_app_name_has_only_safe_characters(name: str) -> None:
    with pytest.raises(InputError, match="letters, digits"):
        read_fields(messages.GroupCreate, {"app_name": name})


@pytest.mark.parametrize("name", ["   ", "\n", "\t"])
def test_a_job_name_is_not_blank(name: str) -> None:
    with pytest.raises(InputError, match="not only blanks"):
        read_fields(messages.JobCreate, {"group_id": 1, "name": name})


@pytest.mark.parametrize("cursor", ["0-0", "1767225600000-1", "9999999999999999-9999999999999999"])
def test_a_cursor_is_a_due_time_and_an_id(cursor: str) -> None:
    assert read_fields(messages.RunQuery, {"after": cursor}).after == cursor


@pytest.mark.parametrize("cursor", ["-1", "1-", "1-2-3", "1-2\n", "a-b", "--1", "99999999999999999-1", "１-２"])
def test_another_cursor_is_refused(cursor: str) -> None:
    with pytest.raises(InputError, match="value of next"):
        read_fields(messages.RunQuery, {"after": cursor})


def test_a_whole_number_may_be_written_with_a_point() -> None:
    body = {"ids": [1.0, 2], "param": None}
    assert read_fields(messages.BulkRun, body).ids == (1, 2)
    for wrong in (1.5, 1e300, float("inf"), float("nan"), 0.0):
        with pytest.raises(InputError):
            read_fields(messages.BulkRun, {"ids": [wrong]})


@pytest.mark.parametrize("value", ["5.0", "1e2", "+5", " 5", "05", "-0", "5,6", "null", "", "1_0", "٣"])
def test_a_number_in_a_query_is_digits(value: str) -> None:
    with pytest.raises(InputError) as caught:
        read_fields(messages.JobQuery, {"group_id": value}, strict=False)
    assert "null" not in caught.value.reason


@pytest.mark.parametrize("value", ["1", "0", "True", "yes", "null", ""])
def test_yes_and_no_in_a_query_are_true_and_false(value: str) -> None:
    with pytest.raises(InputError):
        read_fields(messages.JobQuery, {"enabled": value}, strict=False)
    assert read_fields(messages.JobQuery, {"enabled": "false"}, strict=False).enabled is False


@pytest.mark.parametrize(
    ("kind", "name", "value", "is_good"),
    [
        (kind, name, value, is_good)
        for kind in INPUTS
        if kind.__name__.endswith("Query")
        for name, rule in rules_of(kind).items()
        if name != CURSOR
        for is_good, values in zip((True, False), values_at(rule), strict=True)
        for value in values
        if not isinstance(value, list) or all(isinstance(item, str | int) for item in value)
    ],
    ids=short,
)
def test_the_limits_of_a_query_are_those_of_its_fields(
    kind: type[messages.Input], name: str, value: object, is_good: bool
) -> None:
    spelled = ",".join(map(str, value)) if isinstance(value, list) else str(value)
    spelled = spelled.lower() if isinstance(value, bool) else spelled
    values = {**SAMPLES.get(kind, {}), name: spelled}
    if is_good:
        read_fields(kind, values, strict=False)
        return
    if value == [""]:
        return  # in a query that is an empty list
    with pytest.raises(InputError) as caught:
        read_fields(kind, values, strict=False)
    assert caught.value.limit == rules_of(kind)[name].limit


def test_numbers_in_a_query_are_text() -> None:
    query = read_fields(messages.PageQuery, {"after": "7", "limit": "9"}, strict=False)
    assert (query.after, query.limit) == (7, 9)


def test_a_change_has_the_limits_of_a_creation() -> None:
    create, change = rules_of(messages.JobCreate), rules_of(messages.JobChange)
    assert set(change) == set(create) - {"group_id", "enabled"} | {"revision"}
    assert {name: change[name].limit for name in change if name in create} == {
        name: create[name].limit for name in create if name in change
    }


def test_texts_fit_their_columns() -> None:
    for table, kind in ((tables.job, messages.JobCreate), (tables.executor_group, messages.GroupCreate)):
        checked = 0
        for name, rule in rules_of(kind).items():
            column = table.c.get(name)  # a script's source has a table of its own
            length = None if column is None else getattr(column.type, "length", None)
            if length is not None and "max_length" in rule.limit:
                assert rule.limit["max_length"] == length, name
                checked += 1
        assert checked >= 2


def test_the_longest_list_of_calendars_fits_its_column() -> None:
    """The column holds the names as :mod:`xwheel.storage.jobs` writes them."""
    names_of = [name for name in LISTS if name.startswith("calendar_")]
    (limit,) = {tuple(rules_of(messages.JobCreate)[name].limit.values()) for name in names_of}
    most, longest = limit
    names = ["x" * (longest // most)] * most
    assert sum(map(len, names)) == longest
    for name in names_of:
        assert len(json.dumps(names)) <= tables.job.c[name].type.length


def test_the_longest_list_of_delays_fits_its_column() -> None:
    most = rules_of(messages.JobCreate)["retry_delays_ms"].limit["max_items"]
    assert isinstance(most, int)
    assert len(json.dumps([fields.DAY_MS] * most)) <= tables.job.c.retry_delays_ms.type.length


def test_a_list_in_a_query_stands_between_commas() -> None:
    def read(value: object) -> tuple[str, ...]:
        values = {"schedule_type": "NONE", "calendar_exclude": value}
        return read_fields(messages.PreviewQuery, values, strict=False).calendar_exclude

    assert [read(""), read("a"), read("a,b.c")] == [(), ("a",), ("a", "b.c")]
    for wrong in ("a,", ",", "a,,b", "a b", ["a", "b"]):
        with pytest.raises(InputError, match="a list of at most 16") as caught:
            read(wrong)
        assert caught.value.field == "calendar_exclude"


def test_a_field_without_a_limit_cannot_be_written() -> None:
    class Loose(messages.Input, frozen=True, kw_only=True):
        text: float

    with pytest.raises(TypeError, match="no limit"):
        rules_of(Loose)
