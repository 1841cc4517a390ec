"""From a response to a result. Pure.

A body is what its JSON means, whatever its type is called; else text; else, when it is neither,
``{"encoding": "base64", "content_type": ..., "data": ...}``.
"""

from base64 import b64encode
from collections.abc import Mapping
from typing import Any

from ryeos.executor.results import json_or

_TEXT_ENDINGS = ("json", "xml", "/javascript", "/x-www-form-urlencoded")


def parsed_body(body: bytes, headers: Mapping[str, str]) -> Any:  # noqa: ANN401 - JSON passes through
    """The body as a JSON value."""
    content_type = headers.get("content-type", "")
    text = _text(body, content_type)
    if text is not None:
        return json_or(text, text)
    data = b64encode(body).decode("ascii")
    return {"encoding": "base64", "content_type": content_type, "data": data}


def is_success(status: int) -> bool:
    """Whether a status counts as success: it is one, or says where to look."""
    return 200 <= status < 400  # noqa: PLR2004 - the classes of statuses


def status_error(status: int, reason: str) -> str | None:
    """What went wrong, by the status; None for nothing."""
    return None if is_success(status) else f"HTTP {status}: {reason or 'no reason given'}"


def _text(body: bytes, content_type: str) -> str | None:
    """The body as text; None for one that is something else."""
    kind, _, parameters = content_type.lower().partition(";")
    kind = kind.strip()
    charset = _charset(parameters)
    if charset or kind.startswith("text/") or kind.endswith(_TEXT_ENDINGS):
        try:
            return body.decode(charset or "utf-8", "replace")
        except LookupError:
            return body.decode("utf-8", "replace")
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError:
        return None
    return None if "\0" in text else text


def _charset(parameters: str) -> str:
    for parameter in parameters.split(";"):
        name, _, value = parameter.partition("=")
        if name.strip() == "charset":
            return value.strip().strip('"')
    return ""
