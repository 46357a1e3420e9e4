"""The rows of jobs that code declares.

``owners`` has a row for each group: whose declarations its jobs follow; syncs lock it. ``records`` has one for each job
that code ever declared: which fields code owns, which of them people released, and what is wrong with it.
"""
