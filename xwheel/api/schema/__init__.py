"""What clients of the management API send (``messages``) and get (``views``).

``fields`` has the limits of each field, ``alarms`` both directions for alarms.
"""
