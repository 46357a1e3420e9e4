"""The plugin's options: ``[plugins.options.cluster_zookeeper]``, the same on schedulers and nodes but for ``node``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

from pydantic import Field, SecretStr
from xwheel import plugin
from xwheel.plugin import PluginOptions

from xwheel_cluster_zookeeper.model import Mode
from xwheel_cluster_zookeeper.paths import Paths

if TYPE_CHECKING:
    from xwheel import Config

PLUGIN: Final = "cluster_zookeeper"
_MODES: Final = {"master-slave": Mode.MASTER_SLAVE, "standby": Mode.STANDBY}


class MemberOptions(PluginOptions):
    """What a package node is in its cluster."""

    public = ("name", "tags")

    name: str = Field("", max_length=100, description="The node's name for good; by default the host's and the port.")
    slots: int = Field(0, ge=0, le=1_000_000, description="How many jobs it has at most; 0 for any number.")
    tags: tuple[str, ...] = Field((), max_length=50, description="What jobs may ask for.")
    on_first_node: Literal["reset", "resume"] = Field(
        "resume",
        description="What the first node of a cluster does with jobs that shall run: it stops them all, or has them.",
    )
    on_session_lost: Literal["finish", "kill"] = Field(
        "finish", description="What becomes of runs under way when the session is lost."
    )
    start_timeout_s: float = Field(
        0, ge=0, le=86_400, description="How long ZooKeeper may be away at the start; 0 for any time."
    )


class Options(PluginOptions):
    """The plugin's options."""

    public = ("hosts", "root", "user")

    hosts: str = Field(
        "",
        max_length=2000,
        description="ZooKeeper's servers, `host:port,host:port`; empty: this process is of no cluster.",
    )
    root: str = Field(
        "/xwheel", pattern=r"^(/[A-Za-z0-9._-]+)+$", max_length=200, description="Where the clusters are."
    )
    mode: Literal["master-slave", "standby"] = Field(
        "master-slave", description="Whether all nodes have jobs, or the master alone."
    )
    session_s: float = Field(
        10, ge=1, le=120, description="How long ZooKeeper keeps a silent session; its server may agree on more."
    )
    user: str = Field("", max_length=100, description="Digest user of ZooKeeper; empty for none.")
    password: SecretStr = Field(SecretStr(""), description="That user's password.")
    reconcile_s: float = Field(10, ge=0.1, le=600, description="How often a master compares all, whatever changed.")
    operation_timeout_s: float = Field(
        60, ge=1, le=86_400, description="How long an operation may wait for a node's answer."
    )
    node: MemberOptions = Field(MemberOptions(), description="What a package node is in its cluster.")

    @property
    def paths(self) -> Paths:
        """Where the cluster is."""
        return Paths(self.root, _MODES[self.mode])

    @property
    def digest(self) -> tuple[str, str] | None:
        """ZooKeeper's user and password, or None."""
        return (self.user, self.password.get_secret_value()) if self.user else None


def read_options(config: Config) -> Options:
    """Return the options, checked.

    Raises:
        ConfigError: One is not known or not acceptable; the message names it.
    """
    return plugin.read_options(config, PLUGIN, Options)
