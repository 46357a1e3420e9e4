"""The rows of alarms.

``rules``, what happened (``alarms``), each attempt to send it (``attempts``), pages of both (``lists``), and
what did not happen (``watch``).
"""
