"""Jobs as YAML files, for ``xwheel job apply`` and ``export``.

``reading`` turns YAML into nodes that know their line, ``checking`` makes the wanted ``state`` of them. ``remote``
reads the same state from a node, ``diff`` compares both and returns steps, ``remote`` carries them out. ``writing``
turns a state into YAML again. ``templates`` translates the names of jobs in parameters to ids and back.
"""
