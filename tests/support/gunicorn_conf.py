"""gunicorn's configuration for the tests: four workers, one application loaded before they fork."""

bind = "127.0.0.1:0"
workers = 4
preload_app = True
graceful_timeout = 10


def post_fork(server: object, worker: object) -> None:
    from tests.support.web_app import executor

    executor.start_when_free()
