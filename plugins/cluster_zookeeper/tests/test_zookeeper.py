"""What only a real ZooKeeper shows: lost sessions, strangers, damaged znodes."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import pytest
from conftest import OPEN_S, SESSION_S, Members
from kazoo.client import KazooClient
from kazoo.security import make_acl, make_digest_acl
from records import job, node
from tests.support.zookeeper import Servers
from xwheel.plugin import ConfigError
from xwheel_devtools.testing import wait_until
from xwheel_job_package.acceptance import set_acceptance

from xwheel_cluster_zookeeper.backend import Disconnected, Link, SessionLost
from xwheel_cluster_zookeeper.command import Membership
from xwheel_cluster_zookeeper.model import Mode
from xwheel_cluster_zookeeper.options import MemberOptions, Options
from xwheel_cluster_zookeeper.paths import Paths
from xwheel_cluster_zookeeper.zookeeper import NotAllowedError, ZooKeeperBackend


def expire(member: ZooKeeperBackend, hosts: str) -> None:
    """End a member's session at once: who closes it with its id and password does."""
    twin = KazooClient(hosts=hosts, client_id=member._client.client_id, timeout=SESSION_S)
    twin.start(timeout=OPEN_S)
    twin.stop()
    twin.close()


def test_a_lost_session_takes_node_and_leadership_and_a_new_one_begins(
    server: Servers, zookeeper_members: Members
) -> None:
    one, other = zookeeper_members(), zookeeper_members()
    joined = one.join(node("a"))
    one.offer("a")
    one.read()
    assert one.is_elected()
    expire(one, server.hosts)  # type: ignore[arg-type]
    wait_until(lambda: one.connection().session == 2)
    assert not one.is_elected()
    with pytest.raises(SessionLost):
        one.update_node(joined)
    wait_until(lambda: not other.read().nodes)
    again = one.join(node("a"))
    assert again.path > joined.path
    wait_until(lambda: list(other.read().nodes) == [again.path])


def test_what_was_missed_while_away_is_read_anew(server: Servers, zookeeper_members: Members) -> None:
    one, other = zookeeper_members(), zookeeper_members()
    other.put_job(job(1), None)
    (stored,) = one.read().jobs.values()
    expire(one, server.hosts)  # type: ignore[arg-type]
    other.put_job(job(1, op_seq=5), stored.version)
    other.put_job(job(2), None)
    wait_until(lambda: one.connection().session == 2)
    state = one.read()
    assert sorted(item.value.op_seq for item in state.jobs.values()) == [1, 5]


def test_a_digest_user_keeps_others_out(zookeeper_members: Members) -> None:
    """CLU-18: znodes carry the user's ACL; who is another gets a clear error."""
    one = zookeeper_members(user=("xwheel", "a secret"))
    one.put_job(job(1), None)
    assert len(one.read().jobs) == 1
    for stranger in (zookeeper_members(), zookeeper_members(user=("xwheel", "another"))):
        with pytest.raises(NotAllowedError, match="another user of ZooKeeper: check zookeeper_user"):
            stranger.read()
    assert len(zookeeper_members(user=("xwheel", "a secret")).read().jobs) == 1


def folder_acls(hosts: str, root: str, *users: tuple[str, str]) -> dict[str, list[Any]]:
    """Return the ACLs of all znodes of a tree, as a user sees them who may."""
    with closing(KazooClient(hosts=hosts, auth_data=[("digest", ":".join(user)) for user in users])) as client:
        client.start(timeout=OPEN_S)
        waiting, found = [Paths(root, Mode.MASTER_SLAVE).tree], {}
        while waiting:
            path = waiting.pop()
            found[path] = client.get_acls(path)[0]
            waiting += [f"{path}/{name}" for name in client.get_children(path)]
        client.stop()
    return found


def test_folders_that_were_open_are_closed_by_the_first_member_with_a_user(
    server: Servers, root: str, zookeeper_members: Members, caplog: pytest.LogCaptureFixture
) -> None:
    """S18: a cluster that gets its user later keeps nothing open: folders, jobs, the epoch, what joins is made with."""
    before = zookeeper_members()
    before.put_job(job(1), None)
    with before.init_lock(5):
        before.join(node("a"))
    user = ("xwheel", "a secret")
    assert len(zookeeper_members(user=user).read().jobs) == 1
    assert "was open to others (world:anyone)" in caplog.text
    found = folder_acls(server.hosts, root, user)
    tree = Paths(root, Mode.MASTER_SLAVE)
    assert {tree.tree, tree.of("jobs", job(1).key), tree.of("leaderEpoch"), tree.of("initLock")} <= found.keys()
    assert {one.id for acls in found.values() for one in acls} == {make_digest_acl(*user, all=True).id}
    with pytest.raises(NotAllowedError):
        zookeeper_members().read()


@pytest.mark.parametrize("what", ["", "jobs", "leaderEpoch"])
def test_a_folder_of_others_that_cannot_be_mended_is_refused(
    server: Servers, root: str, zookeeper_members: Members, what: str
) -> None:
    """S18: of somebody who keeps the right to change it, and lets all others write: the message says how to mend it."""
    user, other = ("xwheel", "a secret"), ("stranger", "another")
    assert zookeeper_members(user=user).read().jobs == {}
    tree = Paths(root, Mode.MASTER_SLAVE)
    path = tree.of(what) if what else tree.tree
    open_to_all = make_acl("world", "anyone", read=True, write=True, create=True, delete=True)
    with closing(KazooClient(hosts=server.hosts, auth_data=[("digest", ":".join(user))])) as client:
        client.start(timeout=OPEN_S)
        client.set_acls(path, [make_digest_acl(*other, all=True), open_to_all])
        client.stop()
    with pytest.raises(NotAllowedError, match=r"is open to others .*setAcl -R .* or name another root") as caught:
        zookeeper_members(user=user).read()
    assert str(caught.value).startswith(path)
    # a monitor that may read, and nothing else, is none of them
    with closing(KazooClient(hosts=server.hosts, auth_data=[("digest", ":".join(other))])) as client:
        client.start(timeout=OPEN_S)
        client.set_acls(path, [make_digest_acl(*user, all=True), make_digest_acl(*other, read=True)])
        client.stop()
    assert zookeeper_members(user=user).read().jobs == {}


def test_a_node_does_not_start_on_an_open_tree(server: Servers, root: str, zookeeper_members: Members) -> None:
    """S18: it is said at the start, as an error of the settings."""
    zookeeper_members(user=("stranger", "another")).read()
    options = Options(hosts=server.hosts, root=root, user="xwheel", password="a secret")  # type: ignore[arg-type]
    options = options.model_copy(update={"node": MemberOptions(start_timeout_s=OPEN_S)})
    with pytest.raises(ConfigError, match="is of another user of ZooKeeper"):
        Membership(options, None, "package-nodes").start("http://127.0.0.1:1")  # type: ignore[arg-type]
    set_acceptance(None)


def test_a_damaged_znode_is_named_and_harms_nothing_else(
    server: Servers, root: str, zookeeper_members: Members, caplog: pytest.LogCaptureFixture
) -> None:
    one = zookeeper_members()
    one.put_job(job(1), None)
    one.put_job(job(2), None)
    assert len(one.read().jobs) == 2
    client = KazooClient(hosts=server.hosts)
    client.start()
    tree = Paths(root, Mode.MASTER_SLAVE)
    client.set(tree.of("jobs", job(2).key), b'{"jobId": "two"}')
    client.create(tree.of("jobs", "3-x"), b"\xff")
    client.stop()
    client.close()
    wait_until(lambda: "3-x is left out" in caplog.text or not one.read())
    # what was known before goes on
    assert sorted(one.read().jobs) == [job(1).key, job(2).key]
    assert "jobId cannot be 'two'" in caplog.text


def test_standby_and_master_slave_are_two_trees(zookeeper_members: Members) -> None:
    one, other = zookeeper_members(), zookeeper_members(mode=Mode.STANDBY)
    one.put_job(job(1), None)
    assert other.read().jobs == {}


def test_a_server_that_is_not_there_is_waited_for(root: str) -> None:
    from tests.support.ports import free_port

    member = ZooKeeperBackend(f"127.0.0.1:{free_port()}", Paths(root, Mode.MASTER_SLAVE), session_s=SESSION_S)
    try:
        assert not member.open(0.3)
        assert member.connection().link is Link.LOST
        with pytest.raises((Disconnected, SessionLost)):
            member.read()
    finally:
        member.close()
