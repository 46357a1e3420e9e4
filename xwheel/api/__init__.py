"""The two HTTP applications: XXL-JOB's executor API (``xxl``) and the management API (``v1``).

1. ``app`` has the table of routes; each route has a policy, or it cannot be added.
2. ``http`` checks who calls, reads the body or the query as a message of ``schema``, and puts failures into words.
3. The resource calls the scheduler or reads the database, and answers with a view of ``schema``.

Messages and views are :mod:`msgspec` structs; records of the domain never leave as they are. A node serves both
applications; ``wsgi`` makes one of the management API for any WSGI server, next to the nodes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from xwheel.api.wsgi import ManagementApp

__all__ = ["management_app"]


def management_app() -> ManagementApp:
    """Return the management API as a WSGI application, for waitress, gunicorn, uWSGI and the like.

    Settings come from the file that ``XWHEEL_CONFIG`` names and from the environment, as those of ``xwheel server`` do.
    It fires nothing: nodes on the same database do.

    Raises:
        ConfigError: A setting cannot be used, or no node has ever started on this database.
        DatabaseUnreachableError: The database took no connection for as long as the settings say.
        DatabaseRefusedError: The database lacks what is needed.
        SchemaError: The database's schema is not this version's.
        PluginError: A plugin cannot be loaded.
    """
    from xwheel.api.wsgi import ManagementApp
    from xwheel.config import load_config

    return ManagementApp(load_config())
