"""``xwheel node``: an executor for jobs of packages that is a member of a cluster."""

from __future__ import annotations

import logging
import os
import platform
import socket
import threading
import time
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, Final
from urllib.parse import urlsplit

import typer
from xwheel import Config
from xwheel.executor import Executor
from xwheel.plugin import CommandSite, ConfigError
from xwheel_job_package import PackageGlue, set_acceptance
from xwheel_job_package.failures import Cancel
from xwheel_job_package.options import read_options as package_options
from xwheel_job_package.reference import PackageReference

from xwheel_cluster_zookeeper.backend import Conflict, Disconnected, NotAllowedError, SessionLost
from xwheel_cluster_zookeeper.master import MasterSettings
from xwheel_cluster_zookeeper.model import NodeRecord, Role
from xwheel_cluster_zookeeper.node import ClusterNode, NodeSettings
from xwheel_cluster_zookeeper.options import Options, read_options
from xwheel_cluster_zookeeper.preparations import Preparations
from xwheel_cluster_zookeeper.zookeeper import ZooKeeperBackend

logger = logging.getLogger(__name__)

PACKAGE: Final = "PACKAGE"
LEAVE_S: Final = 10.0
REFUSED_S: Final = 30.0

app = typer.Typer(add_completion=False)


class Membership:
    """A node's thread in its cluster, next to the executor.

    Args:
        options: The plugin's options.
        glue: Has the packages.
        app_name: The executor's group.
        on_lost: Called when the session was lost.
    """

    def __init__(self, options: Options, glue: PackageGlue, app_name: str, on_lost: Any = lambda: None) -> None:
        self._options = options
        self._app_name = app_name
        self._glue = glue
        self._on_lost = on_lost
        self._backend = ZooKeeperBackend(options.hosts, options.paths, session_s=options.session_s, user=options.digest)
        self._preparations = Preparations(self._prepare)
        self._stopping = threading.Event()
        self._node: ClusterNode | None = None
        self._thread = threading.Thread(target=self._loop, name="xwheel-cluster", daemon=True)

    def start(self, address: str) -> None:
        """Connect, and take part from now on.

        Raises:
            ConfigError: ZooKeeper was away for longer than it may be.
        """
        options = self._options
        settings = NodeSettings(
            me=_record(options, address, self._app_name),
            master=MasterSettings(mode=options.paths.mode),
            reconcile_ms=round(options.reconcile_s * 1000),
            is_reset=options.node.on_first_node == "reset",
            hosts=options.hosts,
        )
        self._node = ClusterNode(self._backend, settings, self._preparations, _monotonic_ms, self._on_lost)
        set_acceptance(self._node, is_for_now=True)
        limit_s = options.node.start_timeout_s
        if not self._backend.open(limit_s) and limit_s:
            self._backend.close()
            raise ConfigError(
                f"ZooKeeper at {options.hosts} did not answer within {limit_s:g} s, as "
                "plugins.options.cluster_zookeeper.node.start_timeout_s allows"
            )
        self._check()
        self._thread.start()

    def _check(self) -> None:
        """Refuse a store that is open to others, or another's, if it is there already; the loop does so later."""
        try:
            self._backend.read()
        except NotAllowedError as error:
            self._backend.close()
            set_acceptance(None)
            raise ConfigError(str(error)) from None
        except (Conflict, Disconnected, SessionLost):
            return

    def drain(self) -> None:
        """Take no run any more."""
        if self._node is not None:
            self._node.drain()

    def end(self) -> None:
        """Leave, so that others get the jobs at once."""
        self._stopping.set()
        if self._thread.ident is not None:
            self._thread.join(LEAVE_S)
        self._backend.close()
        set_acceptance(None)

    def _prepare(self, source: str, cancel: Cancel) -> None:
        reference = PackageReference.parse(source)
        self._glue.host.make_ready(reference, cancel, lambda text: logger.debug("%s", text.rstrip()))

    def _loop(self) -> None:
        node = self._node
        assert node is not None  # noqa: S101 -- the thread starts with it
        while not self._stopping.is_set():
            try:
                node.step(time.time_ns() // 1_000_000)
                node.wait()
            except NotAllowedError as error:  # people have to mend it, and it goes on then
                logger.error("this node has no job: %s", error)
                self._stopping.wait(REFUSED_S)
            except Exception:  # the next step may do better
                logger.exception("a step of the cluster's node failed")
                self._stopping.wait(1)
        node.leave()


class NodeExecutor(Executor):
    """An executor that is a member of a cluster from its start to its end.

    Args:
        config: The settings.

    Raises:
        ConfigError: One is missing or not allowed.
    """

    def __init__(self, config: Config) -> None:
        options = read_options(config)
        if not options.hosts:
            raise ConfigError("plugins.options.cluster_zookeeper.hosts is missing: where ZooKeeper is")
        if PACKAGE not in config.executor.allowed_glue_types:
            raise ConfigError(f"executor.allowed_glue_types must name {PACKAGE}: a node runs jobs of packages")
        glue = PackageGlue(package_options(config).node)
        super().__init__(config, glue_types={PACKAGE: glue})
        self._membership = Membership(options, glue, config.executor.app_name)

    def start(self) -> None:
        """Start the executor, then join the cluster."""
        super().start()
        try:
            self._membership.start(self.address)
        except BaseException:
            super().stop(0)
            raise

    def stop(self, timeout_s: float | None = None) -> bool:
        """Take no run any more, let those that are here finish, then leave the cluster."""
        self._membership.drain()
        try:
            return super().stop(timeout_s)
        finally:
            self._membership.end()


@app.command("node")
def node(
    context: typer.Context,
    config_path: Annotated[
        Path | None, typer.Option("--config", help="The settings' file; XWHEEL_CONFIG otherwise.")
    ] = None,
) -> None:
    """Run a node of a package cluster until SIGTERM, SIGHUP or Ctrl-C, then drain and leave."""
    site: CommandSite = context.obj
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    logging.getLogger("kazoo").setLevel(logging.ERROR)
    raise typer.Exit(0 if NodeExecutor(site.config(config_path)).run_forever() else 1)


def _record(options: Options, address: str, app_name: str) -> NodeRecord:
    host = socket.gethostname()
    return NodeRecord(
        path="",
        node_id=options.node.name or f"{host}:{urlsplit(address).port or 0}",
        host=host,
        address=address.rstrip("/"),
        pid=os.getpid(),
        role=Role.SLAVE,
        slots=options.node.slots,
        tags=tuple(options.node.tags),
        app_name=app_name,
        xwheel_version=version("xwheel"),
        python_version=platform.python_version(),
        started_ms=time.time_ns() // 1_000_000,
    )


def _monotonic_ms() -> int:
    return time.monotonic_ns() // 1_000_000
