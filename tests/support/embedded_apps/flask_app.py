"""Flask: each worker of gunicorn imports this module and starts the scheduler, after the fork."""

from __future__ import annotations

from flask import Flask

from tests.support.embedded_apps import jobs

app = Flask(__name__)
jobs.scheduler.start()


@app.get("/")
def state() -> dict[str, object]:
    return jobs.state()


@app.post("/trigger")
def trigger() -> dict[str, object]:
    return jobs.trigger()
