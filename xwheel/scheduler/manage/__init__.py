"""What people and scripts change.

``jobs`` changes one, ``bulk`` many, after ``validate``; ``dependencies`` says which job runs after which,
``scripts`` keeps sources, ``pause`` stops all schedules, ``kill`` ends a run.
"""
