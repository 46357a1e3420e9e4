"""What comes in: ``endpoints`` takes the calls and answers them, ``queues`` says which run is next.

In between, ``Workers.accept`` in :mod:`xwheel.executor.running.worker` writes the runs to the journal.
"""
