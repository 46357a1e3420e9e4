"""From due jobs to planned runs.

``timetable`` says when a job fires, ``rules`` decides which runs it gets (pure), ``batches`` calls schedule
types a batch at a time, ``claim`` writes runs and next fire times in one transaction, ``adopt`` takes planned
rows that no ring holds.
"""
