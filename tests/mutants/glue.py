"""Mistakes in jobs that are scripts or HTTP calls."""

from __future__ import annotations

from typing import Final

from tests.mutants import Mistake

MISTAKES: Final = [
    Mistake(
        file="plugins/glue_http/xwheel_glue_http/job.py",
        old="            if origin not in secret.origins:\n",
        new="            if not secret.origins:\n",
        why="A job could send the executor's secret to any host.",
        tests=("plugins/glue_http/tests/test_jobs.py::test_a_secret_goes_nowhere_else",),
    ),
    Mistake(
        file="plugins/glue_http/xwheel_glue_http/job.py",
        old="HIDDEN if name in _HIDDEN_HEADERS else",
        new="value if name in _HIDDEN_HEADERS else",
        why="Cookies of an answer would stand in the run's log.",
        tests=("plugins/glue_http/tests/test_jobs.py::test_a_job_calls_and_its_log_has_the_answer",),
    ),
    Mistake(
        file="plugins/glue_http/xwheel_glue_http/job.py",
        old=("    except asyncio.CancelledError:\n        call.abort()\n        raise\n"),
        new=("    except asyncio.CancelledError:\n        raise\n"),
        why="The call of a killed run would go on.",
        tests=("plugins/glue_http/tests/test_jobs.py::test_a_kill_ends_a_call_that_waits_at_once",),
    ),
    Mistake(
        file="plugins/glue_http/xwheel_glue_http/job.py",
        old="return text[: max(0, len(text) - self._mask.longest)] if answer.truncated else text",
        new="return text",
        why="Half of a secret at the end of a cut answer would stand in the run's log.",
        tests=("plugins/glue_http/tests/test_jobs.py::test_a_secret_that_is_cut_in_two_is_not_logged",),
    ),
    Mistake(
        file="plugins/glue_http/xwheel_glue_http/template.py",
        old='                if value in {".", ".."}:\n',
        new='                if value in {"."}:\n',
        why="A run's parameter could lead a call one folder up.",
        tests=("plugins/glue_http/tests/test_jobs.py::test_parameters_cannot_leave_their_folder_or_add_a_header",),
    ),
    Mistake(
        file="plugins/glue_http/xwheel_glue_http/template.py",
        old="        return _TOKEN.sub(one, self._text)",
        new="        return _TOKEN.sub(one, _TOKEN.sub(one, self._text))",
        why="A run's parameter could name a secret, and have it filled in.",
        tests=("plugins/glue_http/tests/test_sources.py::test_any_template_fills_or_is_refused_and_evaluates_nothing",),
    ),
    Mistake(
        file="plugins/glue_http/xwheel_glue_http/document.py",
        old="range(int(match[1]), int(match[2] or match[1]) + 1)",
        new="range(int(match[1]), int(match[2] or match[1]))",
        why="A status that is expected by itself would never be success.",
        tests=("plugins/glue_http/tests/test_jobs.py::test_what_counts_as_success",),
    ),
    Mistake(
        file="plugins/glue_http/xwheel_glue_http/document.py",
        old='if origin is None or "$" in origin[0]:',
        new="if origin is None:",
        why="A run's parameter could choose the host that gets the job's secrets.",
        tests=("plugins/glue_http/tests/test_sources.py",),
    ),
    Mistake(
        file="plugins/glue_script/xwheel_glue_script/script.py",
        old='.removeprefix("\\ufeff")',
        new="",
        why="A byte-order mark hides a script's first lines from who reads them (R41).",
        tests=("plugins/glue_script/tests/test_scripts.py::test_r41_a_byte_order_mark_is_no_part_of_a_script",),
    ),
    Mistake(
        file="plugins/glue_script/xwheel_glue_script/script.py",
        old='        source = source.replace("\\r\\n", "\\n")',
        new="        pass",
        why="A shell script that was edited on Windows would fail.",
        tests=(
            "plugins/glue_script/tests/test_scripts.py::test_a_new_version_is_a_new_file_and_windows_line_ends_do_no_harm",
        ),
    ),
    Mistake(
        file="plugins/glue_script/xwheel_glue_script/script.py",
        old=("return [program, str(path), parameter, str(context.shard_index), str(context.shard_total)]"),
        new=("return [program, str(path), parameter, str(context.shard_total), str(context.shard_index)]"),
        why="A script would take its shard's number for their count.",
        tests=("plugins/glue_script/tests/test_scripts.py::test_an_interpreter_gets_parameter_shard_and_total",),
    ),
    Mistake(
        file="plugins/glue_script/xwheel_glue_script/script.py",
        old='    if "\\0" in text:\n',
        new='    if "\\0\\0" in text:\n',
        why="A parameter that no program takes would end in an error of Python.",
        tests=("plugins/glue_script/tests/test_scripts.py::test_a_parameter_that_no_program_takes_is_refused",),
    ),
    Mistake(
        file="plugins/glue_script/xwheel_glue_script/script.py",
        old="            if path.lstat().st_mtime < before:",
        new="            if path.lstat().st_mtime > before:",
        why="Scripts in use would be deleted, and old ones kept.",
        tests=("plugins/glue_script/tests/test_scripts.py::test_an_interpreter_gets_parameter_shard_and_total",),
    ),
    Mistake(
        file="plugins/glue_script/xwheel_glue_script/requirements.py",
        old="    if len(found) > 1:\n",
        new="    if len(found) > 2:\n",
        why="Of two blocks of requirements the first would count.",
        tests=("plugins/glue_script/tests/test_python.py::test_two_blocks_are_refused",),
    ),
]
