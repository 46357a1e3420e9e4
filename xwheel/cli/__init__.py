"""The ``xwheel`` command.

``main`` puts the commands together, has those that are processes, and turns errors into exit statuses. Each other
command is a module; ``access`` has those about who may call. ``connection`` gives them a node's API or the configured
database, ``output`` prints what they found. A command imports what it needs when it runs, so that ``--help`` is quick.
"""

from xwheel.errors import ConfigError
from xwheel.extras import extra

with extra("cli", lambda why: ConfigError(f"the command {why}")):
    import typer  # noqa: F401 -- before any command asks for it
