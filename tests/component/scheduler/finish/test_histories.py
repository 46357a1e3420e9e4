"""R33: whatever comes late, twice, in one message or after a recovery is written, and brings each child once."""

from __future__ import annotations

from typing import Final

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.node import HandNode
from xwheel.model import ChildLink, JoinMode, Origin, Run, RunState
from xwheel.scheduler.records import Outcome

ENDS: Final = [RunState.SUCCEEDED, RunState.SUCCEEDED, RunState.FAILED, RunState.TIMED_OUT, RunState.LOST]
PARENTS: Final = st.lists(
    st.fixed_dictionaries(
        {
            "recover_lost": st.booleans(),
            "max_retries": st.integers(0, 2),
            "retry_delay_ms": st.sampled_from([0, 0, 60_000]),
        }
    ),
    min_size=2,
    max_size=3,
)
MESSAGES: Final = st.lists(
    st.lists(st.tuples(st.integers(0, 30), st.sampled_from(ENDS)), min_size=1, max_size=4), max_size=12
)


class Family:
    """Jobs in a chain: ``top``, then ``parents``; ``join`` waits for all parents, ``each`` runs after each of them."""

    def __init__(self, node: HandNode, parents: list[dict[str, int]]) -> None:
        self.node = node
        self.top, self.join, self.each = self._job(), self._job(join_mode=JoinMode.ALL), self._job()
        self.parents = [self._job(**fields) for fields in parents]
        self._link(self.top, *self.parents)
        for parent in self.parents:
            self._link(parent, self.join, self.each)
        self.sent: list[Run] = []

    def _job(self, **fields: object) -> int:
        return self.node.job(schedule_type="NONE", schedule_conf="", enabled=False, **fields).id

    def _link(self, parent: int, *children: int) -> None:
        links = [ChildLink(parent_id=parent, child_id=child, param=None) for child in children]
        self.node.scheduler.management.dependencies.set_children(parent, links)

    def send(self) -> None:
        """Let executors get what is due."""
        self.node.run_for(400)
        self.sent += self.node.answer()

    def report(self, ends: list[tuple[Run, RunState]]) -> None:
        """Tell outcomes in one message."""
        told = [Outcome(run_id=run.id, state=state, code=200, message="") for run, state in ends]
        self.node.scheduler.finishing.finisher.finish(told)

    def has_succeeded(self, parent: int) -> bool:
        """Return whether an attempt of a parent succeeded."""
        return any(run.state is RunState.SUCCEEDED for run in self.node.runs(parent))

    def check(self) -> None:
        """Fail unless each child is there as often as it should be."""
        done = [parent for parent in self.parents if self.has_succeeded(parent)]
        children = [run for run in self.node.runs(self.each) if run.origin is Origin.CHILD]
        assert len(children) == len(done)
        assert len({run.origin_key for run in children}) == len(children)
        joins = [run for run in self.node.runs(self.join) if run.origin is Origin.CHILD]
        assert len(joins) == (len(done) == len(self.parents))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(parents=PARENTS, messages=MESSAGES)
def test_any_history_is_written_and_brings_each_child_once(
    node: HandNode, parents: list[dict[str, int]], messages: list[list[tuple[int, RunState]]]
) -> None:
    family = Family(node, parents)
    node.scheduler.management.run_now.run(family.top)
    family.send()
    family.report([(family.sent.pop(), RunState.SUCCEEDED)])
    family.send()
    for message in messages:
        family.report([(family.sent[place % len(family.sent)], state) for place, state in message])
        family.send()
    for _ in range(8):  # retries wait for a minute, and each has few
        node.run_for(61_000, step_ms=20_000)
        family.send()
        family.report([(run, RunState.SUCCEEDED) for run in family.sent])
    family.check()
