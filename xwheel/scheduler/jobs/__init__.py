"""Jobs as people and code change them.

``jobs`` changes one job or many, after ``validate`` and where ``rights`` allow it; ``versions`` keeps how each job was;
``dependencies`` says which job runs after which; ``pause`` stops all schedules and changes calendars. What code
declares goes through ``declared_jobs``, which ``declared_plan`` compares with what is there and ``ownership`` allows
(both are pure). Each call is one transaction that locks what it changes.
"""
