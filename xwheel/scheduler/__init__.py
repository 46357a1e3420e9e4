"""A fire on its way, a folder for each stage, in this order.

``cluster`` says which partitions are ours, ``plan`` writes runs for due jobs and adopts rows that no memory holds,
``fire`` takes due runs from the ring as far as the fence, ``route`` chooses executors, ``send`` carries the
calls, ``check`` asks about runs that stay open, ``finish`` closes runs and plans what follows. Next to the way:
``manage`` is what people change, ``upkeep`` deletes and counts, ``listeners`` tells plugins of state changes. A
stage imports records and pure functions of any stage and holds objects of later ones;
:mod:`xwheel.node.pipeline` puts them together.
"""
