"""Jobs that an application's code declares, and whose release owns them: the part of this package that nodes load.

``plugin`` is what a node gets: the resources (``resources``, with the ``messages`` that they take and give) and what it
says of jobs that people want to change. ``manager`` carries out a sync: ``ownership`` says whose declarations a group
follows, ``plan`` what makes a job what code declares (both are pure). ``owners`` has a row for each group, which syncs
lock; ``records`` one for each job that code ever declared: which fields code owns, which of them people released, and
what is wrong with it. ``tables`` has their tables.
"""
