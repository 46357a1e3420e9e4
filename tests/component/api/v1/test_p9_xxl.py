"""P9: the refusal of a job names what brings what it asks for."""

from __future__ import annotations

import pytest

from tests.component.api.conftest import Api


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        (
            {"route_strategy": "FAILOVER"},
            (
                "'FAILOVER' is not installed; known: FIRST, LAST, RANDOM, ROUND, SHARDING_BROADCAST; FAILOVER "
                "comes with xwheel-router-extra: pip install 'xwheel[xxl]' next to each node"
            ),
        ),
        (
            {"glue_type": "GLUE_SHELL"},
            (
                "GLUE_SHELL comes with xwheel-glue-script: pip install 'xwheel[xxl]' next to each node and each "
                "executor that runs it"
            ),
        ),
        ({"glue_type": "GLUE_HTTP"}, "GLUE_HTTP comes with xwheel-glue-http: pip install xwheel-glue-http"),
        ({"route_strategy": "NEARBY"}, 'ROUND, SHARDING_BROADCAST"'),
    ],
)
def test_p9_the_refusal_of_a_job_names_what_brings_it(api: Api, fields: dict[str, str], words: str) -> None:
    group_id = api.group()
    answer = api.call("POST", "jobs", {"group_id": group_id, "name": "job", "handler": "demo", **fields})
    assert answer.status_code == 422
    assert words in answer.text
