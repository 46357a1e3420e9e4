"""From due jobs to planned runs.

``rules`` decides which runs a job gets (pure), by its :mod:`~xwheel.scheduler.timetable`; ``batches`` calls schedule
types a batch at a time, ``claim`` writes runs and next fire times in one transaction, ``adopt`` takes planned
rows that no ring holds.
"""
