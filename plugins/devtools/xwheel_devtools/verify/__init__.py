"""``xwheel verify``: a load on a cluster, and whether anything was lost, ran twice, came late or is stuck.

``load`` says which jobs there are and when each must fire, without asking xwheel. ``check`` puts them on a cluster,
which ``site`` calls over its management API; ``actions`` is what people do to them meanwhile, and ``watch`` looks at
the tables. ``handlers`` runs inside the executors and writes each execution down. ``verdict`` and ``follow_ups`` hold
due fires, rows and executions against each other; they are pure, as ``records`` are. ``run`` is the command.
"""
