"""The end of a run and what follows.

``finish`` writes final states, ``retry`` decides about another attempt, ``child_runs`` plans children with
parameters filled in by ``template``.
"""
