"""The fault checker: nodes, executors and a database as processes, faults on purpose, and what is due counted apart.

``load`` says which jobs there are and when each must fire, without asking xwheel. ``cluster`` runs the processes,
``movements`` does something to them, ``watch`` reads the tables meanwhile. ``handlers`` runs inside the executors and
writes each execution down. ``verdict`` holds due fires, rows and executions against each other, and is pure.
``python -m tests.faults.checker --help`` runs it by hand.
"""
