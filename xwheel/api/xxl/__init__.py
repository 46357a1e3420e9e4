"""XXL-JOB's spelling of two APIs, answered in its envelope.

``executor_calls`` is the entrance: it takes registrations and outcomes, with HTML taken out of messages by
``plaintext``, and hands the calls that a group's token may make on its jobs to ``job_calls``.
"""
