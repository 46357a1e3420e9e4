"""The web application of the tests as uWSGI loads it: once, in the master, before the workers are forked."""

from __future__ import annotations

from uwsgidecorators import postfork  # exists only inside uWSGI

from tests.support.web_app import application, executor

__all__ = ["application"]


@postfork
def start_executor() -> None:
    executor.start_when_free()
