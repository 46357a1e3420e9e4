"""The plugin's options: ``[plugins.options.job_package]``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pydantic import Field
from xwheel import plugin
from xwheel.plugin import PluginOptions

from xwheel_job_package.node_options import NodeOptions
from xwheel_job_package.store_options import StoreOptions

if TYPE_CHECKING:
    from xwheel import Config

PLUGIN: Final = "job_package"


class Options(PluginOptions):
    """The plugin's options."""

    node: NodeOptions = Field(NodeOptions(), description="What an executor does with packages.")
    store: StoreOptions = Field(StoreOptions(), description="What a scheduler node does with packages.")


def read_options(config: Config) -> Options:
    """Return the options, checked.

    Raises:
        ConfigError: One is not known or not acceptable; the message names it.
    """
    return plugin.read_options(config, PLUGIN, Options)
