"""From runs that passed the fence of ``fire`` to answers.

``pool`` counts places, ``parcels`` gives runs room in requests; ``lane`` sends what was fenced, ``results`` writes what
came of it, ``resend`` asks again about what is unknown, ``not_yet`` knows which executors take no run of a job yet.
"""
