"""Tools for those who try, check and extend xwheel; what they need of a node they take from its own rooms.

``testing`` is what tests of plugins use; ``quickstart`` shows a node, an executor and their jobs, and counts what ran;
``verify`` lets jobs fire on a test cluster and says what was lost, ran twice, came late or is stuck; ``scaffold``
writes projects to start from. The commands are in ``commands``.
"""
