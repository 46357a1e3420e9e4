"""What is kept in a database, and the only place that has SQL.

``database`` opens it and runs transactions, ``schema`` defines the tables and brings them up to date. The other modules
are functions that read and write the rows of one table or of a few: ``jobs``, ``runs`` with ``open_runs`` and
``run_list``, ``executors``, ``leases``, ``scripts``, ``settings``, ``job_versions`` and those of ``access``.
``run_ids`` gives ids to new runs, ``retention`` deletes what is old.

Each takes a connection, so that its caller decides what one transaction does, and takes and returns the records of
:mod:`xwheel.model` or named tuples of its own. Times are epoch milliseconds.
"""

from xwheel.errors import ConfigError
from xwheel.extras import extra

with extra("server", lambda why: ConfigError(f"a scheduler node {why}")):
    import sqlalchemy  # noqa: F401 -- asked first, so that what is missing is said in one line
