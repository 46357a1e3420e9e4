"""The log of a run.

``capture`` and ``output`` bring in what handlers and programs print, ``run_log`` writes and reads files.
"""
