"""Every row of section 10 of the protocol reference, traps for third-party peers, and the tests that hold it."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final

import pytest

TESTS: Final = Path(__file__).parent.parent
GO: Final = "contract/test_traps_go.py"
PYXXL: Final = "contract/test_traps_pyxxl.py"
JAVA: Final = "contract/test_traps_java.py"
GOLDEN: Final = "contract/test_wire_golden.py"
TRAFFIC: Final = "contract/test_peer_traffic.py"
CALLS: Final = "component/api/xxl/test_executor_calls.py"
WIRE: Final = "unit/wire/test_contract.py"

TRAPS: Final[dict[str, tuple[str, ...]]] = {
    "10.1 registration": (
        f"{GO}::test_an_address_without_a_slash_is_the_same_as_one_with",
        f"{TRAFFIC}::test_registration_and_farewell",
    ),
    "10.1 admin URL": (f"{GO}::test_a_doubled_slash_in_the_admin_url_is_taken",),
    "10.1 token": (f"{GO}::test_an_empty_token_is_refused_with_a_message",),
    "10.1 routing": (
        f"{GO}::test_no_call_has_a_doubled_slash",
        f"{GO}::test_a_redirect_is_not_followed_and_is_no_success",
    ),
    "10.1 reply type": (f"{GO}::test_a_reply_without_a_json_content_type_is_read",),
    "10.1 /run failure": (
        f"{GO}::test_a_refusal_of_a_run_is_an_array",
        f"{GO}::test_an_array_that_says_nothing_is_no_refusal",
    ),
    "10.1 busy job": (f"{GO}::test_a_busy_job_is_a_refusal_that_is_retried",),
    "10.1 /kill idle": (f"{GO}::test_a_kill_of_an_idle_job_that_is_refused_still_ends_the_run",),
    "10.1 /idleBeat": (f"{GO}::test_a_busy_idle_beat_keeps_the_run_open",),
    "10.1 /log": (
        f"{GO}::test_a_log_under_content_only_is_read",
        f"{GO}::test_a_log_is_asked_for_with_the_old_spelling_of_the_time",
    ),
    "10.1 callback": (
        f"{GO}::test_a_callback_in_both_styles_is_one_outcome",
        f"{GO}::test_a_callback_that_never_comes_ends_as_lost",
        f"{GO}::test_the_covered_run_that_reports_as_the_newer_one_changes_nothing",
    ),
    "10.1 glue": (f"{GO}::test_a_script_that_meets_a_missing_handler_is_refused",),
    "10.1 G4": (f"{GO}::test_go_executors_are_told_the_third_generation",),
    "10.2 admin URL": (f"{PYXXL}::test_the_full_admin_url_works_with_and_without_context_path",),
    "10.2 headers": (f"{PYXXL}::test_the_token_counts_under_its_own_name",),
    "10.2 reply parsing": (f"{PYXXL}::test_every_reply_is_json_with_a_code",),
    "10.2 registration": (f"{PYXXL}::test_an_address_without_a_slash_registers",),
    "10.2 callback": (
        f"{PYXXL}::test_a_message_of_any_type_becomes_text",
        f"{PYXXL}::test_the_time_of_its_callbacks_is_not_the_runs",
        f"{PYXXL}::test_a_callback_that_must_not_be_sent_again_is_code_200",
    ),
    "10.2 timeout, cancel": (
        f"{PYXXL}::test_a_timeout_is_a_failure_with_its_message",
        f"{PYXXL}::test_a_cancelled_run_that_somebody_killed_is_killed",
    ),
    "10.2 /run": (
        f"{PYXXL}::test_a_run_has_all_that_it_requires_and_its_answers_are_read",
        f"{PYXXL}::test_an_http_status_500_is_unknown_and_sent_nowhere_else",
    ),
    "10.2 queue": (f"{PYXXL}::test_a_full_queue_is_a_refusal",),
    "10.2 /kill": (f"{PYXXL}::test_queued_runs_that_a_kill_dropped_do_not_stay_open",),
    "10.2 /log": (
        f"{PYXXL}::test_an_empty_page_is_no_progress_and_its_end_is_not_the_runs",
        f"{PYXXL}::test_a_log_that_is_not_there_yet_takes_no_line_number",
        "component/api/v1/test_runs.py::test_reading_on_never_skips_a_line_and_ends_with_the_run",
    ),
    "10.2 /idleBeat, /kill": (f"{PYXXL}::test_bodies_of_idle_beat_and_kill_are_json",),
    "10.2 G4": (f"{PYXXL}::test_it_is_told_the_third_generation",),
    "10.3 mixed G2 and G3": (
        f"{GOLDEN}::test_logs_are_read_from_either_key",
        f"{GOLDEN}::test_our_answers_suit_everybody",
    ),
    "10.3 G1 with G2": (
        f"{GOLDEN}::test_callbacks_are_spelled_in_both_styles",
        f"{CALLS}::test_an_outcome_of_every_generation_closes_its_run",
    ),
    "10.3 G4 with anything else": (
        f"{JAVA}::test_the_fourth_generation_gets_its_own_path_and_the_app_name",
        f"{CALLS}::test_the_app_name_header_tells_the_fourth_generation",
        "integration/test_executor_protocol.py::test_the_whole_scenario",
    ),
    "10.3 executor reply type": (f"{JAVA}::test_replies_called_html_are_read_as_json",),
    "10.3 /beat": (
        f"{JAVA}::test_a_beat_without_body_and_length_has_an_empty_body",
        "integration/test_executor_bad_input.py::test_beat_needs_no_body",
    ),
    "10.3 time precision": (
        f"{JAVA}::test_the_log_is_asked_for_with_the_very_time_of_the_run",
        "unit/executor/logs/test_run_log.py::test_rounded_times_find_the_file",
    ),
    "10.3 time zone": (f"{JAVA}::test_the_log_is_asked_for_with_the_very_time_of_the_run",),
    "10.3 group appname": (f"{CALLS}::test_an_unknown_group_is_told_with_the_way_out",),
    "10.3 reply deadline": (
        "component/scheduler/fire/test_stages.py::test_a_slow_job_moves_to_the_slow_lane",
        "unit/wire/http/test_calls.py::test_silence_after_the_request_means_it_may_have_arrived",
    ),
    "10.3 late /run reply": (f"{JAVA}::test_a_run_whose_reply_came_too_late_is_not_sent_again",),
    "10.3 callback order": ("component/scheduler/finish/test_finish.py::test_a_callback_may_beat_the_reply",),
    "10.3 empty token": (
        f"{WIRE}::test_without_a_token_of_our_own_no_call_passes",
        f"{WIRE}::test_a_wrong_token_is_refused",
    ),
    "10.3 address list": (f"{WIRE}::test_addresses_have_one_spelling", f"{WIRE}::test_urls_have_exactly_one_slash"),
}


@cache
def functions_in(path: str) -> Mapping[str, ast.FunctionDef]:
    tree = ast.parse((TESTS / path).read_text(encoding="utf-8"))
    return {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}


@cache
def off_in(path: str) -> frozenset[str]:
    """Return the marks of a file that keep tests from running or from failing."""
    return marks_in(ast.parse((TESTS / path).read_text(encoding="utf-8")))


def marks_in(tree: ast.AST) -> frozenset[str]:
    names = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    return frozenset(names & {"skip", "skipif", "xfail", "importorskip"})


def can_fail(path: str, name: str, seen: frozenset[str] = frozenset()) -> bool:
    """Return whether a function states something, by itself or by a function of its file that it calls."""
    function = functions_in(path).get(name)
    if function is None or name in seen:
        return False
    nodes = [node for statement in function.body for node in ast.walk(statement)]
    calls = [node.func for node in nodes if isinstance(node, ast.Call)]
    return (
        any(isinstance(node, ast.Assert) for node in nodes)
        or any(isinstance(call, ast.Attribute) and call.attr == "raises" for call in calls)
        or any(isinstance(call, ast.Name) and can_fail(path, call.id, seen | {name}) for call in calls)
    )


@pytest.mark.parametrize("trap", TRAPS)
def test_each_trap_has_its_tests(trap: str) -> None:
    for name in TRAPS[trap]:
        path, _, function = name.partition("::")
        assert function.startswith("test_"), name
        assert can_fail(path, function), f"{name} is not there, or states nothing"
        assert not off_in(path), f"{name} may be left out"


def test_each_test_of_a_trap_is_listed() -> None:
    listed = {name for names in TRAPS.values() for name in names}
    for path in (GO, PYXXL, JAVA):
        written = {f"{path}::{name}" for name in functions_in(path) if name.startswith("test_")}
        assert written <= listed


def test_all_rows_are_there() -> None:
    sections = [trap.split()[0] for trap in TRAPS]
    assert [sections.count(number) for number in ("10.1", "10.2", "10.3")] == [13, 12, 13]
