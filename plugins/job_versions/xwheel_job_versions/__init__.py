"""Versions of jobs for people: a list, what differs between two, and the way back.

The core writes a version with each change of a job and deletes the oldest; here they are read: ``storage`` asks for
them, ``comparing`` says what differs, ``resources`` and ``messages`` are the calls, ``commands`` the commands.
"""
