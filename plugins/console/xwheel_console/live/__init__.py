"""News for pages that are open: one reader asks the database once a second, however many pages there are.

``reader`` asks while somebody wants to know: ``queries`` what became of runs, ``sources`` the plugins that bring news
of what else changed, and ``answers`` checks these. ``compare`` finds what differs from a second ago, and ``feed`` keeps
the last events and counts in memory, from which ``resources`` answers each page with what its caller may read.
"""
