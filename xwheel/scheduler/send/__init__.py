"""From fenced runs to answers.

``lane`` sends, ``results`` writes what came of it, ``resend`` asks again about what is unknown.
"""
