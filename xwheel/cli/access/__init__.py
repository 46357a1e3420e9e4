"""Who may call: this user's logins, tokens for the management API, secrets of executors; and the files that keep them.

Tokens and secrets are changed in the configured database, whether a node runs or not, or with ``--url`` by a node.
"""
