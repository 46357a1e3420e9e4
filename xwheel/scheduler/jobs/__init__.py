"""What people and scripts change.

``jobs`` changes one job or many, after ``validate``; ``run_now`` plans runs by hand, ``kill`` ends them;
``dependencies`` says which job runs after which, ``scripts`` keeps sources, ``pause`` stops all schedules and changes
calendars. Each call is one transaction that locks what it changes.
"""
