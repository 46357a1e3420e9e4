"""Django, loaded before gunicorn forks: the scheduler starts in ``post_fork``."""

from __future__ import annotations

from django.conf import settings
from django.core.wsgi import get_wsgi_application
from django.http import HttpRequest, JsonResponse
from django.urls import path

from tests.support.embedded_apps import jobs

settings.configure(ALLOWED_HOSTS=["127.0.0.1"], ROOT_URLCONF=__name__, SECRET_KEY="for tests alone", USE_TZ=True)


def state(_: HttpRequest) -> JsonResponse:
    return JsonResponse(jobs.state())


def trigger(_: HttpRequest) -> JsonResponse:
    return JsonResponse(jobs.trigger())


urlpatterns = [path("", state), path("trigger", trigger)]
application = get_wsgi_application()
