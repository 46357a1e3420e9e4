"""How a connection behaves, whichever database it is: no table is named here.

``address`` reads the URL, ``startup`` opens it, ``requirements`` checks that it has what a node needs,
``engine`` gives transactions, ``deadline`` and the ``watched_*`` drivers cut a statement that takes too long,
``outage`` decides what a broken connection leaves unknown, ``errors`` turns a driver's error into ours. ``rows`` asks
the small questions of many tables, ``bulk`` writes many rows at once, ``changes`` notes the changes of runs that are
handed over after a commit.
"""
