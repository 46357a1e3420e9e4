"""FastAPI: the scheduler lives as long as the application, and coroutine handlers run on its loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI

from tests.support.embedded_apps import jobs


@asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncIterator[None]:
    async with jobs.scheduler:
        yield


app = FastAPI(lifespan=lifespan)


@app.get("/")
async def state() -> dict[str, object]:
    return jobs.state()


@app.post("/trigger")
async def trigger() -> dict[str, object]:
    return await asyncio.to_thread(jobs.trigger)
