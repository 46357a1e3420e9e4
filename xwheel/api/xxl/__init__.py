"""XXL-JOB's spelling of two APIs.

``executor_calls`` takes registrations and outcomes, ``job_calls`` serves a group's token; ``plaintext`` takes
HTML out of messages.
"""
