"""The ``xwheel`` command: ``main`` has the processes, one module for each other command."""

from xwheel.errors import ConfigError
from xwheel.extras import extra

with extra("cli", lambda why: ConfigError(f"the command {why}")):
    import typer  # noqa: F401 -- before any command asks for it
