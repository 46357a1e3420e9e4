"""Mistakes where several clusters are read through one: who may, what is believed, where tokens go, what a page has."""

from __future__ import annotations

from typing import Final

from tests.mutants import Mistake

CODE: Final = "plugins/cells/xwheel_cells"
TESTS: Final = "plugins/cells/tests"

MISTAKES: Final = [
    Mistake(
        file=f"{CODE}/routes.py",
        old="scope=RouteScope.ALL",
        new="scope=RouteScope.SOME",
        why="A reader of one group here would see all groups of other clusters.",
        tests=(f"{TESTS}/test_rights.py",),
    ),
    Mistake(
        file=f"{CODE}/routes.py",
        old="if len(chosen) > 1 and (field := ",
        new="if not chosen and (field := ",
        why="A filter by the id of a job would find the runs of other jobs in other clusters.",
        tests=(f"{TESTS}/test_clusters.py::test_numbers_of_one_cell_need_that_cell",),
    ),
    Mistake(
        file=f"{CODE}/routes.py",
        old="if own.name not in open_cells:\n            self._check(kind, query)",
        new="if own.name not in open_cells:\n            pass",
        why="A filter that is none would make all other clusters look broken.",
        tests=(f"{TESTS}/test_clusters.py::test_filters_are_those_of_the_ordinary_list",),
    ),
    Mistake(
        file=f"{CODE}/merging.py",
        old="if horizon is None or key <= horizon:",
        new="if True:",
        why="Older rows of one cluster would stand before newer ones that another has yet to show.",
        tests=(f"{TESTS}/test_merging.py",),
    ),
    Mistake(
        file=f"{CODE}/merging.py",
        old="ends = [kind.key_of(part.next) for part in parts.values() if part.next is not None]\n"
        "    horizon = min(ends, default=None)",
        new="ends = [kind.key_of(part.next) for part in parts.values() if part.next is not None]\n"
        "    horizon = max(ends, default=None)",
        why="The farthest end of a page would count, so that rows come out of their order.",
        tests=(f"{TESTS}/test_merging.py",),
    ),
    Mistake(
        file=f"{CODE}/merging.py",
        old='kind.place(part.rows[count - 1]) if count else places.get(name) or ""',
        new='kind.place(part.rows[count - 1]) if count else ""',
        why="A cluster of which a page showed nothing would begin again.",
        tests=(f"{TESTS}/test_merging.py",),
    ),
    Mistake(
        file=f"{CODE}/merging.py",
        old="row.cell = name",
        new="row.cell = row.cell or name",
        why="A cluster could say that its rows are those of another.",
        tests=(f"{TESTS}/test_bad_cells.py::test_a_cell_cannot_speak_for_another",),
    ),
    Mistake(
        file=f"{CODE}/merging.py",
        old="all(not place or kind.form.fullmatch(place) for place in places.values())",
        new="True",
        why="A made-up cursor would put parameters into the questions to other clusters.",
        tests=(f"{TESTS}/test_merging.py::test_what_is_no_cursor_is_refused",),
    ),
    Mistake(
        file=f"{CODE}/answers.py",
        old="if any(one[0] == other[0] for one, other in pairwise(inside)):",
        new="if False:",
        why="A cluster that repeats a row would have it shown twice.",
        tests=(f"{TESTS}/test_bad_cells.py::test_what_is_no_answer_is_named_and_not_repeated",),
    ),
    Mistake(
        file=f"{CODE}/answers.py",
        old="if lower is not None and upper is not None and upper <= lower:",
        new="if lower is not None and upper is not None and upper < lower:",
        why="A walk through a list that does not lead on would never end.",
        tests=(f"{TESTS}/test_bad_cells.py::test_a_page_that_does_not_lead_on_ends_a_walk",),
    ),
    Mistake(
        file=f"{CODE}/answers.py",
        old="if (lower is None or key > lower) and (upper is None or key <= upper)",
        new="if lower is None or key > lower",
        why="A row behind the end of its page would be shown again with the next one.",
        tests=(f"{TESTS}/test_merging.py",),
    ),
    Mistake(
        file=f"{CODE}/answers.py",
        old="if len(rows) > limit:",
        new="if len(rows) > 10 * limit:",
        why="A cluster could answer with many more rows than were asked for.",
        tests=(f"{TESTS}/test_bad_cells.py::test_what_is_no_answer_is_named_and_not_repeated",),
    ),
    Mistake(
        file=f"{CODE}/answers.py",
        old="except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):",
        new="except (msgspec.MsgspecError, UnicodeDecodeError):",
        why="An answer that is nested deep would fail the call instead of the cluster.",
        tests=(f"{TESTS}/test_bad_cells.py::test_what_is_no_answer_is_named_and_not_repeated",),
    ),
    Mistake(
        file=f"{CODE}/far.py",
        old="if answer.truncated:",
        new="if answer.truncated and not answer.body:",
        why="A body that was cut would be called malformed, and no one told to ask for less.",
        tests=(f"{TESTS}/test_bad_cells.py::test_a_large_body_is_not_read_to_its_end",),
    ),
    Mistake(
        file=f"{CODE}/far.py",
        old="                self._free.release()",
        new="                pass",
        why="After four questions a cluster would never be asked again.",
        tests=(f"{TESTS}/test_far_and_own.py", f"{TESTS}/test_bad_cells.py::test_each_status_says_what_to_do"),
    ),
    Mistake(
        file=f"{CODE}/far.py",
        old="if not self._free.acquire(blocking=False):",
        new="if not self._free.acquire():",
        why="A slow cluster would hold up the callers of all others.",
        tests=(f"{TESTS}/test_bad_cells.py::test_a_slow_cell_is_asked_only_so_much_at_once_and_blocks_no_other",),
    ),
    Mistake(
        file=f"{CODE}/far.py",
        old="share_s = (deadline - time.monotonic()) / (count - turn)",
        new="share_s = deadline - time.monotonic()",
        why="An address that hangs would leave no time for the next one.",
        tests=(f"{TESTS}/test_bad_cells.py::test_an_address_that_hangs_leaves_time_for_the_next",),
    ),
    Mistake(
        file=f"{CODE}/far.py",
        old="begin = self._first",
        new="begin = 0",
        why="Each call would first wait for an address that is away.",
        tests=(f"{TESTS}/test_bad_cells.py",),
    ),
    Mistake(
        file=f"{CODE}/far.py",
        old="if rest is not None and self._site.clock.monotonic_ms() < rest[2]:",
        new="if False:",
        why="A silent cluster would take the time of every call.",
        tests=(f"{TESTS}/test_far_and_own.py",),
    ),
    Mistake(
        file=f"{CODE}/fanout.py",
        old="cell.name: cell.start(partial(question, cell, deadline)) for cell in chosen if isinstance(cell, FarCell)",
        new="cell.name: found\n            for cell in chosen\n            if isinstance(cell, FarCell)\n"
        "            and ((found := cell.start(partial(question, cell, deadline))).exception() or True)",
        why="Clusters would be asked one after the other.",
        tests=(f"{TESTS}/test_bad_cells.py::test_all_cells_are_asked_at_once",),
    ),
    Mistake(
        file=f"{CODE}/options.py",
        old="if S_IMODE(mode) & OTHERS:",
        new="if S_IMODE(mode) & 0o007:",
        why="A token that a group of accounts may read would be used.",
        tests=(f"{TESTS}/test_options.py",),
    ),
    Mistake(
        file=f"{CODE}/options.py",
        old="return EgressPolicy(networks=(network,), only_hosts=(target.host,), **common)",
        new="return EgressPolicy(networks=(network.supernet(8),), **common)",
        why="The token could go to other addresses of the network.",
        tests=(f"{TESTS}/test_options.py",),
    ),
    Mistake(
        file=f"{CODE}/own.py",
        old="        except FieldError:\n            raise\n",
        new="",
        why="A filter that is none would look like a failure of this node.",
        tests=(f"{TESTS}/test_far_and_own.py",),
    ),
    Mistake(
        file=f"{CODE}/own.py",
        old="route.path == wanted and route.suffix is None",
        new="route.path == wanted",
        why="This node could answer with a file in place of a list.",
        tests=(f"{TESTS}/test_far_and_own.py",),
    ),
]
