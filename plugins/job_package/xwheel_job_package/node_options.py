"""Options of package nodes: ``[plugins.options.job_package.node]``."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field
from xwheel.plugin import PluginOptions

Limit = Annotated[int, Field(ge=1, le=2**31)] | None


class WorkerLimits(PluginOptions):
    """Limits of each process of a job; what is missing is unlimited."""

    memory_mb: Limit = Field(None, description="Address space.")
    file_mb: Limit = Field(None, description="Size of a file that it writes.")
    open_files: Limit = Field(None, description="Files open at once.")
    processes: Limit = Field(None, description="Processes, counted over the whole account.")


class NodeOptions(PluginOptions):
    """What an executor does with packages."""

    public = ("directory", "store_addresses", "python", "trusted_keys")

    directory: str = Field(
        "", description="Where packages and environments are kept; by default `packages` in the executor's `data_dir`."
    )
    store_addresses: tuple[str, ...] = Field(
        (), description="Base URLs of package stores, tried in order; by default the executor's `admin_addresses`."
    )
    download_timeout_s: float = Field(
        300, gt=0, le=86_400, description="How long a run tries to get its package while no store answers."
    )
    max_package_mb: int = Field(200, ge=1, le=100_000, description="Size of a package's file.")
    max_unpacked_mb: int = Field(
        1024, ge=1, le=100_000, description="Size of a package's files, unpacked; as the store's option."
    )
    max_members: int = Field(
        20_000, ge=1, le=1_000_000, description="Files and folders of a package; as the store's option."
    )
    installer: Literal["pip", "uv"] = Field(
        "pip", description="What installs packages: this executor's own pip, or the program `uv`."
    )
    python: str = Field("", description="Python of the environments, a path; by default the executor's own.")
    index: Literal["none", "default"] | Annotated[str, Field(pattern="^https?://")] = Field(
        "none",
        description="Where dependencies may come from besides the package and `wheelhouses`: `none`, `default` for the "
        "installer's own setting, or an index's URL. With `none` the installer makes no connection.",
    )
    wheelhouses: tuple[str, ...] = Field((), description="Folders with wheels that packages may depend on.")
    allow_sdist_build: bool = Field(
        False, description="Build source distributions on this node; building runs their code."
    )
    env_build_timeout_s: float = Field(300, gt=0, le=86_400, description="Time limit of an environment's building.")
    env_keep_days: float = Field(
        7, gt=0, le=3650, description="Environments and packages that no run used for this long are deleted."
    )
    trusted_keys: tuple[str, ...] = Field(
        (),
        max_length=100,
        description="Public keys, `ed25519:BASE64`: only packages that one of them signed are fetched and run; "
        "empty for any.",
    )
    max_workers: int = Field(
        64, ge=1, le=4096, description="Processes at once, those included that wait for the next run of their package."
    )
    idle_worker_s: float = Field(
        300, ge=0, le=86_400, description="How long a process waits for the next run; 0 ends it after each run."
    )
    start_timeout_s: float = Field(30, gt=0, le=600, description="Time limit of a process's start.")
    bean_fallback: bool = Field(
        False, description="Where a package's bean factory fails, use an object made without it."
    )
    limits: WorkerLimits = Field(WorkerLimits(), description="Limits of each process of a job.")
