"""Jobs as people and code change them.

``jobs`` changes one job or many, after ``validate`` and where ``rights`` allow it; ``versions`` keeps how each job was;
``dependencies`` says which job runs after which; ``pause`` stops all schedules and changes calendars. Jobs that code
declares come by ``declared_jobs``: ``ownership`` says whose they are, ``declared_plan`` what makes a job so (both are
pure). Each call is one transaction that locks what it changes.
"""
