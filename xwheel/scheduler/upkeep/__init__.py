"""What grows: ``retention`` deletes, one short piece of a ``sweep`` at a time."""
