"""Package nodes as processes on a real ZooKeeper: killed, frozen, without a server."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import Members
from site_of_cluster import SESSION_S, ClusterSite
from tests.support.zookeeper import Servers, zookeeper
from xwheel_devtools.testing import wait_until

from xwheel_cluster_zookeeper.backend import Conflict, Link


def test_nodes_join_elect_one_and_the_next_when_it_is_killed(tmp_path: Path, server: Servers, root: str) -> None:
    """CLU-4, CLU-5, CLU-8, CLU-10, CLU-11: one master, the next when it is frozen or killed; who stops is gone."""
    # sessions long enough that no one who is only slow is taken for dead, which would elect once more
    with ClusterSite(tmp_path, server, root, session_s=6) as site:
        site.add("anna", "bert", "carl")

        # another one is elected for a frozen master, which joins again when it thaws and changes nothing
        frozen = wait_until(site.master)
        epoch = site.state.epoch.value.number
        site.nodes[frozen].freeze()
        wait_until(lambda: site.master() not in {"", frozen})
        taken = site.state.epoch
        assert taken.value.number == epoch + 1
        site.nodes[frozen].thaw()
        wait_until(lambda: len(site.state.nodes) == 3)
        roles = {item.node_id: item.role for item in site.state.nodes.values()}
        assert roles[frozen] == "Slave"
        assert site.state.epoch == taken

        master = site.master()
        site.kill(master)
        wait_until(lambda: site.master() not in {"", master})
        assert site.state.epoch.value.number == epoch + 2
        left = next(name for name in site.nodes if name != site.master())
        node = site.nodes.pop(left)
        node.signal(signal.SIGTERM)
        assert node._child.wait(60) == 0
        # it took its registration away before it ended: no one waits for the end of its session
        assert left not in {item.node_id for item in site.state.nodes.values()}


def test_the_next_joins_when_the_one_that_holds_the_lock_dies(
    server: Servers, root: str, zookeeper_members: Members
) -> None:
    """CLU-3: once the session of the dead one is over."""
    watcher = zookeeper_members()
    script = (
        "import sys, time; from xwheel_cluster_zookeeper.zookeeper import ZooKeeperBackend as Z;"
        "from xwheel_cluster_zookeeper.paths import Paths; from xwheel_cluster_zookeeper.model import Mode;"
        f"b = Z({server.hosts!r}, Paths({root!r}, Mode.MASTER_SLAVE), session_s={SESSION_S}); b.open(20);"
        "l = b.init_lock(5); l.__enter__(); print('held', flush=True); time.sleep(600)"
    )
    holder = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE)
    assert holder.stdout is not None
    assert holder.stdout.readline() == b"held\n"
    with pytest.raises(Conflict), watcher.init_lock(0.2):
        raise AssertionError("two hold it")
    holder.kill()
    holder.wait()
    holder.stdout.close()
    with watcher.init_lock(60):
        pass


def test_a_node_waits_for_a_server_that_is_not_there_yet(tmp_path: Path, root: str) -> None:
    """CLU-14: it says where it waits, and joins by itself; with a limit it ends instead."""
    with zookeeper() as servers, ClusterSite(tmp_path, servers, root) as site:
        servers.members[0].stop()
        wait_until(lambda: site.watcher.connection().link is not Link.CONNECTED)
        node = site.start("anna")
        node.find(f"waiting for ZooKeeper at ({servers.hosts})")
        limited = site.start("bert", start_timeout_s=0.5)
        assert limited._child.wait(30) == 2
        assert "did not answer within 0.5 s" in limited.output.read_text()
        del site.nodes["bert"]
        servers.members[0].start()
        wait_until(lambda: site.watcher.connection().link is Link.CONNECTED)
        wait_until(lambda: site.master() == "anna")
