"""Sources, options, and templates, without any call."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xwheel import Config
from xwheel.plugin import ConfigError, ExecutorError, GlueRequest
from xwheel_devtools.testing import check_glue_type, load_plugin

from xwheel_glue_http import HttpGlue, xwheel_register_glue_types
from xwheel_glue_http.template import Template, TemplateError

URL = "https://api.example.com/x"


def glue_of(options: dict[str, Any] | None = None) -> HttpGlue:
    config = Config(plugins={"options": {"glue_http": options or {}}})  # type: ignore[arg-type]
    (glue,) = xwheel_register_glue_types(config)
    assert isinstance(glue, HttpGlue)
    return glue


BAD: list[tuple[str, str]] = [
    ("", "there is no source"),
    (" \n", "there is no source"),
    ("GET https://api.example.com", "the source is no description of a call: "),
    ("[]", "Expected `object`, got `array`"),
    ("{}", "Object missing required field `url`"),
    ('{"url": "https://a.example", "urll": 1}', "Object contains unknown field `urll`"),
    ('{"url": 5}', "Expected `str`, got `int` - at `$.url`"),
    ('{"url": "https://a.example", "method": "TRACE"}', "Invalid enum value 'TRACE' - at `$.method`"),
    ('{"url": "https://a.example", "timeout_s": 0}', "Expected `float` > 0"),
    ('{"url": "https://a.example", "timeout_s": 1e999}', "at `$.timeout_s`|out of range"),
    ('{"url": "https://a.example", "redirects": 6}', "Expected `int` <= 5 - at `$.redirects`"),
    ('{"url": "https://a.example", "expect_status": []}', "at `$.expect_status`"),
    ('{"url": "https://a.example", "expect_status": ["2xx"]}', "expect_status: '2xx' is no status such as 200"),
    ('{"url": "https://a.example", "expect_status": ["299-200"]}', "expect_status: '299-200' is no status"),
    ('{"url": "https://a.example", "body": "a", "json": 1}', "body and json exclude each other"),
    ('{"url": "ftp://a.example/${param}"}', "url: the URL must begin with http:// or https://"),
    ('{"url": "http://me:pw@a.example/"}', "url: the URL holds a user name or password before @: use a header"),
    ('{"url": "http://2130706433/"}', "url: the URL's host looks like a number"),
    ('{"url": "https://${param}/"}', "url: scheme, host and port must hold no placeholder"),
    ('{"url": "${param}://a.example/"}', "url: scheme, host and port must hold no placeholder"),
    ('{"url": "https://a.example:${param}"}', "url: scheme, host and port must hold no placeholder"),
    ('{"url": "${param}"}', "url: scheme, host and port must hold no placeholder"),
    ('{"url": "https://a.example/${unknown}"}', "url: ${unknown} is no name of a template; known: ${job_id}, "),
    ('{"url": "https://a.example/${param.__class__}"}', "is no name of a template"),
    ('{"url": "https://a.example/", "headers": {"A": "$"}}', "headers.A: ${} is no name of a template"),
    ('{"url": "https://a.example/", "body": "${param:html}"}', "body: ${param:html} is no name of a template"),
    ('{"url": "https://a.example/", "json": [{"a": "${x}"}]}', "json: ${x} is no name of a template"),
    ("a" * 4_194_305, "the source has 4194305 characters, 4194304 are allowed"),
    ('{"url": "https://a.example/", "json": ' + "[" * 40_000, "the source is no description of a call"),
]


@pytest.mark.parametrize(("source", "said"), BAD, ids=range(len(BAD)))
def test_what_is_no_description_of_a_call_is_refused(source: str, said: str) -> None:
    for refuse in (
        glue_of().check_source,
        lambda text: glue_of().build(GlueRequest(job_id=3, handler="", source=text, updated_ms=1), {}),  # type: ignore[arg-type]
    ):
        with pytest.raises(ExecutorError) as told:
            refuse(source)
        assert any(part in str(told.value) for part in said.split("|"))
        assert "\n" not in str(told.value)


def test_p11_a_source_of_1_mib_is_taken() -> None:
    source = json.dumps({"url": URL, "method": "POST", "body": "${param}" + "x" * 1_048_000})
    assert len(source) > 1_048_000
    glue_of().check_source(source)


def test_a_scheduler_accepts_what_only_an_executor_can_check() -> None:
    glue = glue_of()
    glue.check_source(json.dumps({"url": "http://10.0.0.1/", "headers": {"A": "${secret.theirs}"}}))
    for document, said in (
        ({"url": URL, "headers": {"A": "${secret.theirs}"}}, r"headers\.A: \$\{secret\.theirs\} is no name"),
        ({"url": "http://10.0.0.1/"}, r"http://10\.0\.0\.1: the address is private"),
    ):
        request = GlueRequest(job_id=3, handler="", source=json.dumps(document), updated_ms=1)
        with pytest.raises(ExecutorError, match=f"GLUE_HTTP of job 3: {said}"):
            glue.build(request, {})  # type: ignore[arg-type]


def test_the_contract_of_glue_types_holds() -> None:
    check_glue_type(glue_of(), source=json.dumps({"url": URL}), bad_sources=["{}", "x", '{"url": "ftp://a/"}'])
    assert "GLUE_HTTP" in load_plugin("glue_http").glue_types


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"log_mb": 1}, "plugins.options.glue_http.log_mb is not an option; did you mean log_kb?"),
        ({"log_kb": -1}, "plugins.options.glue_http.log_kb: must be greater than or equal to 0"),
        ({"secrets": {"a": {"value": "12345678"}}}, "plugins.options.glue_http.secrets.a.origins is missing"),
        (
            {"secrets": {"a": {"origins": ["https://a.example"]}}},
            "plugins.options.glue_http.secrets.a: value or value_file is missing",
        ),
        (
            {"secrets": {"a": {"value": "short", "origins": ["https://a.example"]}}},
            "plugins.options.glue_http.secrets.a: a secret has at least 8 characters",
        ),
        (
            {"secrets": {"a": {"value": "12345678", "origins": ["https://a.example/x"]}}},
            "plugins.options.glue_http.secrets.a.origins: an origin is written as https://a.example, with nothing",
        ),
        (
            {"secrets": {"a": {"value": "12345678", "origins": ["http://10.0.0.1"]}}},
            "plugins.options.glue_http.secrets.a.origins: http://10.0.0.1: the address is private",
        ),
        ({"secrets": {"a b": {}}}, "plugins.options.glue_http.secrets.a b: "),
    ],
)
def test_a_wrong_option_stops_the_start_and_is_named(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError) as told:
        glue_of(options)
    assert str(told.value).startswith(said)
    assert "12345678" not in str(told.value)


class Canary(str):
    """A value that fails if a template reads an attribute of it."""

    def __getattribute__(self, name: str) -> Any:
        if name == "canary":
            raise AssertionError("reached")
        return super().__getattribute__(name)


PIECES = st.sampled_from(
    ["${param}", "${param:json}", "${param:url}", "$$", "$", "{", "}", "${", "${param.canary}", "{0}", "%s", "é"]
)


@settings(max_examples=50)
@given(st.lists(PIECES | st.text(max_size=4), max_size=8).map("".join), st.text(max_size=20))
def test_any_template_fills_or_is_refused_and_evaluates_nothing(text: str, value: str) -> None:
    try:
        template = Template("body", text, {"param"})
    except TemplateError as error:
        refused = error
    else:
        check_filled(template, text, value)
        return
    assert str(refused).startswith("body: $")
    assert "is no name of a template" in str(refused)


def check_filled(template: Template, text: str, value: str) -> None:
    try:
        filled = template.fill({"param": Canary(value)})
    except TemplateError:
        assert value in {".", ".."}
        return
    if "$" not in text:
        assert filled == text
    if text == "${param}":
        assert filled == value
