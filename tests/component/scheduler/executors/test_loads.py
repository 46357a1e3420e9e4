"""How many runs each executor has in the whole cluster."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from tests.support.node import HandNode
from tests.support.rows import NOW, make_executor
from xwheel.model import RegisteredExecutor
from xwheel.plugin import RouteContext
from xwheel.scheduler.executors.loads import Loads
from xwheel.scheduler.route.choose import Chooser
from xwheel.storage import executors

FIRST, SECOND = make_executor("http://127.0.0.1:9001"), make_executor("http://127.0.0.1:9002")


def test_a_batch_is_spread_by_what_is_open_in_the_whole_cluster(node: HandNode) -> None:
    class Least:
        name = "FIRST"
        asks = False

        def route(self, context: RouteContext) -> Sequence[RegisteredExecutor]:
            return [min(context.executors, key=lambda item: context.load(item.address))]

    scheduler = node.scheduler
    pinned = node.job(enabled=False, handler="elsewhere")
    for _ in range(4):
        scheduler.management.run_now.run(pinned.id, addresses=[FIRST.address])
    node.run_for(300)
    node.answer()
    with node.db.read() as conn:
        assert executors.count_runs(conn) == {FIRST.address: 4}
    node.register(SECOND.address)
    routers = {"FIRST": Least()}
    loads = Loads(node.db, node.clock)  # as a node that sent none of them
    scheduler.routing.due.chooser = Chooser(routers, scheduler.routing.async_chooser, loads, routers)
    loads.chosen([], NOW)
    loads.step(NOW)
    job = node.job(enabled=False)
    for _ in range(8):
        scheduler.management.run_now.run(job.id)
    node.run_for(300)
    sent = Counter(shard.executor.address for parcel in node.sent for shard in parcel.shards)
    assert sent == {SECOND.address: 6, FIRST.address: 2}
