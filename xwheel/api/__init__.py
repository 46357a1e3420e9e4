"""The two HTTP applications of a node: XXL-JOB's executor API (``xxl``) and the management API (``v1``).

``app`` puts routes together; ``http`` reads requests, knows who calls and words refusals; ``schema`` has what
travels; ``openapi`` describes it.
"""
