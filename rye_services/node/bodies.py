"""Bodies of requests as values, read where nobody waits for it.

FastAPI would parse a body on the event loop: 50 MiB would keep every other request waiting. The
schema of a body still appears in the description of the interface: `described`.
"""

from typing import Any, TypeVar

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ValidationError
from starlette.concurrency import run_in_threadpool

Body = TypeVar("Body", bound=BaseModel)


async def read_body(request: Request, model: type[Body]) -> Body:
    """The body of a request. Raises RequestValidationError, which is answered with 422."""
    return await run_in_threadpool(parse_body, await request.body(), model)


def parse_body(body: bytes, model: type[Body]) -> Body:
    """The value in the bytes of a body. Raises RequestValidationError."""
    try:
        return model.model_validate_json(body)
    except ValidationError as error:
        found = error.errors(include_url=False, include_context=False, include_input=False)
        details = [{**one, "loc": ("body", *one["loc"])} for one in found]
        raise RequestValidationError(details) from error


def described(model: type[BaseModel]) -> dict[str, Any]:
    """What OpenAPI says about a route with such a body, for its ``openapi_extra``."""
    schema = model.model_json_schema()
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}
