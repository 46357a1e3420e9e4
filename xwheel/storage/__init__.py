"""Rows: tables, one module of functions per table, and the only place that knows SQL."""

from xwheel.errors import ConfigError
from xwheel.extras import extra

with extra("server", lambda why: ConfigError(f"a scheduler node {why}")):
    import sqlalchemy  # noqa: F401 -- before any module asks for it
