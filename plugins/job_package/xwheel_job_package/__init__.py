"""Jobs that are uploaded as packages: the store, and the nodes that run them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from xwheel.plugin import hookimpl

from xwheel_job_package.acceptance import Acceptance, set_acceptance
from xwheel_job_package.glue import PackageGlue
from xwheel_job_package.options import read_options

if TYPE_CHECKING:
    from xwheel import Config

__all__ = ["Acceptance", "PackageGlue", "set_acceptance", "xwheel_register_glue_types"]


@hookimpl
def xwheel_register_glue_types(config: Config) -> Iterable[PackageGlue]:
    """Register the glue type ``PACKAGE``."""
    return [PackageGlue(read_options(config).node)]
