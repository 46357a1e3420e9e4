"""Mistakes in the pages of the console, which tests in a browser must notice."""

from __future__ import annotations

from typing import Final

from tests.mutants import Mistake

MISTAKES: Final = [
    Mistake(
        file="plugins/console/xwheel_console/static/api.js",
        old='if (answer.status === 401 && !path.startsWith("session")) signedOut.value = true;',
        new='if (answer.status === 401 && path.startsWith("session")) signedOut.value = true;',
        why="A form whose session ended would be left without a way to sign in over it.",
        tests=(
            "plugins/console/tests/test_outages.py::test_a_session_that_ends_in_the_middle_of_a_form_loses_nothing",
        ),
    ),
    Mistake(
        file="plugins/console/xwheel_console/static/components/dialog.js",
        old="  if (question && !(await confirmed(question))) return;\n",
        new="  if (question) await confirmed(question);\n",
        why="A changed form would be closed whatever is answered.",
        tests=("plugins/console/tests/test_dialogs.py::test_a_form_that_was_changed_asks_first",),
    ),
    Mistake(
        file="plugins/console/xwheel_console/static/store.js",
        old=(": RANKS[grant.role] >= NEEDS[permission]);\n  if (allows(who)) return true;"),
        new=(": RANKS[grant.role] > NEEDS[permission]);\n  if (allows(who)) return true;"),
        why="A role would not be offered what it is named after.",
        tests=("plugins/console/tests/test_jobs.py::test_a_role_sees_only_what_the_node_lets_it_do",),
    ),
    Mistake(
        file="plugins/console/xwheel_console/static/store.js",
        old="(RANKS[grant.role] >= NEEDS.edit && grant.script)",
        new="RANKS[grant.role] >= NEEDS.edit",
        why="An editor without the right to scripts would be offered to change one.",
        tests=("plugins/console/tests/test_jobs.py::test_a_script_may_be_read_where_it_may_not_be_changed",),
    ),
    Mistake(
        file="plugins/console/xwheel_console/static/zones.js",
        old="  const wanted = Date.parse(`${text}Z`);\n",
        new="  const wanted = Date.parse(`${text}Z`) + 3_600_000;\n",
        why="Times that are typed would be an hour later.",
        tests=("plugins/console/tests/test_cluster.py::test_times_of_the_audits_filter_are_those_of_the_shown_zone",),
    ),
    Mistake(
        file="plugins/console/xwheel_console/static/pages/login.js",
        old='error.code !== "busy") throw error;',
        new='error.code === "busy") throw error;',
        why="A sign-in next to a colleague's would be refused.",
        tests=("plugins/console/tests/test_accounts.py::test_s14_a_sign_in_that_finds_no_turn_is_made_once_more",),
    ),
    Mistake(
        file="plugins/console/xwheel_console/static/pages/jobs/conflict.js",
        old='same(item.mine, item.before) ? "theirs" : "mine"',
        new='"mine"',
        why="What only somebody else changed would be taken back by my save.",
        tests=("plugins/console/tests/test_jobs.py::test_a_stale_form_compares_three_columns_and_loses_nothing",),
    ),
    Mistake(
        file="plugins/console/xwheel_console/static/pages/jobs/history.js",
        old="/restore`, {revision: job.revision}, said)",
        new="/restore`, {revision: job.revision}, {})",
        why="The reason of a way back would not be kept.",
        tests=("plugins/console/tests/test_jobs.py::test_versions_are_compared_and_rolled_back_with_a_reason",),
    ),
    Mistake(
        file="plugins/console/xwheel_console/static/pages/jobform.js",
        old=", revision: base.job.revision}, {reason})",
        new="}, {reason})",
        why="A form that is out of date would overwrite what somebody else saved.",
        tests=("plugins/console/tests/test_jobs.py::test_a_stale_form_compares_three_columns_and_loses_nothing",),
    ),
    Mistake(
        file="plugins/console/xwheel_console/static/api.js",
        old='headers["Xwheel-Reason"] = encodeURIComponent(reason);',
        new='headers["Xwheel-Reason"] = reason;',
        why="A reason in Chinese could not be sent.",
        tests=("plugins/console/tests/test_jobs.py::test_versions_are_compared_and_rolled_back_with_a_reason",),
    ),
    Mistake(
        file="plugins/console/xwheel_console/static/api.js",
        old='  if (key) headers["Idempotency-Key"] = key;\n',
        new="",
        why="A click whose answer was lost would make a second run when it is made again.",
        tests=("plugins/console/tests/test_dialogs.py::test_a_run_whose_answer_was_lost_is_made_once",),
    ),
    Mistake(
        file="plugins/console/xwheel_console/static/router.js",
        old=('    history.pushState(null, "", current || "#/");\n    return;\n'),
        new='    history.pushState(null, "", current || "#/");\n',
        why="A form would be left unasked after the person chose to stay once.",
        tests=("plugins/console/tests/test_jobs.py::test_what_is_typed_is_not_left_without_a_question",),
    ),
    Mistake(
        file="plugins/console/xwheel_console/static/later.js",
        old="  show?.(typed);\n",
        new="  show?.();\n",
        why="What is typed before the palette is loaded would be lost.",
        tests=(
            "plugins/console/tests/test_shell.py::test_what_is_typed_while_the_palette_is_on_its_way_is_typed_into_it",
        ),
    ),
    Mistake(
        file="plugins/console/xwheel_console/static/components/dialog.js",
        old="  const isReady = typed === null || name.value === typed;\n",
        new="  const isReady = typed === null || name.value !== null;\n",
        why="What must be confirmed by typing its name would be done without.",
        tests=("plugins/console/tests/test_dialogs.py::test_a_job_is_deleted_only_by_its_name",),
    ),
    Mistake(
        file="plugins/console/xwheel_console/static/store.js",
        old="(groupId === undefined || grant.group_id === groupId) && allows(grant)",
        new="allows(grant)",
        why="A right in one group would offer changes in all of them.",
        tests=("plugins/console/tests/test_accounts.py::test_a_right_in_one_group_offers_nothing_in_another",),
    ),
    Mistake(
        file="plugins/console/xwheel_console/static/store.js",
        old="  if (key === WHO && newValue && session.value) otherWho",
        new="  if (key === KNOWN && newValue && session.value) otherWho",
        why="Other tabs would not say that the browser is somebody else now.",
        tests=(
            "plugins/console/tests/test_sign_in_links.py::test_other_tabs_say_that_the_browser_is_somebody_else_now",
        ),
    ),
    Mistake(
        file="plugins/console/xwheel_console/static/components/list.js",
        old="fetch(abort, Math.min(count.current, FRESH));",
        new="fetch(abort, count.current);",
        why="Each event would load all pages of a list that a person added.",
        tests=("plugins/console/tests/test_requests.py::test_pages_that_a_person_added_are_not_all_asked_for_again",),
    ),
    Mistake(
        file="plugins/console/xwheel_console/static/components/list.js",
        old="if (!next.delete(idOf(item))) next.add(idOf(item)); chosen.value = next;",
        new="next.add(idOf(item)); chosen.value = next;",
        why="A row that was chosen would stay chosen when it is clicked once more.",
        tests=("plugins/console/tests/test_jobs.py::test_rows_that_were_chosen_are_saved_and_none_is_a_formula",),
    ),
    Mistake(
        file="plugins/console/xwheel_console/static/components/list.js",
        old="const rows = found.length ? found : items;",
        new="const rows = items;",
        why="All rows would be saved where some were chosen.",
        tests=("plugins/console/tests/test_jobs.py::test_rows_that_were_chosen_are_saved_and_none_is_a_formula",),
    ),
    Mistake(
        file="plugins/console/xwheel_console/static/components/ui.js",
        old="  if (/^[=+\\-@\\t\\r]/.test(text)) text = `'${text}`;\n",
        new="",
        why="A job's name would be a formula in a spreadsheet.",
        tests=("plugins/console/tests/test_jobs.py::test_rows_that_were_chosen_are_saved_and_none_is_a_formula",),
    ),
    Mistake(
        file="plugins/console/xwheel_console/static/components/ui.js",
        old="text.replaceAll('\"', '\"\"')",
        new="text",
        why="A quotation mark in a name would break the line of a saved list.",
        tests=("plugins/console/tests/test_jobs.py::test_rows_that_were_chosen_are_saved_and_none_is_a_formula",),
    ),
    Mistake(
        file="plugins/console/xwheel_console/static/components/logsource.js",
        old=(
            "        if (!(error instanceof ApiError)) throw error;\n"
            "        state.value = {...state.value, error};\n"
            "        // it is"
        ),
        new=("        throw error;\n        // it is"),
        why="One lost answer would end the following of a log.",
        tests=("plugins/console/tests/test_runs.py::test_answers_that_are_lost_lose_no_line_and_repeat_none",),
    ),
    Mistake(
        file="plugins/console/xwheel_console/static/components/log.js",
        old="if (!isInSight(chosen)) show(chosen); follows.value = false; }",
        new="follows.value = false; }",
        why="A link to a line would open the log somewhere else.",
        tests=("plugins/console/tests/test_runs.py::test_a_link_to_a_line_shows_that_line",),
    ),
    Mistake(
        file="plugins/console/xwheel_console/static/components/log.js",
        old="to = (hit.value + step + lines.length) % lines.length;",
        new="to = Math.max(0, hit.value + step);",
        why="After the last match of a search the first one would not come.",
        tests=("plugins/console/tests/test_runs.py::test_search_goes_through_matches_by_keys",),
    ),
    Mistake(
        file="plugins/console/xwheel_console/static/keys.js",
        old="  if (typing && !mod) return;\n",
        new="",
        why="Letters that are typed into a field would be keys of the page.",
        tests=("plugins/console/tests/test_jobs.py::test_letters_in_dialogs_and_fields_are_no_keys_of_the_list",),
    ),
    Mistake(
        file="plugins/console/xwheel_console/static/keys.js",
        old='  if (document.querySelector("dialog[open]") && key !== "Escape" && !mod) return;\n',
        new="",
        why="Keys would go to the page below an open dialog.",
        tests=("plugins/console/tests/test_jobs.py::test_letters_in_dialogs_and_fields_are_no_keys_of_the_list",),
    ),
    Mistake(
        file="plugins/console/xwheel_console/static/keys.js",
        old='  if (!mod && !preferences.value.keys && key !== "Escape") return;\n',
        new="",
        why="Keys would act for a person who switched them off.",
        tests=("plugins/console/tests/test_accounts.py::test_keys_that_are_switched_off_do_nothing",),
    ),
    Mistake(
        file="plugins/console/xwheel_console/static/pages/dashboard.js",
        old="to: item.from_ms + span.sizeMs}); };",
        new="to: span.toMs}); };",
        why="A point of the trend would open the runs of all later days too.",
        tests=("plugins/console/tests/test_runs.py::test_a_point_of_the_trend_opens_the_runs_of_its_day_and_result",),
    ),
    Mistake(
        file="plugins/console/xwheel_console/static/router.js",
        old=("const decoded = (part) => { try { return decodeURIComponent(part); } catch { return part; } };"),
        new="const decoded = (part) => decodeURIComponent(part);",
        why="An address that was cut off would leave the page empty.",
        tests=("plugins/console/tests/test_views.py::test_an_address_that_was_cut_off_is_a_page_that_is_not_there",),
    ),
    Mistake(
        file="plugins/console/xwheel_console/static/store.js",
        old=("    if (answer.reset && !isFirst) tell(null);\n    else if"),
        new="    if",
        why="A page would not load again after events were lost.",
        tests=("plugins/console/tests/test_views.py::test_events_that_were_lost_let_pages_ask_again",),
    ),
    Mistake(
        file="plugins/console/xwheel_console/static/pages/login.js",
        old="      if (present?.name === owner.name) use();\n",
        new="      use();\n",
        why="A link in a mail would make its reader somebody else without a click.",
        tests=(
            "plugins/console/tests/test_sign_in_links.py::test_who_is_signed_in_chooses_whether_to_become_somebody_else",
        ),
    ),
]
