"""Jobs as code: jobs of a node from YAML files and from what Python modules declare, and jobs written as such files.

``apply`` has the commands for files. ``checking`` makes the wanted ``state`` of what a file says, ``remote`` reads the
same state from a node, ``diff`` compares both and returns steps, ``remote`` carries them out. ``writing`` turns a state
into YAML again, and ``templates`` translates the names of jobs in parameters to ids and back. ``sync`` sends what
modules declare to a node, whose part of this package, ``declarations``, compares by itself; ``declared`` has the other
commands about that. Commands load nothing of that part, which needs the libraries of a node.
"""
