"""Faults on purpose, while a load of :mod:`xwheel_devtools.verify` fires, which judges what came of it.

``cluster`` runs nodes, executors, a database and proxies as processes. ``movements`` does one thing after the other
(``python -m tests.faults.soak.moving --help``). ``faults`` draws what breaks, and when, from a seed, and ``seeds``
lets that happen: ``python -m tests.faults.soak --help``.
"""
