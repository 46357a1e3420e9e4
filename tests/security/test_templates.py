"""T14: the template language of children's parameters knows five names and nothing about the objects behind them.

That no text from outside is formatted or evaluated anywhere else is checked in ``test_static.py``.
"""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.rows import NOW, make_run
from xwheel.errors import FieldError
from xwheel.scheduler.finish.template import NAMES, Success, TemplateError, check_template, render

REACHING = [
    "${result.__class__}",
    "${result.__class__.__mro__}",
    "${result.format}",
    "${result[0]}",
    "${result:json.__class__}",
    "${param.__init__.__globals__}",
    "${run_id.real}",
    "${first}",
    "${success.first.message}",
    "${self}",
    "${__builtins__}",
    "${__import__('os').system('id')}",
    "${7*7}",
    "${result!r}",
    "${result:>10}",
    "${ result }",
    "${RESULT}",
    "${result.0}",
    "${result.-1}",
    "${result.1_0}",
    "${result.٣}",
    "${}",
    "$(id)",
    "$result",
    "${result",
    "$ {result}",
    "$",
]
HARMLESS = [
    "{0.__class__}",
    "{result}",
    "%(result)s",
    "%s",
    "{{ result }}",
    "{% for x in y %}",
    "#{7*7}",
    "<%= 7*7 %>",
    "`id`",
]
CANARY = "canary-of-what-must-not-show"


def success(result: str = "r", param: str = "p") -> Success:
    """A success with things around it that a template has no business with."""
    run = make_run(70, job_id=4, planned_ms=NOW, message=CANARY, address=CANARY, reason=CANARY)
    return Success(run, [result], param)


@pytest.mark.parametrize("template", REACHING)
def test_what_reaches_for_more_is_refused_when_it_is_saved_and_when_it_is_filled(template: str) -> None:
    with pytest.raises(FieldError, match="param"):
        check_template(template)
    with pytest.raises(TemplateError):
        render(template, success(), {})


@pytest.mark.parametrize("template", HARMLESS)
def test_marks_of_other_languages_are_text(template: str) -> None:
    check_template(template)
    assert render(template, success(), {}) == template


PIECES = st.sampled_from(
    [*REACHING, *HARMLESS, *(f"${{{name}}}" for name in NAMES), "${result:json}", "$$", "$", "{", "}", ":json", "."]
)
TEMPLATES = st.lists(PIECES | st.text(alphabet="${}._:jsonrelt4 ", max_size=6), max_size=6).map("".join)
RESULTS = st.text(max_size=30) | PIECES


def meant(template: str, values: dict[str, str]) -> str | None:
    """Fill a template with nothing but a table of texts; None if it names what is not in it."""
    filled: list[str] = []
    for part in re.split(r"(\$\$|\$\{[^{}$]*\}|\$)", template):
        if part == "$$":
            filled.append("$")
        elif part.startswith("$"):
            if part not in values:
                return None
            filled.append(values[part])
        else:
            filled.append(part)
    return "".join(filled)


@settings(derandomize=True, max_examples=200)
@given(template=TEMPLATES, result=RESULTS, param=RESULTS)
def test_a_template_gives_what_a_table_of_texts_gives(template: str, result: str, param: str) -> None:
    """So it can say nothing that the table does not say: no attribute, no item, no call, and nothing twice."""
    found = success(result, param)
    plain: dict[str, Any] = {
        "result": result,
        "param": param,
        "run_id": "70",
        "job_id": "4",
        "planned_ms": str(NOW),
        "result.4": result,
    }
    values = {f"${{{name}}}": text for name, text in plain.items()}
    values |= {f"${{{name}:json}}": json.dumps(text, ensure_ascii=False)[1:-1] for name, text in plain.items()}
    wanted = meant(template, values)
    if wanted is None:
        with pytest.raises(TemplateError):
            render(template, found, {})
    else:
        assert render(template, found, {}) == wanted
        assert CANARY not in wanted


def test_names_of_jobs_in_files_are_names_and_nothing_else() -> None:
    """The same language, as files have it, translates ids and names, and leaves every other text alone."""
    from xwheel_jobs_as_code.state import Ref
    from xwheel_jobs_as_code.templates import named_in, to_ids, to_names

    for template in [*REACHING, *HARMLESS]:
        assert to_names(template, lambda _: Ref("demo", "job")) == template
        assert named_in(template) == []
        assert to_ids(template, {}) == template
