"""Runs that people ask for and end: ``run_now`` plans runs by hand, now or later; ``kill`` cancels or ends them.

Each call is one transaction; what must be sent is left to the stages, which are woken.
"""
