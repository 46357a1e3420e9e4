"""The settings by section: names, defaults, limits and what they mean. Durations end in ``_ms`` or ``_s``."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SecretStr, field_validator

from xwheel.model.jobs import MAX_PARAM_BYTES, MAX_SOURCE_BYTES


class Section(BaseModel):
    """A group of settings; frozen, unknown keys refused. The texts after fields are the reference's."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class UnreadSection(Section):
    """A group of settings of a distribution that is not installed."""

    model_config = ConfigDict(extra="allow")


def _variable(name: str) -> str:
    """Return the name of a variable that scripts may get, or its beginning and ``*``."""
    if not re.fullmatch(r"[A-Za-z_]\w*\*?", name, re.ASCII) or name.startswith("XWHEEL_"):
        raise ValueError("takes names such as JAVA_HOME or PIP_*, none of xwheel's own")
    return name


class DatabaseSection(Section):
    """The database."""

    url: str = "sqlite:///xwheel.db"
    """SQLAlchemy URL of the database; several servers are HOST:PORT,HOST:PORT."""
    password: SecretStr | None = None
    """Password of the URL's user, where the URL holds none; meant for the environment."""
    password_file: Path | None = None
    """File whose first line is that password; `password` counts before it."""
    pool_size: int = Field(8, ge=1, le=256)
    """Connections kept for readers and API threads."""
    statement_timeout_s: int = Field(15, ge=2, le=3600)
    """A connection whose server answers no statement for this long is shut, and the work repeated."""
    wait_s: int = Field(60, ge=0, le=86_400)
    """How long a starting node waits for a database that is away or read-only, from when it is lost."""


class ApiSection(Section):
    """Listeners of a scheduler node."""

    host: str = "127.0.0.1"
    """Bind address of the management API."""
    port: int = Field(8080, ge=0, le=65535)
    """Port of the management API; 0 for a free one."""
    threads: int = Field(8, ge=1, le=256)
    """Worker threads of the management API."""
    trusted_proxies: list[str] = Field(default_factory=list)
    """Addresses and networks of proxies in front of the management API. Where a call came from is what these say in
    `X-Forwarded-For` and `X-Forwarded-Proto`; from anybody else the headers count for nothing."""
    executor_host: str = "127.0.0.1"
    """Bind address of the executor API (XXL-JOB's wire)."""
    executor_port: int = Field(8081, ge=0, le=65535)
    """Port of the executor API; 0 for a free one."""
    executor_threads: int = Field(8, ge=1, le=256)
    """Worker threads of the executor API."""
    executor_token: SecretStr | None = None
    """Token shared with executors. Without it the first start makes one and keeps it in the database."""
    max_body_bytes: int = Field(5 * 1024 * 1024, ge=1024)
    """Larger bodies are refused with 413."""
    max_param_bytes: int = Field(MAX_PARAM_BYTES, ge=1024, le=MAX_PARAM_BYTES)
    """Bytes of a parameter as UTF-8, of a job, a run or a child; longer ones are refused."""
    max_source_bytes: int = Field(1024 * 1024, ge=1024, le=MAX_SOURCE_BYTES)
    """Bytes of a script's source as UTF-8; longer ones are refused. Over 2 MiB, bodies may get larger than the 5 MiB of
    `api.max_body_bytes` and `executor.max_body_bytes`, which Java executors have too."""
    job_openapi: bool = True
    """Answer XXL-JOB's job calls (addJob and so on) on the executor API, to those with a group's token."""
    job_openapi_timezone: str = "UTC"
    """Time zone of jobs that addJob makes."""
    port_file: Path | None = None
    """Written with both ports as JSON once the node listens."""

    def url(self, port: int) -> str:
        """Return where the management API is, seen from the node's own machine, if it took this port."""
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.host, self.host)  # noqa: S104 -- where to call, not to bind
        return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


class ConnectionsSection(Section):
    """The limits of callers at each listener, of a node or of an executor."""

    max_open: int = Field(512, ge=8, le=100_000)
    """Open connections of a listener. One more closes another that is slow or idle; if all are being served, it is
    refused. The process needs as many file descriptors."""
    max_open_per_address: int = Field(256, ge=0, le=100_000)
    """Open connections from one address (one /64 network of IPv6); 0 for no limit, as behind a proxy."""
    head_s: float = Field(10, gt=0, le=3600)
    """How long the head of a request may take."""
    body_s: float = Field(30, gt=0, le=3600)
    """How long the body of a request may take."""
    write_s: float = Field(10, gt=0, le=3600)
    """How long an answer may wait while none of it is read."""
    idle_s: float = Field(90, gt=0, le=86_400)
    """How long a connection stays open between requests."""


class ScheduleSection(Section):
    """The schedule loop."""

    pre_read_ms: int = Field(5000, ge=200, le=600_000)
    """How far ahead fires are planned."""
    claim_batch: int = Field(1000, ge=1, le=5000)
    """Jobs claimed in one transaction."""
    adopt_interval_ms: int = Field(200, ge=10, le=10_000)
    """How often planned rows that no node holds are adopted."""
    reconcile_interval_ms: int = Field(5000, ge=100, le=600_000)
    """How often a node searches for rows of its own that it lost."""
    tick_ms: int = Field(20, ge=1, le=1000)
    """Length of a ring tick."""
    arm_ms: int = Field(300, ge=0, le=1000)
    """How long before its due time a run may be routed, written and sent to an xwheel executor, which starts it on
    time; 0 for when it is due."""
    misfire_threshold_ms: int = Field(30_000, ge=0, le=604_800_000)
    """How late a fire may be and is no misfire, for jobs without a threshold; XXL-JOB has 5000."""
    lease_s: int = Field(10, ge=2, le=600)
    """How long a partition lease lasts without renewal."""
    lease_renew_s: float = Field(3, gt=0, le=200)
    """How often leases are renewed."""
    lock_dir: Path | None = None
    """Folder of the locks by which nodes of one machine see at once that another has ended; must belong to this user
    alone and last while the machine runs. Without it, a folder under `XDG_RUNTIME_DIR` or the system's temporary
    one."""


class TriggerSection(Section):
    """Sending runs to executors."""

    fast_pool: int = Field(200, ge=1, le=10_000)
    """Sends in flight in the fast lane."""
    slow_pool: int = Field(100, ge=1, le=10_000)
    """Sends in flight in the slow lane."""
    slow_threshold_ms: int = Field(500, ge=1)
    """A send slower than this counts against its job."""
    slow_count: int = Field(10, ge=0)
    """More slow sends than this within the window move the job to the slow lane."""
    slow_window_ms: int = Field(60_000, ge=1000)
    """Length of that window."""
    send_timeout_ms: int = Field(3000, ge=100, le=10_000)
    """Time limit of a call to an executor."""
    batch_bytes: int = Field(1024 * 1024, ge=4096)
    """Runs for one executor are sent together up to this size; a larger one alone."""
    waiting_limit: int = Field(20_000, ge=100)
    """Due runs in memory that wait to be sent; others wait in the database."""
    check_after_s: int = Field(600, ge=1)
    """How long an executor is believed before it is asked again about a run that it has."""
    idle_grace_s: int = Field(120, ge=1, le=86_400)
    """How long an outcome may take once a foreign executor has no run of the job any more."""
    deadline_grace_s: int = Field(30, ge=1, le=86_400)
    """How long after a job's time limit its executor may report the end."""
    dead_after_s: int = Field(90, ge=1)
    """An executor without a beat for this long is dead."""


class ExecutorSection(Section):
    """An executor process (the SDK)."""

    app_name: str = ""
    """Executor group to register in."""
    admin_addresses: list[str] = Field(default_factory=list)
    """Base URLs of nodes, tried in order."""
    access_token: SecretStr | None = None
    """Token shared with the scheduler."""
    access_token_file: Path | None = None
    """File whose first line is that token, such as `xwheel secret create --to-file` writes; `access_token` counts
    before it."""
    accept_weak_token: bool = False
    """Take the token of an XXL-JOB admin though it is short or well known, such as `default_token`: who guesses it runs
    handlers here. Nodes of xwheel never have one."""
    host: str = "127.0.0.1"
    """Bind address of the executor."""
    port: int = Field(9999, ge=0, le=65535)
    """Port of the executor; 0 for a free one."""
    address: str = ""
    """Advertised base URL; empty means found from host and port."""
    listen: bool = True
    """Listen on a port; false if mounted as a WSGI application."""
    data_dir: Path = Path("xwheel-executor")
    """Journal and run logs."""
    threads: int = Field(8, ge=1, le=256)
    """Threads that answer the scheduler."""
    workers: int = Field(64, ge=1, le=10_000)
    """Handlers that may run at once."""
    queue_limit: int = Field(1000, ge=1)
    """Waiting runs per job; more are refused."""
    waiting_limit: int = Field(20_000, ge=1)
    """Waiting runs of all jobs; more are refused."""
    kill_grace_s: float = Field(2, gt=0, le=600)
    """Seconds between asking a handler to end and forcing it."""
    leave_s: float = Field(1.5, ge=0, le=60)
    """Seconds for which an executor that left the registry takes runs that were sent to it before."""
    stop_timeout_s: float = Field(30, ge=0, le=86_400)
    """Seconds that accepted runs get to finish when the executor stops."""
    labels: dict[str, str] = Field(default_factory=dict)
    """Labels for people and routers."""
    allowed_glue_types: list[str] = Field(default_factory=list)
    """Glue types besides BEAN that this executor runs, such as GLUE_SHELL. Scripts are programs of everyone who may
    edit jobs: none runs unless it is named here."""
    script_environment: list[Annotated[str, AfterValidator(_variable)]] = Field(default_factory=list)
    """Variables of the executor's environment that scripts get, such as `JAVA_HOME` or `PIP_*`, besides PATH, HOME,
    USER, LOGNAME, SHELL, TERM, LANG, LANGUAGE, LC_*, TZ, TMPDIR and LD_LIBRARY_PATH. None that begins with `XWHEEL_` is
    ever passed on."""
    release: str = Field("", max_length=64)
    """The application's release, as pip compares versions: `1.4.2`, `2026.11.23`, or a build's number. The highest
    release with a live executor decides the jobs that code declares."""
    sync_jobs: bool = False
    """Make the jobs that code declares (`@job(..., cron=...)`) those of the scheduler, at the start and while this
    runs; wants `release`, `sync_addresses` and a token."""
    sync_addresses: list[str] = Field(default_factory=list)
    """Base URLs of nodes' management API, tried in order, for `sync_jobs`."""
    sync_token: SecretStr | None = None
    """A token of the group for that, never the token that executors share with the scheduler."""
    sync_token_file: Path | None = None
    """File whose first line is that token, such as `xwheel token create NAME --group APP --to-file` writes;
    `sync_token` counts before it."""
    sync_s: float = Field(30, gt=0, le=60)
    """Seconds between signs of life of the release; a node counts it as gone after `trigger.dead_after_s` without
    one."""
    beat_s: float = Field(30, gt=0, le=300)
    """Seconds between registry beats."""
    ship_logs: bool = True
    """Ship run logs to the scheduler while they are written, if it has a log store."""
    log_retention_days: int = Field(30, ge=0)
    """Run logs to which nothing was written for this many days are deleted; 0 keeps all."""
    max_body_bytes: int = Field(5 * 1024 * 1024, ge=1024)
    """Larger request bodies are refused."""


class UpkeepSection(Section):
    """What one node does for all: the hourly report, and deleting what is old."""

    run_retention_days: int = Field(30, ge=0, le=36_500)
    """Finished runs and alarms older than this are deleted; less than 3 counts as 3, 0 keeps all. Jobs may have a
    retention of their own."""
    report_retention_days: int = Field(400, ge=0, le=36_500)
    """Hourly reports older than this are deleted; less than 4 counts as 4, 0 keeps all."""
    report_interval_s: int = Field(60, ge=1, le=3600)
    """How often the present hour and the one before are counted."""
    sweep_interval_s: int = Field(3600, ge=1, le=86_400)
    """Pause between two sweeps of old rows."""
    glue_versions: int = Field(30, ge=1, le=1000)
    """Versions of a script's source that are kept."""
    job_versions: int = Field(100, ge=1, le=10_000)
    """Versions of a job that are kept; more are deleted by the next sweep."""
    sweep_batch: int = Field(500, ge=1, le=5000)
    """Rows deleted in one transaction."""


class SecuritySection(Section):
    """Secrets at rest, and where executors may be."""

    key_file: Path | None = None
    """File with the key that executor secrets are encrypted under, the same on all nodes and for this user alone;
    `xwheel secret key FILE` makes one. Without it they are not encrypted."""
    executor_networks: list[str] = Field(default_factory=list)
    """Networks that executors may be in besides public and private ones, such as `127.0.0.0/8`: loopback (while
    `api.executor_host` is not), link-local and other special addresses must be named. A cloud's metadata service must
    be named by its one address."""
    shared_addresses: bool = False
    """Let an address be registered in several groups at a time."""


class EgressSection(Section):
    """What webhooks, gateways and HTTP jobs may call: public addresses, and what is named here."""

    schemes: list[str] = ["http", "https"]
    """Schemes of URLs; of `http` and `https`."""
    allow_ports: list[int | str] = [80, 443]
    """Ports that may be called; a text is a range, such as `8000-8999`."""
    allow_networks: list[str] = Field(default_factory=list)
    """Networks that may be called though they are not public, such as `10.1.0.0/16`. A cloud's metadata service must be
    named by its one address."""
    allow_hosts: list[str] = Field(default_factory=list)
    """Hosts that may be called though their address is a private one, such as `chat.example.com` or `*.example.com`."""
    only_hosts: list[str] = Field(default_factory=list)
    """If not empty, no other hosts may be called; written as above."""
    ca_file: Path | None = None
    """Certificates (PEM) of authorities that are trusted besides the public ones."""


class TlsSection(Section):
    """Calls between nodes and executors whose addresses begin with `https://`; read by both."""

    ca_file: Path | None = None
    """Certificates (PEM) of the authorities that are trusted, in place of the public ones."""
    cert_file: Path | None = None
    """The certificate (PEM) that calls show, and those between it and its authority."""
    key_file: Path | None = None
    """Its private key (PEM), without a passphrase, for this account alone."""


class LogSection(Section):
    """The log of a node or an executor, on standard error."""

    level: Literal["", "debug", "info", "warning", "error"] = ""
    """From which level on; empty for info."""
    format: Literal["text", "json"] = "text"
    """Lines of text, or one JSON object a line: time, level, process, thread, logger, message, exception."""
    timezone: str = ""
    """IANA name of the zone of its times, such as UTC; empty for the machine's."""

    @field_validator("timezone")
    @classmethod
    def _is_known(cls, name: str) -> str:
        try:
            if name:
                ZoneInfo(name)
        except (ZoneInfoNotFoundError, ValueError, OSError):
            raise ValueError("must be an IANA name, such as UTC or Asia/Shanghai, or empty") from None
        return name


class PluginsSection(Section):
    """Which plugins load, and their options."""

    disabled: list[str] = Field(default_factory=list)
    """Entry-point names that are not loaded."""
    tolerate: list[str] = Field(default_factory=list)
    """Names of plugins without which a process may start if they are broken or not installed; it says so at each start
    and in its health. Any other broken plugin stops the start."""
    folder: Path | None = None
    """A folder whose Python files are plugins, each of one file (also `--plugins-dir`). Only root and the user of the
    process may be able to write to it."""
    options: dict[str, dict[str, Any]] = Field(default_factory=dict)
    """One table of options per plugin."""
    trusted: list[str] = [
        "xwheel",
        "xwheel-accounts",
        "xwheel-alarm-email",
        "xwheel-alarm-sms",
        "xwheel-alarm-webhook",
        "xwheel-cluster-zookeeper",
        "xwheel-glue-http",
        "xwheel-glue-script",
        "xwheel-router-extra",
    ]
    """Distributions whose routers, schedule types, gates and recorders are called on xwheel's own threads. Those of all
    others are called on threads of their own, which are left behind if they hang."""
    call_timeout_s: float = Field(2, gt=0, le=60)
    """How long a call of a schedule type, gate or recorder, or a check of a router's options or a source, may take if
    the distribution is not trusted."""
    listener_queue: int = Field(50_000, ge=1000, le=1_000_000)
    """Changes of runs that may wait for one run listener; then the oldest are dropped."""
