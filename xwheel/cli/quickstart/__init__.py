"""``xwheel quickstart``: one node, one executor, jobs that really run, and an honest count of what happened."""
