"""A fire on its way, a folder for each stage, in this order.

``cluster`` says which partitions are ours, ``plan`` writes runs for due jobs and adopts rows that no memory holds,
``route`` chooses executors, ``fire`` takes due runs from the ring and, once they are routed, as far as the fence,
``send`` carries the calls, ``check`` asks about runs that stay open, ``finish`` closes runs and plans what follows,
``upkeep`` deletes. A stage imports later ones and what they all share: the modules of this folder, such as
``records``, and ``executors`` and the lease of ``cluster``. What goes back is a row or a callback.

What people change is next to the way: ``jobs``, ``runs`` and ``scripts``; no stage imports these. ``listeners``
tells plugins of state changes. ``parts`` puts together what people change, :mod:`xwheel.node.pipeline` the stages.
"""
