"""Glue types whose jobs are scripts: GLUE_SHELL, GLUE_PYTHON, GLUE_PYTHON2, GLUE_NODEJS, GLUE_PHP, GLUE_POWERSHELL.

Files, arguments and exit codes are those of XXL-JOB's executors. Nothing runs before the executor's setting
``allowed_glue_types`` names the type.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from xwheel.plugin import Command, ExecutorError, GlueRequest, HandlerLookup, hookimpl

from xwheel_glue_script.options import KINDS, Options, read_options
from xwheel_glue_script.script import prepare

if TYPE_CHECKING:
    from xwheel import Config

__all__ = ["ScriptGlue", "xwheel_register_glue_types"]


class ScriptGlue:
    """One kind of script.

    Args:
        name: What jobs call it.
        options: The plugin's options.
    """

    takes_source = True

    def __init__(self, name: str, options: Options) -> None:
        self.name = name
        self._options = options.model_dump(mode="json", exclude_none=True)

    def build(self, request: GlueRequest, handlers: HandlerLookup) -> Command:
        """Return the command that runs the source.

        Raises:
            ExecutorError: There is no source.
        """
        del handlers
        if not request.source.strip():
            raise ExecutorError(f"job {request.job_id} has no {self.name} source")
        data = {
            "glue_type": self.name,
            "job_id": request.job_id,
            "updated_ms": request.updated_ms,
            "source": request.source,
            "options": self._options,
        }
        return Command(prepare=prepare, data=data)


@hookimpl
def xwheel_register_glue_types(config: Config) -> Iterable[ScriptGlue]:
    """Register the script types."""
    options = read_options(config)
    return [ScriptGlue(name, options) for name in KINDS]
