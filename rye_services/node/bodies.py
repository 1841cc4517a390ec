"""Bodies of requests as values, read where nobody waits for it.

FastAPI would parse a body on the event loop: 50 MiB would keep every other request waiting. The
schema of a body still appears in the description of the interface: `described`. Who reads them:
`rye_services.node.store_threads`.
"""

from typing import Any, TypeVar

from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ValidationError

Body = TypeVar("Body", bound=BaseModel)


def parse_body(body: bytes, model: type[Body]) -> Body:
    """The value in the bytes of a body. Raises RequestValidationError, answered with 422."""
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
