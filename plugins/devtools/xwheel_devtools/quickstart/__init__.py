"""``xwheel quickstart``: one node, one executor, jobs that really run, and an honest count of what happened.

``run`` starts both as child ``processes``, creates the ``jobs``, whose ``handlers`` write each execution to a file,
shows them in the table of ``view``, and in the end has ``verify`` compare plan, run rows and executions.
"""
