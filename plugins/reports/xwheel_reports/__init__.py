"""Figures: what became of each job's runs, by the hour in which they were due, and how much there is of everything.

``counting`` counts runs again, hour by hour, so that no outcome has to write anything; the holder of partition 0 does
it, and ``sweep`` deletes what is old. The rows are in ``tables`` and ``storage``, the calls in ``resources`` and
``messages``, the commands in ``commands``; ``last_and_next`` tells how jobs ran lately, and which fire next, as
``recent`` asks the database.
"""
