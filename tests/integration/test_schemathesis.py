"""The management API does what its own OpenAPI document says, whatever is sent: all of schemathesis' checks.

Examples, the edges of every limit, random data and chains of calls along the document's links, against the real
application on a real database. The seed is fixed, so that a failure comes again.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import requests
import schemathesis
from schemathesis.config import SchemathesisConfig
from schemathesis.engine import Status, events, from_schema
from schemathesis.generation.modes import GenerationMode

from tests.component.api.conftest import TOKEN, Api, api
from tests.product.openapi.conftest import described
from tests.support.parts import with_parts
from tests.support.rows import NOW, make_executor, make_run
from xwheel.api.app import build_management_app
from xwheel.api.schema.fields import VISIBLE
from xwheel.config import build_config
from xwheel.model import RunState
from xwheel.runtime import http_limits
from xwheel.runtime.http_server import Listener
from xwheel.wire.messages import LogData

__all__ = ["api"]

ADDRESS = "http://10.0.0.1:9999"
LONGEST_BODY = 1024 * 1024

# Where what a value means decides, and no schema can say it: which groups, jobs, plugins, calendars, executors and time
# zones there are, whether an expression parses or ever fires, which times follow each other. That such a refusal is
# about meaning, and not about a limit that the document states otherwise, is checked by `refused_for_its_meaning`.
MEANING = [
    ("POST", "/api/v1/jobs"),
    ("PATCH", "/api/v1/jobs/{job_id}"),
    ("POST", "/api/v1/jobs/{job_id}/start"),
    ("POST", "/api/v1/jobs/{job_id}/stop"),
    ("POST", "/api/v1/jobs/{job_id}/copy"),
    ("POST", "/api/v1/jobs/{job_id}/run"),
    ("POST", "/api/v1/jobs/{job_id}/glue"),
    ("POST", "/api/v1/jobs/{job_id}/glue/{number}/restore"),
    ("PUT", "/api/v1/jobs/{job_id}/children"),
    ("PUT", "/api/v1/calendars/{name}"),
    ("GET", "/api/v1/schedule/preview"),
    ("GET", "/api/v1/reports"),
    ("POST", "/api/v1/tokens"),
    ("POST", "/api/v1/secrets"),
    ("PATCH", "/api/v1/secrets/{name}"),
    ("POST", "/api/v1/alarms/rules"),
    ("PATCH", "/api/v1/alarms/rules/{rule_id}"),
    ("POST", "/api/v1/alarms/test"),
    # a revision that stands there without quotes
    ("DELETE", "/api/v1/accounts/{account_id}"),
]
# 403: a token has no session and no account of its own; 429: too many wrong passwords
ACCEPTED = ["2xx", "401", "403", "404", "409", "422", "429"]
# Narrower than the default, which lets 5xx pass, but for 413: a list of too many items may be too large a body first.
SETTINGS = """
seed = 20260101
[generation]
deterministic = true
max-examples = {examples}
no-shrink = true
[checks.negative_data_rejection]
expected-statuses = ["400", "401", "404", "405", "409", "413", "422"]
[phases.examples]
enabled = {alone}
[phases.coverage]
enabled = {alone}
[phases.fuzzing]
enabled = {alone}
[phases.stateful]
enabled = {chained}
[phases.stateful.generation]
max-examples = {chains}
"""
LONG_TEXT = 4096
WITHOUT_NUL = r"^(?![\s\S]*\x00)"

CHECKS = {
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "positive_data_acceptance",
    "negative_data_rejection",
    "unsupported_method",
    "ignored_auth",
    "refused_for_its_meaning",
}
CHAIN_CHECKS = {"use_after_free", "ensure_resource_availability"}


@schemathesis.check
def refused_for_its_meaning(ctx: Any, response: Any, case: Any) -> None:
    """What the document allows is not refused for a limit; only the sum of a list's characters is not in it."""
    if response.status_code != 422 or case.meta is None or case.meta.generation.mode is GenerationMode.NEGATIVE:
        return
    problem = response.json()
    limit = problem.get("limit", {})
    assert not limit or "max_characters" in limit, problem
    assert "is not a field here" not in problem["detail"], problem


def settings(path: Path, *, chained: bool, examples: int) -> SchemathesisConfig:
    text = SETTINGS.format(
        alone=str(not chained).lower(), chained=str(chained).lower(), examples=examples, chains=2 * examples
    )
    for method, route in MEANING:
        text += (
            f'[[operations]]\ninclude-path = "{route}"\ninclude-method = "{method}"\n'
            f"checks.positive_data_acceptance.expected-statuses = {ACCEPTED}\n"
        )
    path.write_text(text)
    return SchemathesisConfig.from_path(path)


@pytest.fixture
def busy(api: Api) -> Api:
    """An application with some of everything."""
    group = api.group("shop")
    api.parts.registry.register("shop", make_executor(ADDRESS), NOW)
    jobs = [
        api.job(group_id=group, name=f"job {n}", schedule_type="FIX_RATE", schedule_conf="60s", enabled=n < 3)["id"]
        for n in range(6)
    ]
    api.runs(
        *(
            make_run(
                9_000_000 + n,  # no id that the application takes
                job_id=jobs[n % 6],
                group_id=group,
                due_ms=NOW - n // 2 * 1000,
                state=state,
                address=ADDRESS if state in {RunState.RUNNING, RunState.SUCCEEDED, RunState.FAILED} else None,
                check_ms=NOW + 60_000 if state in {RunState.RUNNING, RunState.DISPATCHING} else None,
            )
            for n, state in enumerate(list(RunState) * 4)
        )
    )
    api.calendar("weekends", weekdays="SAT,SUN")
    api.asked.logs = lambda run, from_line: LogData(
        from_line=from_line, to_line=from_line, content="a line\n", is_end=True
    )
    return api


@pytest.mark.long(50)
@pytest.mark.timeout(900)  # a slow machine with other tests next to this one took more than the usual five minutes
@pytest.mark.parametrize(
    ("chained", "examples"),
    [
        pytest.param(False, 3, id="calls"),
        pytest.param(True, 8, id="chains of calls"),
        pytest.param(False, 50, id="many calls", marks=pytest.mark.nightly),
        pytest.param(True, 50, id="many chains of calls", marks=pytest.mark.nightly),
    ],
)
def test_the_api_keeps_to_its_document(
    busy: Api, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chained: bool, examples: int
) -> None:
    monkeypatch.setattr(http_limits, "FREE", 1_000_000)  # it asks without a token again and again, and expects 401
    config = settings(tmp_path / "schemathesis.toml", chained=chained, examples=examples)
    # the longest script, with every character escaped, is no body that is too large
    parts = with_parts(busy.parts, config=build_config({"api": {"max_body_bytes": LONGEST_BODY}}))
    listener = Listener(
        "api",
        build_management_app(described(parts)),
        host="127.0.0.1",
        port=0,
        threads=4,
        max_body_bytes=4 * LONGEST_BODY,
    )
    listener.start()
    try:
        base = f"http://127.0.0.1:{listener.port}"
        document = eased(requests.get(f"{base}/api/v1/openapi.json", timeout=30).json())
        schema = schemathesis.openapi.from_dict(document, config=config)
        schema.config.update(base_url=base, headers={"Authorization": f"Bearer {TOKEN}"})
        failures, seen, called = run(schema)
    finally:
        listener.stop()
    assert not failures, f"{len(failures)} failures\n\n" + "\n\n".join(failures[:40])
    phases = ("STATEFUL_TESTING",) if chained else ("COVERAGE", "FUZZING")
    assert all(seen[phase] > 50 for phase in phases), seen
    wanted = CHECKS | CHAIN_CHECKS if chained else CHECKS
    assert set(seen) >= wanted, wanted - set(seen)
    if not chained:
        assert called >= {
            f"{method.upper()} {path}" for path, methods in document["paths"].items() for method in methods
        }
    print(f"calls by phase, verdicts by check: {dict(seen)}")


def eased(part: Any) -> Any:
    """Return a document that says the same, with other patterns for long texts.

    Schemathesis works lengths into patterns and compiles ``{0,99999}`` again and again, a second each time. Patterns
    with a look-ahead it leaves as they are.
    """
    if isinstance(part, list):
        return [eased(item) for item in part]
    if not isinstance(part, dict):
        return part
    if part.get("maxLength", 0) > LONG_TEXT:
        return part | {"pattern": WITHOUT_NUL + f"(?=[\\s\\S]*{VISIBLE})" if part.get("minLength") else WITHOUT_NUL}
    return {key: eased(value) for key, value in part.items()}


def run(schema: Any) -> tuple[list[str], Counter[str], set[str]]:
    """Run all phases.

    Returns:
        What failed, how many calls each phase and verdicts each check made, and the operations that were called.
    """
    failures: list[str] = []
    called: set[str] = set()
    seen: Counter[str] = Counter()
    for event in from_schema(schema).execute():
        if isinstance(event, events.NonFatalError | events.FatalError):
            failures.append(f"{event.phase} {getattr(event, 'label', '')}: {getattr(event, 'value', event)!r}")
        if isinstance(event, events.ScenarioFinished):
            seen[event.phase.name] += len(event.recorder.cases)
            called.add(event.recorder.label)
            for case_id, checks in event.recorder.checks.items():
                seen.update(check.name for check in checks)
                for check in checks:
                    if check.status is not Status.FAILURE:
                        continue
                    assert check.failure_info is not None
                    code = event.recorder.cases[case_id].value.as_curl_command()
                    failures.append(f"{check.name}: {check.failure_info.failure!r}\n{code}")
    return failures, seen, called
