"""The ``xwheel`` command.

``main`` has the commands that are processes, and those of the database, and turns errors into exit statuses;
``plugins`` is one of its own. The others are of plugins: ``plugin_commands`` finds them, ``lazy`` loads them.
``connection`` gives commands a node's API, ``options`` and ``output`` are the same for all. A command imports what it
needs when it runs, so that ``--help`` is quick.
"""

from xwheel.errors import ConfigError
from xwheel.extras import extra

with extra("cli", lambda why: ConfigError(f"the command {why}")):
    import typer  # noqa: F401 -- before any command asks for it
