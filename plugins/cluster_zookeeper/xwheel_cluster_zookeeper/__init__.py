"""Nodes that share jobs of packages through ZooKeeper."""
