"""The management API described.

Each ``operation`` says what it takes and gives, ``document`` collects them with ``words``, ``pages`` serves
the document and a page for people.
"""
