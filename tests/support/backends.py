"""Run tests on one database server: ``python -m tests.support.backends mariadb|postgresql [pytest's arguments]``.

What runs there: tests of :data:`WHOLE` and :data:`SOME` that ask for ``db`` or ``new_database``. A test belongs there
if what it proves may differ between databases: what SQL means and costs, how texts compare, which rows a transaction
locks, who wins a race, what is there after a crash. A test whose subject is decided in Python runs once, on SQLite,
however often it asks the database on its way: every question of the storage is asked on each server by
``test_each_question_is_understood``, and most of them with their answers by the other tests of the storage.

Of a test with many parameters that mean the same to a database, ``servers_get`` takes the first few for 'make gate';
'make nightly' runs the others.

A server that is not installed is left out and named, unless ``REQUIRE_SERVERS`` is set, as it is in CI.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Final

from tests.support import servers

ACCESS: Final = "tests/component/api/v1/access"
ALARMS: Final = "tests/product/alarms"
PEOPLE: Final = "tests/product/accounts/api"
AUDIT: Final = "tests/product/accounts/audit"
DECLARED: Final = "tests/product/jobs_as_code"
SCHEDULER: Final = "tests/component/scheduler"
REPORTS: Final = "tests/product/reports"
RUN_LOGS: Final = "tests/product/run_logs"

WHOLE: Final = (
    "tests/component/storage",
    "tests/faults",
    f"{ALARMS}/test_crashes.py",
    f"{ALARMS}/test_rules.py",
    f"{ALARMS}/test_tables.py",
    "tests/product/test_query_plans_million.py",
    "tests/product/test_statements.py",
    f"{SCHEDULER}/cluster/test_lease.py",
    f"{SCHEDULER}/finish/test_finish_races.py",
    f"{SCHEDULER}/fire/test_fence.py",
    f"{SCHEDULER}/fire/test_stale_nodes.py",
    f"{SCHEDULER}/plan/test_claim_seen.py",
    f"{SCHEDULER}/test_observers.py",
    f"{SCHEDULER}/test_pulse.py",
    f"{SCHEDULER}/upkeep/test_retention.py",
    f"{REPORTS}/test_overview.py",
    f"{REPORTS}/test_storage.py",
    f"{REPORTS}/test_sweep.py",
    f"{REPORTS}/test_tables.py",
    f"{RUN_LOGS}/test_tables.py",
    "tests/integration/test_backup.py",
    "tests/integration/test_chain_crash.py",
    "tests/integration/test_databases.py",
    f"{DECLARED}/test_declaration_rows.py",
    f"{DECLARED}/test_declaration_tables.py",
    f"{DECLARED}/test_query_plans.py",
)
"""Folders and files whose subject is the database."""

SOME: Final[Mapping[str, Sequence[str]]] = {
    f"{PEOPLE}/test_accounts.py": (
        "test_names_that_read_alike_are_one",
        "test_names_of_any_language_are_fine",
        "test_two_admins_who_remove_each_other_at_once_leave_one",
        "test_an_account_that_goes_takes_sessions_and_tokens_along",
        "test_a_disabled_account_has_no_session_and_its_tokens_open_nothing",
    ),
    f"{PEOPLE}/test_links.py": (
        "test_of_many_at_once_one_is_let_in",
        "test_a_link_that_ends_between_its_judgement_and_its_session_is_refused",
        "test_an_attempt_counts_though_others_write_first",
        "test_an_account_has_few_links_and_the_oldest_goes_first",
    ),
    f"{ACCESS}/test_secrets.py": (
        "test_secrets_are_listed_by_page_and_group",
        "test_which_secret_an_executor_proved_is_listed",
    ),
    f"{PEOPLE}/test_session.py": (
        "test_of_attempts_at_the_same_time_no_more_are_judged",
        "test_names_are_compared_without_case_and_width",
        "test_s16_a_token_that_is_made_while_the_password_changes_does_not_outlive_that",
    ),
    f"{PEOPLE}/test_session_reads.py": ("test_sessions_in_use_are_read_together",),
    f"{PEOPLE}/test_settings.py": (
        "test_any_json_comes_back_as_it_was",
        "test_a_setting_is_replaced_and_deleted",
        "test_an_account_keeps_no_more_than_so_many",
        "test_the_deepest_that_is_kept",
    ),
    f"{ACCESS}/test_tokens.py": (
        "test_names_are_unique_and_groups_may_have_several",
        "test_pages_follow_names",
        "test_a_group_takes_its_tokens_along",
    ),
    # by night; in which order calls come, no database sees
    "tests/integration/test_schemathesis.py": ("test_the_api_keeps_to_its_document[many calls]",),
    "tests/component/api/v1/test_groups.py": (
        "test_a_group_lives_from_post_to_delete",
        "test_an_app_name_is_taken_once",
        "test_groups_are_found_by_the_beginning_of_their_app_name",
        "test_addresses_are_entered_with_the_name_of_a_secret_of_the_group",
        "test_a_group_lists_glue_types_that_only_its_executors_know",
    ),
    "tests/component/api/v1/test_scripts.py": (
        "test_a_save_counts_only_at_the_revision_that_was_seen",
        "test_only_the_newest_versions_stay",
    ),
    f"{AUDIT}/test_sealing.py": (
        "test_two_that_seal_at_once_leave_one_chain",
        "test_a_row_that_is_committed_late_comes_later_in_the_chain",
        "test_an_export_has_every_row_once_in_the_order_of_the_chain",
    ),
    f"{AUDIT}/test_switching.py": (
        "test_two_nodes_that_switch_at_once_leave_one_chain",
        "test_retention_goes_over_the_switch",
    ),
    f"{AUDIT}/test_verify.py": (
        "test_an_audit_that_nobody_touched_is_sound",
        "test_two_rows_that_changed_places_are_named",
        "test_rows_that_go_during_a_verification_are_not_missed",
    ),
    f"{ALARMS}/test_channels.py": ("test_what_waits_in_memory_is_left_to_the_next_holder_of_the_lease",),
    f"{ALARMS}/test_ends.py": ("test_the_nearest_rule_of_a_kind_wins", "test_a_new_node_knows_the_open_alarms"),
    f"{ALARMS}/test_watch.py": (
        "test_many_open_runs_are_read_in_batches",
        "test_a_job_that_does_not_run_is_told_once_and_again_after_it_ran",
    ),
    f"{SCHEDULER}/check/test_foreign.py": (
        "test_n28_a_run_that_is_sent_while_a_kill_is_on_its_way_does_not_count_as_killed",
        "test_n28_a_kill_that_comes_while_a_check_is_claimed_is_not_forgotten",
        "test_n28_a_kill_that_comes_before_the_answer_to_a_check_is_not_forgotten",
    ),
    f"{SCHEDULER}/check/test_loop.py": (
        "test_runs_of_an_instance_that_is_gone_are_lost_in_batches",
        "test_a_claimed_row_is_not_asked_about_by_another_node",
        "test_n35_of_a_partition_that_went_elsewhere_no_check_is_hurried",
    ),
    f"{SCHEDULER}/cluster/test_clock_sync.py": ("test_the_offset_is_the_databases_whatever_its_zone",),
    f"{SCHEDULER}/executors/test_many_executors.py": (
        "test_a_node_that_hears_an_executor_no_more_does_not_write_its_last_beat_again",
    ),
    f"{SCHEDULER}/executors/test_registry.py": (
        "test_beats_stay_in_memory_until_they_are_flushed",
        "test_an_executor_without_a_beat_dies_and_is_swept",
        "test_who_comes_or_goes_while_the_rows_are_read_stays_so",
    ),
    f"{SCHEDULER}/executors/test_by_hand.py": ("test_a_secret_that_ended_is_sent_no_more",),
    f"{SCHEDULER}/executors/test_secrets.py": ("test_the_shared_token_takes_out_nothing_that_proved_a_groups_secret",),
    f"{SCHEDULER}/finish/test_child_links.py": (
        "test_links_are_replaced_and_the_revision_rises",
        "test_two_changes_at_once_close_no_circle",
    ),
    f"{SCHEDULER}/finish/test_child_runs.py": (
        "test_the_last_shard_brings_the_child_and_every_shard_must_have_succeeded",
        "test_n11_a_root_that_ends_a_second_time_has_its_child_already",
        "test_a_join_waits_for_all_parents_of_its_chain",
        "test_a_batch_that_sets_much_in_motion_is_taken_in_pieces",
    ),
    f"{SCHEDULER}/finish/test_finish.py": (
        "test_a_late_outcome_withdraws_the_retry_of_a_lost_run",
        "test_more_than_five_hundred_outcomes_are_closed",
        "test_an_outcome_of_another_databases_run_closes_nothing",
    ),
    f"{SCHEDULER}/finish/test_retry_recovery.py": (
        "test_a_late_failure_exchanges_the_planned_recovery_for_a_retry",
        "test_n27_a_recovery_run_that_is_sent_while_it_is_looked_for_goes_on",
    ),
    f"{SCHEDULER}/fire/test_limits.py": (
        "test_a_limit_counts_what_other_nodes_opened",
        "test_serial_runs_of_the_cluster_follow_one_another_in_due_order",
        "test_the_newest_run_covers_what_runs_and_what_waits",
        "test_what_is_open_is_read_from_the_open_runs_only",
        "test_n8_an_older_run_takes_no_newer_ones_place",
    ),
    f"{SCHEDULER}/fire/test_limits_property.py": ("test_never_more_than_allowed_and_everything_goes_in_due_order",),
    f"{SCHEDULER}/fire/test_stages.py": (
        "test_each_holder_gets_a_higher_epoch_for_every_partition",
        "test_a_missing_lease_row_stops_the_node",
        "test_what_an_old_epoch_planned_is_fenced_only_by_the_new_one",
    ),
    f"{RUN_LOGS}/test_expiry.py": (
        "test_a_job_has_a_retention_of_its_own_also_when_it_is_changed",
        "test_many_logs_go_in_batches",
    ),
    f"{RUN_LOGS}/test_fetch.py": (
        "test_where_to_go_on_is_known_after_a_crash",
        "test_one_slow_executor_does_not_hold_up_the_others",
    ),
    f"{RUN_LOGS}/test_shipped.py": ("test_two_nodes_that_get_the_same_lines_at_once",),
    f"{DECLARED}/test_declared_jobs.py": (
        "test_jobs_are_created_started_and_owned",
        "test_what_is_not_declared_any_more_is_stopped_and_comes_back",
        "test_an_edit_meanwhile_wins_no_race_and_loses_nothing",
        "test_a_field_that_is_released_meanwhile_is_left_alone",
        "test_a_higher_release_that_comes_meanwhile_keeps_what_it_wrote",
        "test_two_nodes_that_sync_the_same_at_once_make_each_job_once",
    ),
    f"{SCHEDULER}/jobs/test_edits.py": (
        "test_an_edit_between_routing_and_fence_is_routed_again",
        "test_planned_runs_follow_their_job_into_its_new_group",
        "test_a_run_that_was_written_beside_the_delete_of_its_job_is_never_sent",
        "test_run_now_with_the_same_key_is_the_same_run",
        "test_a_stale_revision_is_refused_and_writes_nothing",
        "test_n29_an_edit_while_an_end_is_being_written_sets_the_next_fire_by_the_new_schedule",
    ),
    f"{SCHEDULER}/runs/test_kill.py": (
        "test_a_run_that_is_sent_while_it_is_cancelled_is_marked",
        "test_a_kill_that_comes_while_a_question_is_open_is_not_put_off",
    ),
    f"{SCHEDULER}/jobs/test_owners.py": ("test_what_it_owns_meanwhile_counts", "test_rows_go_with_their_job"),
    f"{SCHEDULER}/jobs/test_pause.py": (
        "test_n30_a_job_that_is_stopped_gets_no_next_fire_from_a_pause",
        "test_n45_a_claim_that_is_under_way_when_schedules_are_paused_leaves_no_fire",
        "test_a_crash_in_the_middle_of_pausing_plans_nothing_more",
        "test_every_batch_of_jobs_is_given_back",
    ),
    f"{SCHEDULER}/jobs/test_versions.py": (
        "test_what_a_node_of_an_older_version_changed_is_found_later",
        "test_many_jobs_are_written_down_in_bulk",
        "test_what_is_gone_meanwhile_refuses_it_and_changes_nothing",
        "test_versions_go_with_the_job",
    ),
    f"{SCHEDULER}/plan/test_adopt.py": (
        "test_r17_fire_once_spares_one_run_a_job",
        "test_n5_reconciling_takes_up_no_row_of_an_older_epoch",
        "test_r1_what_a_former_holder_planned_is_adopted_however_much_and_earliest_first",
        "test_an_outcome_that_comes_while_a_send_is_settled_is_the_last_word",
        "test_a_fire_planned_twice_by_a_cursor_set_back_runs_once",
    ),
    f"{SCHEDULER}/plan/test_calendars_end_to_end.py": (
        "test_a_change_cancels_planned_fires_and_moves_the_next_one",
        "test_a_change_that_leaves_a_started_job_without_a_fire_is_undone",
    ),
    f"{SCHEDULER}/plan/test_claim_shares.py": (
        "test_r11_a_job_that_is_started_while_its_bad_row_is_repaired_keeps_its_next_fire",
        "test_n3_a_partition_that_left_us_between_read_and_lock_is_not_planned",
        "test_n4_a_fixed_delay_awaits_no_fire_that_was_planned_before",
    ),
    f"{SCHEDULER}/plan/test_fixed_delay.py": (
        "test_all_shards_must_have_ended",
        "test_the_delay_counts_from_the_end_that_is_written_whatever_the_transaction_waits_for",
    ),
    f"{SCHEDULER}/send/test_results.py": (
        "test_n18_an_outcome_that_comes_before_the_answer_is_the_last_word",
        "test_r17_an_answer_that_the_database_did_not_take_stays_held",
        "test_whoever_sent_a_run_writes_its_answer_though_its_partition_went_elsewhere",
    ),
    "tests/product/console/test_queries.py": (
        "test_each_question_is_understood",
        "test_no_question_reads_more_than_it_is_about",
    ),
    "tests/product/console/test_reader.py": (
        "test_a_run_is_followed_from_its_plan_to_its_end",
        "test_a_row_of_the_audit_that_commits_late_is_told",
        "test_alarms_are_told_and_what_becomes_of_them",
        "test_it_counts_by_group",
    ),
    "tests/product/console/test_sources.py": ("test_one_that_fails_costs_its_own_news_and_no_other",),
    f"{SCHEDULER}/test_listeners.py": ("test_what_is_rolled_back_is_not_told",),
    "tests/product/xxl_calls/test_job_calls.py": (
        "test_an_update_keeps_what_others_write_meanwhile",
        "test_an_update_replaces_all_but_group_and_glue",
        "test_p5_a_trigger_may_name_several",
    ),
    "tests/product/xxl_calls/test_own_objects.py": ("test_a_job_that_moves_meanwhile_is_out_of_reach",),
    "tests/product/xxl_calls/test_whole_way.py": ("test_from_the_first_token_to_the_last_call",),
    f"{REPORTS}/test_counting.py": (
        "test_it_equals_a_recount_after_everything_that_can_still_happen",
        "test_what_did_not_change_is_not_written",
        "test_a_job_whose_runs_left_an_hour_leaves_the_report",
        "test_hours_from_which_runs_may_be_gone_only_gain",
        "test_pages_of_jobs_are_compared_with_their_own_rows",
        "test_a_row_of_a_whole_hour_may_shrink_and_one_of_an_old_hour_may_not",
    ),
}
"""Tests out of files that are about something else: races, order, texts, and what is written in batches."""

PLACES: Final = (*WHOLE, *(f"{file}::{test}" for file, tests in SOME.items() for test in tests))
LAST_FAILED: Final = "--last-failed"
PACKAGES: Final = {"mariadb": "mariadb-server", "postgresql": "postgresql"}


def main(backend: str, *arguments: str) -> int:
    """Return pytest's exit status."""
    if not servers.is_installed(backend):
        print(f"{backend} is not tested: the Debian package {PACKAGES[backend]} is not installed")
        return int(bool(os.environ.get("REQUIRE_SERVERS")))
    command = [sys.executable, "-m", "pytest", "--backend", backend, *arguments, *places_for(arguments)]
    return subprocess.run(command, check=False).returncode


def places_for(arguments: Sequence[str]) -> Sequence[str]:
    """Return what pytest collects; whole files, if it is to run what failed before.

    Then it collects nothing of files in which no test failed, and refuses a place that names a test of theirs.
    """
    return tuple(dict.fromkeys(place.partition("::")[0] for place in PLACES)) if LAST_FAILED in arguments else PLACES


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
