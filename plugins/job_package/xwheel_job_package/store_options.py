"""Options of the package store: ``[plugins.options.job_package.store]``."""

from __future__ import annotations

from pydantic import Field
from xwheel.plugin import PluginOptions


class StoreOptions(PluginOptions):
    """What a scheduler node does with packages."""

    directory: str = Field(
        "",
        description="Where packages are kept, shared by all scheduler nodes; empty for no store on this node.",
    )
    group: str = Field(
        "package-nodes", description="App name of the executor group whose executors run packages."
    )
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
