"""What every process of xwheel is made of; nothing here knows jobs.

``loops`` repeats ``step(now_ms)`` under supervision, ``http_server`` serves WSGI applications within
``http_limits``, ``foreign`` calls foreign code with a deadline, ``signals`` ends a process in order, ``sealing`` keeps
secrets, ``memory`` gives back what is free.
"""
