"""Threads for long work on stores: a few of all there are, so that no other request waits."""

from collections.abc import Callable
from typing import TypeVar

from anyio import CapacityLimiter, to_thread
from fastapi import Request
from pydantic import BaseModel

from rye_services.node.bodies import parse_body

PLACES = 8
"""Requests at work on stores at a time; the next one waits. Each may hold 200 MB for a moment."""

Answer = TypeVar("Answer")
Body = TypeVar("Body", bound=BaseModel)


class StoreThreads:
    """Places for work on stores."""

    def __init__(self, places: int = PLACES) -> None:
        self._limiter = CapacityLimiter(places)

    async def answer(
        self, request: Request, model: type[Body], work: Callable[[Body], Answer]
    ) -> Answer:
        """What some work makes of the body of a request, both in one thread.

        Raises RequestValidationError, and what the work raises.
        """
        body = await request.body()

        def parse_and_work() -> Answer:
            return work(parse_body(body, model))

        return await to_thread.run_sync(parse_and_work, limiter=self._limiter)
