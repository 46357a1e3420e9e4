"""Jobs that are uploaded as packages: the store, and the nodes that run them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from xwheel.plugin import hookimpl

from xwheel_job_package.acceptance import Acceptance, set_acceptance
from xwheel_job_package.distribution import Distribution, set_distribution
from xwheel_job_package.glue import PackageGlue
from xwheel_job_package.options import read_options

if TYPE_CHECKING:
    from xwheel import Config
    from xwheel.plugin import Commands, Pages, Routes, Tables

__all__ = [
    "Acceptance",
    "Distribution",
    "PackageGlue",
    "set_acceptance",
    "set_distribution",
    "xwheel_register_commands",
    "xwheel_register_glue_types",
    "xwheel_register_pages",
    "xwheel_register_routes",
    "xwheel_register_tables",
]


class PackageCommands:
    """``xwheel package ...``."""

    name = "package"
    help = "Check and upload packages of jobs; start, pause and restart their jobs."
    module = "xwheel_job_package.command"
    is_one = False


class LocalCommand:
    """``xwheel local``."""

    name = "local"
    help = "Fire the jobs of packages that can be imported, in this process, until Ctrl-C."
    module = "xwheel_job_package.local_command"
    is_one = True


@hookimpl
def xwheel_register_commands() -> Iterable[Commands]:
    """Register ``xwheel package`` and ``xwheel local``."""
    return [PackageCommands(), LocalCommand()]


@hookimpl
def xwheel_register_glue_types(config: Config) -> Iterable[PackageGlue]:
    """Register the glue type ``PACKAGE``."""
    options = read_options(config)
    return [PackageGlue(options.node, has_store=bool(options.store.directory))]


@hookimpl
def xwheel_register_tables(config: Config) -> Iterable[Tables]:
    """Register the store's tables, where there is a store; executors need none of what they import."""
    if not read_options(config).store.directory:
        return []
    from xwheel_job_package.tables import PackageTables

    return [PackageTables()]


@hookimpl
def xwheel_register_routes(config: Config) -> Iterable[Routes]:
    """Register the store's calls, where there is a store."""
    options = read_options(config).store
    if not options.directory:
        return []
    from xwheel_job_package.routes import PackageRoutes

    return [PackageRoutes(options)]


@hookimpl
def xwheel_register_pages(config: Config) -> Iterable[Pages]:
    """Register the console's pages for packages, where there is a store."""
    if not read_options(config).store.directory:
        return []
    from xwheel_job_package.pages import PackagePages

    return [PackagePages()]
