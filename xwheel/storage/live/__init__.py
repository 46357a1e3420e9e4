"""SQL of what is going on now, for pages that are open: each statement is bounded, and answered from an index.

``news`` is asked once a second for all pages, ``last_and_next`` when a page shows jobs: how they ran lately, and which
fire next.
"""
