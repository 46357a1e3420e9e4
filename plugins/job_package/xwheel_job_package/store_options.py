"""Options of the package store: ``[plugins.options.job_package.store]``."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field
from xwheel.plugin import PluginOptions


class StoreOptions(PluginOptions):
    """What a scheduler node does with packages."""

    public = ("directory", "group", "trusted_keys", "scan_user", "scan_python")

    directory: str = Field(
        "", description="Where packages are kept, shared by all scheduler nodes; empty for no store on this node."
    )
    group: str = Field("package-nodes", description="App name of the executor group whose executors run packages.")
    max_upload_mb: int = Field(200, ge=1, le=4000, description="Size of a package's file.")
    max_unpacked_mb: int = Field(1024, ge=1, le=100_000, description="Size of a package's files, unpacked.")
    max_members: int = Field(20_000, ge=1, le=1_000_000, description="Files and folders of a package.")
    trusted_keys: tuple[str, ...] = Field(
        (),
        max_length=100,
        description="Public keys, `ed25519:BASE64`: only packages that one of them signed are taken in; empty for any.",
    )
    strict_scan: bool = Field(
        True, description="Refuse a package in which something that is marked as a job cannot be one."
    )
    scan_confirm: Literal["node", "console"] = Field(
        "node",
        description="Where modules with jobs are imported for the first time: `node` when a node gets ready for one of "
        "the jobs, `console` at the upload, on the scheduler's host, where the scheduler must be root for that.",
    )
    scan_user: str = Field(
        "nobody", description="Account of that process on the scheduler's host; never root, best one of its own."
    )
    scan_python: str = Field(
        "", description="Python of that process, a path that the account can read; by default the scheduler's own."
    )
    scan_timeout_s: float = Field(20, gt=0, le=600, description="Time limit of all these imports together.")
    scan_memory_mb: int = Field(1024, ge=64, le=1_000_000, description="Address space of that process.")
    scan_build_timeout_s: float = Field(
        120, gt=0, le=3600, description="Time limit of the building of the environment for it."
    )
    scan_index: Literal["none", "default"] | Annotated[str, Field(pattern="^https?://")] = Field(
        "none", description="Where that environment's dependencies may come from, as the node's option `index`."
    )
    scan_wheelhouses: tuple[str, ...] = Field(
        (), description="Folders with wheels for that environment, as the node's option `wheelhouses`."
    )
