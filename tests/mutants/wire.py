"""Mistakes in what goes over the wire: messages, tokens, addresses, and calls to the outside."""

from __future__ import annotations

from typing import Final

from tests.mutants import Mistake

MISTAKES: Final = [
    Mistake(
        file="xwheel/api/plugins/group_calls.py",
        old="if caller.is_executor or caller.group_id is None:",
        new="if caller.group_id is None:",
        why="The secret of a group's executors would open what its token is for: to change jobs, say.",
        tests=("tests/component/api/plugins/test_group_calls.py", "tests/product/xxl_calls/test_matrix.py"),
    ),
    Mistake(
        file="xwheel/api/plugins/group_calls.py",
        old="if name in taken or name in self._known:",
        new="if name in self._known:",
        why="A plugin could take over registrations, outcomes or logs of executors.",
        tests=("tests/component/api/plugins/test_group_calls.py",),
    ),
    Mistake(
        file="plugins/xxl_calls/xwheel_xxl_calls/answers.py",
        old="if job.group_id != call.group_id:",
        new="if job.group_id is None:",
        why="Jobs of other groups would be told apart from those that are not there.",
        tests=(
            "tests/product/xxl_calls/test_own_objects.py",
            "tests/product/xxl_calls/test_job_calls_security.py",
        ),
    ),
    Mistake(
        file="xwheel/wire/contract.py",
        old="for token in expected if token]",
        new="for token in expected]",
        why="A scheduler with an empty token would let in callers without one.",
        tests=(
            "tests/unit/wire/test_contract.py",
            "tests/component/api/xxl/test_executor_calls.py",
        ),
    ),
    Mistake(
        file="xwheel/wire/contract.py",
        old="base.rstrip('/')",
        new="base",
        why="Calls to Go executors would have two slashes, and be redirected.",
        tests=(
            "tests/unit/wire/test_contract.py",
            "tests/contract/test_traps_go.py",
        ),
    ),
    Mistake(
        file="xwheel/wire/contract.py",
        old='{"http": 80, "https": 443}',
        new='{"http": 80, "https": 80}',
        why="An https address without a port would be called on port 80.",
        tests=(
            "tests/unit/wire/test_contract.py",
            "tests/contract/test_traps.py",
        ),
    ),
    Mistake(
        file="xwheel/wire/contract.py",
        old="{match['host'].lower()}",
        new="{match['host']}",
        why="One executor in two spellings would count as two.",
        tests=(
            "tests/unit/wire/test_contract.py",
            "tests/contract/test_traps.py",
        ),
    ),
    Mistake(
        file="xwheel/wire/contract.py",
        old="if match is None or odd:",
        new="if match is None:",
        why="An address could have a query, or lead upwards.",
        tests=(
            "tests/unit/wire/test_contract.py",
            "tests/contract/test_traps.py",
        ),
    ),
    Mistake(
        file="xwheel/wire/codec/fields.py",
        old="if type(value) is int:",
        new="if isinstance(value, int):",
        why="true would be read as the number 1.",
        tests=(
            "tests/contract/test_wire_golden.py",
            "tests/contract/test_traps.py",
            "tests/unit/wire/test_contract.py",
        ),
    ),
    Mistake(
        file="xwheel/wire/codec/fields.py",
        old="number is None or not low <= number <= high:",
        new="number is None or not low <= number < high:",
        why="The largest number that a field may have would be refused.",
        tests=(
            "tests/contract/test_wire_golden.py",
            "tests/contract/test_traps.py",
            "tests/unit/wire/test_contract.py",
        ),
    ),
    Mistake(
        file="xwheel/wire/codec/fields.py",
        old="text = text[: limit - len(note)] + note",
        new="text = text[:limit] + note",
        why="A message that was cut would be longer than its limit.",
        tests=(
            "tests/contract/test_wire_golden.py",
            "tests/contract/test_traps.py",
            "tests/unit/wire/test_contract.py",
        ),
    ),
    Mistake(
        file="xwheel/wire/codec/fields.py",
        old="    if not isinstance(value, list) or len(value) > MAX_BATCH:",
        new="    if not isinstance(value, list):",
        why="A request could hold any number of items.",
        tests=("tests/unit/wire/test_contract.py",),
    ),
    Mistake(
        file="xwheel/wire/codec/fields.py",
        old="bad.append(BadItem(index=index, run_id=_id_or_zero(item, id_key), error=str(error)))",
        new="bad.append(BadItem(index=len(bad), run_id=_id_or_zero(item, id_key), error=str(error)))",
        why="A refused outcome would be counted by its place among the refused ones.",
        tests=(
            "tests/contract/test_wire_golden.py",
            "tests/contract/test_traps.py",
            "tests/component/api/xxl/test_executor_calls.py",
        ),
    ),
    Mistake(
        file="plugins/egress/xwheel_egress/policy.py",
        old="            raise EgressRefusedError(_refusal(target, address, kind))\n        return good",
        new="            raise EgressRefusedError(_refusal(target, address, kind))\n        return list(found)",
        why="A name with one public and one private address could be called at the private one.",
        tests=(
            "plugins/egress/tests/test_policy.py",
            "plugins/egress/tests/test_client.py",
        ),
    ),
    Mistake(
        file="plugins/egress/xwheel_egress/policy.py",
        old="        if target.literal is not None:\n            self.check_addresses",
        new="        if target.literal is not None and self.networks:\n            self.check_addresses",
        why="An address that is written in a URL would not be checked until the call.",
        tests=("plugins/egress/tests/test_policy.py",),
    ),
    Mistake(
        file="plugins/egress/xwheel_egress/policy.py",
        old="host.endswith(pattern[1:])",
        new="host.endswith(pattern[2:])",
        why="A host whose name only ends like an allowed one would be called.",
        tests=("plugins/egress/tests/test_policy.py",),
    ),
    Mistake(
        file="plugins/egress/xwheel_egress/policy.py",
        old="return range(first, last + 1)",
        new="return range(first, last)",
        why="The last port of a range would be refused.",
        tests=("plugins/egress/tests/test_policy.py",),
    ),
    Mistake(
        file="plugins/egress/xwheel_egress/policy.py",
        old="if self.only_hosts and not _matches(target.host, self.only_hosts):",
        new="if self.only_hosts and not _matches(target.host, (*self.only_hosts, *self.hosts)):",
        why="allow_hosts would let in a host that only_hosts leaves out.",
        tests=("plugins/egress/tests/test_policy.py",),
    ),
    Mistake(
        file="plugins/egress/xwheel_egress/client.py",
        old='if target.scheme == "https" and following.scheme != "https":',
        new='if target.scheme != "https" and following.scheme == "https":',
        why="A redirect could lead from https to http.",
        tests=("plugins/egress/tests/test_redirects.py",),
    ),
    Mistake(
        file="plugins/egress/xwheel_egress/client.py",
        old="        if request.body and not same:",
        new="        if request.body and same:",
        why="A redirect to another host would get the request's body.",
        tests=("plugins/egress/tests/test_redirects.py",),
    ),
    Mistake(
        file="plugins/egress/xwheel_egress/client.py",
        old="if ipaddress.ip_address(wanted.addr[0]) not in good:",
        new="if not wanted.addr[0]:",
        why="What curl connects to would not be compared with what was checked.",
        tests=(
            "plugins/egress/tests/test_client.py",
            "plugins/egress/tests/test_redirects.py",
        ),
    ),
    Mistake(
        file="plugins/egress/xwheel_egress/client.py",
        old="max(1, int((deadline - time.monotonic()) * 1000))",
        new="max(1, int(self._timeout_s * 1000))",
        why="Each redirect would have the whole time limit.",
        tests=(
            "plugins/egress/tests/test_redirects.py",
            "plugins/egress/tests/test_client.py",
        ),
    ),
    Mistake(
        file="xwheel/wire/codec/runs.py",
        old='int_in(extra_of(item), "run_id", MAX_ID)',
        new='int_in(item, "run_id", MAX_ID)',
        why="A kill of one run would kill what the job runs.",
        tests=("tests/contract/test_wire_golden.py::test_kill_and_idle_beat",),
    ),
    Mistake(
        file="xwheel/wire/codec/runs.py",
        old=("    if request.instance:\n        item[EXTRA]"),
        new=("    if request:\n        item[EXTRA]"),
        why="Executors of other makes would get fields that they do not know.",
        tests=("tests/contract/test_wire_golden.py",),
    ),
    Mistake(
        file="xwheel/wire/codec/batch.py",
        old=('        run_id=to_id("keys.0", parts[0]),\n        job_id=to_id("keys.1", parts[1]),'),
        new=('        run_id=to_id("keys.1", parts[1]),\n        job_id=to_id("keys.0", parts[0]),'),
        why="An executor would be asked about another run than the one that is meant.",
        tests=("tests/contract/test_wire_golden.py::test_states",),
    ),
    Mistake(
        file="xwheel/wire/codec/batch.py",
        old="        not_yet=item.get(NOT_YET) is True,\n",
        new="",
        why="A run that an executor cannot take now would count as refused.",
        tests=("tests/contract/test_wire_golden.py",),
    ),
    Mistake(
        file="xwheel/wire/codec/reports.py",
        old="state=state or state_of(code),",
        new="state=state_of(code),",
        why="What an executor says of the end of a run would be guessed from its code.",
        tests=("tests/contract/test_wire_golden.py::test_callbacks_are_read",),
    ),
]
