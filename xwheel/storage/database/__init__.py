"""How a connection behaves, whichever database it is: no table is named here.

``address`` says where the database is, ``startup`` opens it, ``requirements`` asks whether it has what a node needs,
``engine`` gives transactions, ``deadline`` and the ``watched_*`` drivers cut a statement that takes too long,
``outage`` knows what a broken connection leaves unknown, ``errors`` turns a driver's words into ours. ``bulk``
writes many rows at once, ``changes`` notes what to tell after a commit.
"""
