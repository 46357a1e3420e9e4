"""The two HTTP applications of a node: XXL-JOB's executor API (``xxl``) and the management API (``v1``).

1. ``app`` has the table of routes; each route has a policy, or it cannot be added.
2. ``http`` checks who calls, reads the body or the query as a message of ``schema``, and puts failures into words.
3. The resource calls the scheduler or reads the database, and answers with a view of ``schema``.

Messages and views are :mod:`msgspec` structs; records of the domain never leave as they are. ``openapi`` makes the
description of the API from routes, messages and views.
"""
