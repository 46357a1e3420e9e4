"""Mistakes in a cluster of package nodes: who decides, who has a job, and what is believed of others."""

from __future__ import annotations

from typing import Final

from tests.mutants import Mistake

MISTAKES: Final = [
    Mistake(
        file="xwheel/scheduler/executors/registry.py",
        old="if there is not None and proof < _proof_of(there):",
        new="if there is not None and proof is None:",
        why="Who holds the token that all share takes over an executor of a group with a secret (S19).",
        tests=("tests/component/api/xxl/test_entered_addresses.py",),
    ),
    Mistake(
        file="xwheel/scheduler/executors/registry.py",
        old="not was_there and self.secrets.has_live(facts.group_id)",
        new="not was_there and False",
        why="A stranger's server joins a group that has a secret, with the token that all share (S20).",
        tests=("tests/component/api/xxl/test_entered_addresses.py",),
    ),
    Mistake(
        file="xwheel/scheduler/executors/registry.py",
        old="was_there = there is not None and there.instance == facts.instance",
        new="was_there = there is not None",
        why="At the address of an executor that was there before the secret another one comes without it (S20).",
        tests=("tests/component/api/xxl/test_entered_addresses.py",),
    ),
    Mistake(
        file="plugins/cluster_zookeeper/xwheel_cluster_zookeeper/master.py",
        old="or self.load[node.path] < node.slots]",
        new="or self.load[node.path] <= node.slots]",
        why="A node would get one job more than it has places.",
        tests=("plugins/cluster_zookeeper/tests/test_master.py",),
    ),
    Mistake(
        file="plugins/cluster_zookeeper/xwheel_cluster_zookeeper/master.py",
        old="return min(preferred or free, key",
        new="return min(preferred, key",
        why="A job that failed on its only node would never be tried again.",
        tests=("plugins/cluster_zookeeper/tests/test_master.py",),
    ),
    Mistake(
        file="plugins/cluster_zookeeper/xwheel_cluster_zookeeper/master.py",
        old="self.load[path] - self.load[best.path] < 2 else",
        new="self.load[path] - self.load[best.path] < 1 else",
        why="Jobs would move back and forth between nodes with loads that differ by one.",
        tests=("plugins/cluster_zookeeper/tests/test_master.py",),
    ),
    Mistake(
        file="plugins/cluster_zookeeper/xwheel_cluster_zookeeper/master.py",
        old="for name in sorted(newest) if name not in drained]",
        new="for name in sorted(newest)]",
        why="A drained node would be given jobs.",
        tests=("plugins/cluster_zookeeper/tests/test_master.py",),
    ),
    Mistake(
        file="plugins/cluster_zookeeper/xwheel_cluster_zookeeper/master.py",
        old=(
            "is_said = (\n"
            "            status is not None\n"
            "            and status.op_seq >= job.op_seq\n"
            "            and status.job_state"
        ),
        new="is_said = (\n            status is not None\n            and status.job_state",
        why="The end of an earlier stop would count as that of this one.",
        tests=("plugins/cluster_zookeeper/tests/test_master.py",),
    ),
    Mistake(
        file="plugins/cluster_zookeeper/xwheel_cluster_zookeeper/master.py",
        old="and not is_said and self._lives(before.value):",
        new="and not is_said:",
        why="A stop would wait for ever for a node that died.",
        tests=("plugins/cluster_zookeeper/tests/test_master.py",),
    ),
    Mistake(
        file="plugins/cluster_zookeeper/xwheel_cluster_zookeeper/master.py",
        old="status.result is Result.RETRYING and status.attempt > len",
        new="status.result is Result.RETRYING and status.attempt >= len",
        why="The last retry of a job would be left out when its node was lost.",
        tests=("plugins/cluster_zookeeper/tests/test_master.py",),
    ),
    Mistake(
        file="plugins/cluster_zookeeper/xwheel_cluster_zookeeper/master.py",
        old=("same = (status.op_seq, status.attempt, status.node_id) == (item.op_seq, item.attempt, item.node_id)"),
        new="same = (status.op_seq, status.node_id) == (item.op_seq, item.node_id)",
        why="The failure of an earlier attempt would count as that of this one.",
        tests=(
            "plugins/cluster_zookeeper/tests/test_master.py",
            "plugins/cluster_zookeeper/tests/test_master_properties.py",
        ),
    ),
    Mistake(
        file="plugins/cluster_zookeeper/xwheel_cluster_zookeeper/master.py",
        old="status.result is Result.EXECUTING and status.node_id == item.node_id",
        new="status.result is Result.EXECUTING",
        why="What another node said of a job would count as its new node's attempt.",
        tests=(
            "plugins/cluster_zookeeper/tests/test_master.py",
            "plugins/cluster_zookeeper/tests/test_master_properties.py",
        ),
    ),
    Mistake(
        file="plugins/cluster_zookeeper/xwheel_cluster_zookeeper/master.py",
        old="epoch=self._epoch, attempt=1, excluded=()",
        new="attempt=1, excluded=()",
        why="A job would be moved under the epoch of the master that gave it out first.",
        tests=(
            "plugins/cluster_zookeeper/tests/test_master.py",
            "plugins/cluster_zookeeper/tests/test_master_properties.py",
        ),
    ),
    Mistake(
        file="plugins/cluster_zookeeper/xwheel_cluster_zookeeper/master.py",
        old="not_before_ms=self._now_ms + waits,",
        new="not_before_ms=waits,",
        why="Retries would come without their pause.",
        tests=("plugins/cluster_zookeeper/tests/test_master.py",),
    ),
    Mistake(
        file="plugins/cluster_zookeeper/xwheel_cluster_zookeeper/master.py",
        old="                self._nodes.move(item.node_path, better.path)\n                changed",
        new="                changed",
        why="All jobs that are marked would move to one node.",
        tests=("plugins/cluster_zookeeper/tests/test_master.py",),
    ),
    Mistake(
        file="plugins/cluster_zookeeper/xwheel_cluster_zookeeper/master.py",
        old="if name == state.epoch.value.node_id}",
        new="if name}",
        why="In a standby cluster backups would get jobs.",
        tests=("plugins/cluster_zookeeper/tests/test_master.py",),
    ),
    Mistake(
        file="plugins/cluster_zookeeper/xwheel_cluster_zookeeper/node.py",
        old='        if self._is_draining:\n            return "this node is being',
        new=('        if self._is_draining and job_id not in self._by_id:\n            return "this node is being'),
        why="A node that is being stopped would take runs.",
        tests=("plugins/cluster_zookeeper/tests/test_node.py",),
    ),
    Mistake(
        file="plugins/cluster_zookeeper/xwheel_cluster_zookeeper/node.py",
        old="if self._me is None or connection.session != self._session or connection.link",
        new="if self._me is None or connection.link",
        why="A node would run jobs of a session that has ended.",
        tests=("plugins/cluster_zookeeper/tests/test_node.py",),
    ),
    Mistake(
        file="plugins/cluster_zookeeper/xwheel_cluster_zookeeper/node.py",
        old="3 * silent_ms >= 2 * connection.timeout_ms:",
        new="silent_ms >= 2 * connection.timeout_ms:",
        why="A node that is cut off would take runs beyond the end of its session.",
        tests=("plugins/cluster_zookeeper/tests/test_node.py",),
    ),
    Mistake(
        file="plugins/cluster_zookeeper/xwheel_cluster_zookeeper/node.py",
        old="elif assignment.op_seq == stored_job.value.op_seq:",
        new="elif assignment.op_seq <= stored_job.value.op_seq:",
        why="A node would say that an operation is done before its master decided about it.",
        tests=("plugins/cluster_zookeeper/tests/test_node.py",),
    ),
    Mistake(
        file="plugins/cluster_zookeeper/xwheel_cluster_zookeeper/node.py",
        old="if item.epoch < last:",
        new="if item.epoch > last + 1:",
        why="Decisions of a master that was replaced would be followed.",
        tests=("plugins/cluster_zookeeper/tests/test_node.py",),
    ),
    Mistake(
        file="plugins/cluster_zookeeper/xwheel_cluster_zookeeper/node.py",
        old="        except Conflict:\n            return  # its last owner's session has not ended yet\n",
        new='        except Conflict:\n            logger.info("%s has an owner still", job.key)\n',
        why="Two nodes would run a job while the session of the first one lasts.",
        tests=("plugins/cluster_zookeeper/tests/test_node.py",),
    ),
    Mistake(
        file="plugins/cluster_zookeeper/xwheel_cluster_zookeeper/node.py",
        old="        self._backend.disown(key)\n",
        new="",
        why="A job that was moved away could not be taken by its next node.",
        tests=("plugins/cluster_zookeeper/tests/test_node.py",),
    ),
    Mistake(
        file="plugins/cluster_zookeeper/xwheel_cluster_zookeeper/node.py",
        old="if stored.value.node_path == self._me.path and self._is_current",
        new="if stored.value.node_id == self._me.node_id and self._is_current",
        why="A node that came back would take what was given to its earlier session.",
        tests=(
            "plugins/cluster_zookeeper/tests/test_node.py::test_a_node_that_came_back_does_not_take_what_its_earlier_session_had",
        ),
    ),
    Mistake(
        file="plugins/cluster_zookeeper/xwheel_cluster_zookeeper/node.py",
        old=(
            '        if self._me.path not in state.nodes:\n            raise SessionLost(f"{self._me.path} is gone")\n'
        ),
        new="",
        why="A node whose registration is gone would go on as a member.",
        tests=("plugins/cluster_zookeeper/tests/test_node.py::test_a_node_whose_registration_is_gone_joins_anew",),
    ),
    Mistake(
        file="plugins/cluster_zookeeper/xwheel_cluster_zookeeper/router.py",
        old="for item in context.trusted if item.address",
        new="for item in context.executors if item.address",
        why="A run by hand would go to a suspect while others are well.",
        tests=("plugins/cluster_zookeeper/tests/test_router.py",),
    ),
    Mistake(
        file="plugins/cluster_zookeeper/xwheel_cluster_zookeeper/codec.py",
        old="        if type(value) is not kind:\n",
        new="        if not isinstance(value, kind):\n",
        why="A znode that says true for a number would be read as 1.",
        tests=("plugins/cluster_zookeeper/tests/test_codec.py",),
    ),
    Mistake(
        file="plugins/cluster_zookeeper/xwheel_cluster_zookeeper/mirror.py",
        old="            record = replace(record, more=known.value.more)\n",
        new="            record = replace(record)\n",
        why="What a later version added to a record would be lost.",
        tests=("plugins/cluster_zookeeper/tests/test_mirror.py::test_what_a_later_version_added_to_a_record_stays",),
    ),
    Mistake(
        file="plugins/cluster_zookeeper/xwheel_cluster_zookeeper/node.py",
        old=("        if now_ms < item.not_before_ms:\n            return\n"),
        new="",
        why="A node would try again before the pause is over.",
        tests=("plugins/cluster_zookeeper/tests/test_node.py",),
    ),
    Mistake(
        file="plugins/cluster_zookeeper/xwheel_cluster_zookeeper/mirror.py",
        old='known.value.op_seq >= row["version"]:',
        new='known.value.op_seq > row["version"]:',
        why="Each step would write all records once more.",
        tests=("plugins/cluster_zookeeper/tests/test_mirror.py::test_no_answer_in_time_and_a_late_one",),
    ),
    Mistake(
        file="plugins/cluster_zookeeper/xwheel_cluster_zookeeper/mirror.py",
        old=("if known is None or known.value.operation_id != number:\n            return"),
        new=("if known is None:\n            return"),
        why="The result of an earlier operation would close one that is not brought to nodes.",
        tests=("plugins/cluster_zookeeper/tests/test_mirror.py::test_the_time_counts_from_the_delivery",),
    ),
    Mistake(
        file="plugins/cluster_zookeeper/xwheel_cluster_zookeeper/mirror.py",
        old="return stored.value if stored is not None and stored.value.op_seq >= version else None",
        new="return stored.value if stored is not None else None",
        why="The status of the operation before would close this one.",
        tests=("plugins/cluster_zookeeper/tests/test_mirror.py::test_the_time_counts_from_the_delivery",),
    ),
    Mistake(
        file="plugins/cluster_zookeeper/xwheel_cluster_zookeeper/mirror.py",
        old='        if row["version"] > version:\n',
        new='        if row["version"] >= version:\n',
        why="Each operation would be closed as superseded.",
        tests=("plugins/cluster_zookeeper/tests/test_mirror.py::test_start_reaches_a_node_and_is_settled",),
    ),
    Mistake(
        file="plugins/cluster_zookeeper/xwheel_cluster_zookeeper/mirror.py",
        old="            self._site.executors.note_death(address)\n",
        new="",
        why="Runs of a node that is gone would wait for the time limit of executors.",
        tests=("plugins/cluster_zookeeper/tests/test_mirror.py::test_nodes_that_vanish_are_seen_dead",),
    ),
    Mistake(
        file="plugins/cluster_zookeeper/xwheel_cluster_zookeeper/mirror.py",
        old=(
            '        if known is None and row["state"] != "Startup" and operation is None:\n            return False\n'
        ),
        new="",
        why="Jobs that were never started would fill the cluster's store.",
        tests=("plugins/cluster_zookeeper/tests/test_mirror.py::test_an_upload_alone_writes_nothing",),
    ),
    Mistake(
        file="plugins/cluster_zookeeper/xwheel_cluster_zookeeper/router.py",
        old=("        if not place.is_taken:\n            raise"),
        new=("        if place.assignment is None:\n            raise"),
        why="A run would go to a node that does not have the job ready.",
        tests=("plugins/cluster_zookeeper/tests/test_router.py",),
    ),
    Mistake(
        file="plugins/cluster_zookeeper/xwheel_cluster_zookeeper/router.py",
        old="for node in self._view.nodes(tag)}",
        new='for node in self._view.nodes("")}',
        why="A run by hand would go to a node without the job's tag.",
        tests=("plugins/cluster_zookeeper/tests/test_router.py",),
    ),
    Mistake(
        file="plugins/cluster_zookeeper/xwheel_cluster_zookeeper/codec.py",
        old='text.encode(errors="replace")[:most].decode(errors="ignore")',
        new="text[:most]",
        why="An error of Chinese text could be larger than a znode.",
        tests=(
            "plugins/cluster_zookeeper/tests/test_backends.py::test_statuses_are_written_at_the_version_that_was_read",
        ),
    ),
    Mistake(
        file="plugins/cluster_zookeeper/xwheel_cluster_zookeeper/codec.py",
        old="return kind(**values, more=found)",
        new="return kind(**values)",
        why="What a later version added to a znode would be lost by the next write.",
        tests=("plugins/cluster_zookeeper/tests/test_backends.py::test_nodes_come_change_and_go_with_their_session",),
    ),
]
