"""Work that is done again and again while the node serves."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

from starlette.concurrency import run_in_threadpool


@asynccontextmanager
async def every(seconds: float, work: Callable[[], object]) -> AsyncIterator[None]:
    """Do the work in a thread, now and then every so many seconds. What it raises is logged."""

    async def repeat() -> None:
        while True:
            try:
                await run_in_threadpool(work)
            except Exception:  # a door: the next time may go well
                logging.getLogger(__name__).exception("%s", getattr(work, "__qualname__", work))
            await asyncio.sleep(seconds)

    task = asyncio.create_task(repeat())
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
