"""News for pages that are open: one reader asks the database once a second, however many pages there are.

``reader`` asks while somebody wants to know, ``compare`` finds what differs from a second ago, and ``feed`` keeps the
last events and counts in memory, from which each page is answered with what its caller may read.
"""
