"""The glue type ``PACKAGE``: jobs whose code is in a package that was uploaded.

Nothing runs before the executor's setting ``allowed_glue_types`` names it: who may upload may run code here.
"""

from __future__ import annotations

from typing import Final

from xwheel.plugin import ExecutorError, GlueRequest, HandlerLookup, HostedRun, HostSetup, SavedSource

from xwheel_job_package.acceptance import require
from xwheel_job_package.host import PackageHost, PackageRun
from xwheel_job_package.node_options import NodeOptions
from xwheel_job_package.reference import PackageReference

PACKAGE: Final = "PACKAGE"


class PackageGlue:
    """Runs jobs of packages; a job's source says which one and what it calls.

    Args:
        options: What nodes do with packages.
        has_store: Whether this process's settings name a store.
    """

    name = PACKAGE
    takes_source = True

    def __init__(self, options: NodeOptions, *, has_store: bool = False) -> None:
        self._options = options
        self._has_store = has_store
        self._host: PackageHost | None = None

    @property
    def host(self) -> PackageHost:
        """What this node has of packages.

        Raises:
            ExecutorError: No executor runs here.
        """
        if self._host is None:
            raise ExecutorError(f"the executor does not run, or does not allow glue type {PACKAGE}")
        return self._host

    def open(self, setup: HostSetup) -> None:
        """Begin to keep packages, environments and processes."""
        self._host = PackageHost(setup, self._options)
        self._host.start()

    def close(self) -> None:
        """End all processes."""
        if self._host is not None:
            self._host.close()
            self._host = None

    def build(self, request: GlueRequest, handlers: HandlerLookup) -> HostedRun:
        """Return the run of a job; nothing is fetched, built or started by that.

        Raises:
            NotYetError: This node does not take the job's runs now.
            ExecutorError: The source is none, or this node does not take the job's runs.
        """
        del handlers
        reference = PackageReference.parse(request.source)
        require(request.job_id)
        run = PackageRun(lambda: self.host, reference)
        return HostedRun(run=run.run, end=run.end)

    def check_source(self, source: str) -> None:
        """Refuse a source that no node could use.

        Raises:
            ExecutorError: It is none.
        """
        PackageReference.parse(source)

    def check_saved_source(self, saved: SavedSource) -> None:
        """Refuse a source that names anything but a job that was found in a package of the store.

        Raises:
            ExecutorError: It does; the message names the field.
        """
        reference = PackageReference.parse(saved.source)
        if not self._has_store:
            raise ExecutorError(
                "package_id: this node has no store of packages, so it cannot know what is in one: set "
                "plugins.options.job_package.store.directory, or save the job on a node that has it"
            )
        from xwheel_job_package.saved import check_saved

        check_saved(saved, reference)
