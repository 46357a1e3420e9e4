"""P2: a Java executor runs GLUE_GROOVY for a node that has no plugin for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.interop.cluster import cluster
from tests.interop.java_peers import JAVA
from xwheel.errors import FieldError

SOURCE = """
import com.xxl.job.core.context.XxlJobHelper
import com.xxl.job.core.handler.IJobHandler

class Greeting extends IJobHandler {
    void execute() {
        def word = ["%s", XxlJobHelper.jobParam].collect { it.reverse() }.join(" ")
        XxlJobHelper.log("groovy says " + word)
        XxlJobHelper.handleSuccess(word)
    }
}
"""


@pytest.mark.long
@pytest.mark.timeout(900)  # the first one may fetch and build the application
def test_a_java_executor_runs_groovy(tmp_path: Path) -> None:
    with cluster(tmp_path) as site:
        group_id = site.group("groovy")
        fields = {"glue_type": "GLUE_GROOVY", "glue_source": SOURCE % "olleh"}
        with pytest.raises(FieldError, match="glue_type"):
            site.job(group_id, "", **fields)
        site.call("PATCH", f"/groups/{group_id}", {"glue_types": ["GLUE_GROOVY"]})
        site.registered(group_id, site.start(JAVA[-1], "groovy"))
        job_id = site.job(group_id, "", **fields)
        first = site.ended(site.run(job_id, "dlrow"))
        assert (first["state"], first["message"]) == ("succeeded", "hello world"), site.tails()
        assert "groovy says hello world" in site.log(first["id"])["content"]
        # a new version counts from the next run on
        site.call("POST", f"/jobs/{job_id}/glue", {"source": SOURCE % "eybdoog"})
        second = site.ended(site.run(job_id, "dlrow"))
        assert (second["state"], second["message"]) == ("succeeded", "goodbye world"), site.tails()
