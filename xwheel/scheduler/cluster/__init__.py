"""Which partitions this node may act for, and what time it is.

``lease`` renews, takes and hands over partitions between nodes by the rule of ``balance``; ``sqlite_lease`` is
the same for one node with a file; ``node_locks`` shows at once which node of this machine has ended;
``clock_sync`` follows the database's clock.
"""
