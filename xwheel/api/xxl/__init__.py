"""XXL-JOB's executor API, answered in its envelope.

``executor_calls`` is the entrance: it takes registrations, outcomes and logs, with HTML taken out of messages, and
hands calls of other names to the plugins that answer them.
"""
