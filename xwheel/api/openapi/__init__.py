"""The management API described.

Each responder carries an ``operation``: what it takes and answers. ``document`` collects them, adds what no type says
from ``words``, and returns the OpenAPI document as plain values; ``pages`` serves it, and a page for people.
"""
