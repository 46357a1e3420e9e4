"""Jobs in memory: how many, and how long their parameters may be together."""

from __future__ import annotations

import pytest

from tests.support.rows import make_job
from xwheel.scheduler import job_cache
from xwheel.scheduler.job_cache import JobCache


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_cache, "CACHED_JOBS", 10)
    monkeypatch.setattr(job_cache, "CACHED_CHARS", 1000)


def total(cache: JobCache) -> int:
    return sum(len(job.param) for job in cache.jobs.values())


def test_p11_the_newest_jobs_stay_until_their_parameters_are_too_long_together() -> None:
    cache = JobCache()
    for number in range(1, 9):
        cache.remember([make_job(id=number, param="x" * 200)])
        assert total(cache) <= 1000
        assert number in cache.jobs
    assert list(cache.jobs) == [4, 5, 6, 7, 8]


def test_p11_a_job_that_is_read_again_and_again_pushes_no_other_out() -> None:
    cache = JobCache()
    cache.remember([make_job(id=1, param="y" * 100)])
    for revision in range(100):
        cache.remember([make_job(id=2, param="x" * 100, revision=revision)])
    assert cache.jobs[2].revision == 99
    assert cache.jobs.keys() == {1, 2}


def test_p11_of_what_is_too_long_at_once_only_the_short_ones_are_remembered() -> None:
    cache = JobCache()
    cache.remember([make_job(id=number, param="x" * (300 if number % 2 else 100)) for number in range(1, 9)])
    assert cache.jobs.keys() == {2, 4, 6, 8}
    # what was too long takes no room: as much as fits next to these four stays with them
    cache.remember([make_job(id=9, param="y" * 600)])
    assert cache.jobs.keys() == {2, 4, 6, 8, 9}
    cache.remember([make_job(id=10, param="z")])
    assert total(cache) <= 1000
    assert 2 not in cache.jobs


def test_the_older_half_goes_when_there_are_too_many() -> None:
    cache = JobCache()
    for number in range(1, 12):
        cache.remember([make_job(id=number)])
    assert list(cache.jobs) == [6, 7, 8, 9, 10, 11]
