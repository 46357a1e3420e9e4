"""The ``xwheel`` command: ``main`` has the processes, one module for each other command."""
