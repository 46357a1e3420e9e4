"""The resources of the management API, one module for each chapter.

A resource reads the request as a message, calls the scheduler or a function of the storage, and replies with a view.
"""
