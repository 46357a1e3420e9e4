"""The tables, and the way of an older schema to them: ``tables`` defines, ``migrate`` brings up to date."""
