"""What znodes hold that others wrote."""

from __future__ import annotations

import json

import pytest
from records import job

from xwheel_cluster_zookeeper.codec import BadZnodeError, decode, encode
from xwheel_cluster_zookeeper.model import JobRecord


@pytest.mark.parametrize("value", [True, 1.0, "1", None, [1]])
def test_only_a_number_is_a_number(value: object) -> None:
    """Which is what Python would not say of ``true``."""
    known = json.loads(encode(job(1)))
    name = next(name for name in known if name.casefold() == "opseq")
    with pytest.raises(BadZnodeError, match=name):
        decode(JobRecord, json.dumps({**known, name: value}).encode(), job(1).key)
