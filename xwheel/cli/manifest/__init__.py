"""Files that describe groups, jobs and calendars: read, checked, compared with what is there, and written.

Pure: nothing here talks to a node. :mod:`xwheel.cli.apply` fetches, shows and applies.
"""
