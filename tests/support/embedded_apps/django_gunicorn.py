"""gunicorn's configuration for the Django application."""

preload_app = True


def post_fork(server: object, worker: object) -> None:
    from tests.support.embedded_apps.jobs import scheduler

    scheduler.start()
