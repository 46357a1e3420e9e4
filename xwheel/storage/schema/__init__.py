"""The tables, and the way of an older schema to them.

``tables`` and ``access_tables`` define, ``migrate`` brings up to date by ``migrations``.
"""

# anyone who imports the metadata gets all tables of it
from xwheel.storage.schema import tables  # isort: skip
from xwheel.storage.schema import access_tables  # isort: skip

__all__ = ["access_tables", "tables"]
