"""The kinds of scripts, and the plugin's options: ``[plugins.options.glue_script]``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal, NamedTuple

from pydantic import Field
from xwheel import plugin
from xwheel.plugin import PluginOptions

if TYPE_CHECKING:
    from xwheel import Config

PLUGIN: Final = "glue_script"


class Kind(NamedTuple):
    """A kind of script.

    Attributes:
        program: What runs it, found in PATH.
        suffix: How its files end.
    """

    program: str
    suffix: str


KINDS: Final = {
    "GLUE_SHELL": Kind("bash", ".sh"),
    "GLUE_PYTHON": Kind("python3", ".py"),
    "GLUE_PYTHON2": Kind("python2", ".py"),
    "GLUE_NODEJS": Kind("node", ".js"),
    "GLUE_PHP": Kind("php", ".php"),
    "GLUE_POWERSHELL": Kind("pwsh", ".ps1"),
}

Script = Literal["GLUE_SHELL", "GLUE_PYTHON", "GLUE_PYTHON2", "GLUE_NODEJS", "GLUE_PHP", "GLUE_POWERSHELL"]
Limit = Annotated[int, Field(ge=1, le=2**31)] | None


class Limits(PluginOptions):
    """Limits of each process of a script; what is missing is unlimited."""

    memory_mb: Limit = Field(None, description="Address space.")
    cpu_s: Limit = Field(None, description="Time on a processor.")
    file_mb: Limit = Field(None, description="Size of a file that it writes.")
    open_files: Limit = Field(None, description="Files open at once.")
    processes: Limit = Field(None, description="Processes, counted over the whole account.")


class Options(PluginOptions):
    """The plugin's options."""

    public = ("directory", "interpreters", "run_as")

    directory: str = Field(
        "", description="Where scripts and environments are kept; by default the executor's `data_dir`."
    )
    interpreters: dict[Script, Annotated[str, Field(min_length=1)]] = Field(
        default_factory=dict, description="Glue type to the program that runs it, a name or a path without arguments."
    )
    limits: Limits = Field(Limits(), description="Limits of each process of a script.")
    run_as: str = Field(
        "", description="Name of the account that scripts get; by default the executor's. Only root may change it."
    )
    environments: int = Field(20, ge=1, le=1000, description="How many environments with pinned requirements are kept.")
    pip_args: tuple[str, ...] = Field((), description="Further arguments of `pip install`, such as `--index-url`.")


def read_options(config: Config) -> Options:
    """Return the options, checked.

    Raises:
        ConfigError: One is not known or not acceptable; the message names it.
    """
    options = plugin.read_options(config, PLUGIN, Options)
    directory = Path(options.directory or config.executor.data_dir).absolute()
    return options.model_copy(update={"directory": str(directory)})
