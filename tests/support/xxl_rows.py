"""Jobs of an XXL-JOB database, as rows of the query in ``docs/howto/coming-from/xxl-job.md``."""

from __future__ import annotations

XXL_COLUMNS = (
    "app_name", "title", "id", "job_desc", "author", "alarm_email", "schedule_type", "schedule_conf",
    "misfire_strategy", "executor_route_strategy", "executor_handler", "executor_param", "executor_block_strategy",
    "executor_timeout", "executor_fail_retry_count", "glue_type", "glue_source", "child_jobid",
)  # fmt: skip
XXL_ROWS = [
    ("orders", "Orders", 4, "close books", "Li Lei", "a@example.com", "CRON", "0 0 2 * * ?", "DO_NOTHING", "FIRST",
     "greet", "day: yesterday\r\nwith\ttab \\n\rend", "SERIAL_EXECUTION", 60, 2, "BEAN", "", "5, 98,99"),
    ("orders", "Orders", 5, "close books", "Li Lei", "", "FIX_RATE", "30", "FIRE_ONCE_NOW", "CONSISTENT_HASH",
     "greet", "", "COVER_EARLY", 0, 0, "BEAN", "", None),
    ("billing", "账单", 6, "清理 a/b", "韩梅梅", None, "NONE", "", "DO_NOTHING", "SHARDING_BROADCAST",
     "", "NULL?", "DISCARD_LATER", 0, 0, "GLUE_SHELL", "#!/bin/bash\necho \"$1\"\t'tab'\n", "4"),
    ("billing", "账单", 7, "old", "韩梅梅", "", "NONE", "", "DO_NOTHING", "FIRST",
     "", "", "SERIAL_EXECUTION", 0, 0, "GLUE_GROOVY", "class X {}", ""),
]  # fmt: skip


def as_batch(value: object) -> str:
    """Return a value as MariaDB's and MySQL's clients print it with ``--batch``."""
    if value is None:
        return "NULL"
    return str(value).replace("\\", "\\\\").replace("\n", "\\n").replace("\t", "\\t")


XXL_JOBS = "".join("\t".join(map(as_batch, row)) + "\n" for row in (XXL_COLUMNS, *XXL_ROWS))
