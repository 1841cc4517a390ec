"""What a request is refused with, and how every refusal looks: JSON, ``{"detail": ...}``.

What nobody expected is logged under a number, and the caller is told the number, nothing else.
"""

import errno
import logging
import os
import sqlite3
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_SHOWN_OF_AN_ERROR = ("type", "loc", "msg")


class Problem(HTTPException):
    """A request that is refused: its status, and what the caller is told."""

    def __init__(self, status: int, detail: Any, headers: dict[str, str] | None = None) -> None:  # noqa: ANN401 - any JSON
        super().__init__(status, detail, headers)


class Unauthorized(Problem):
    """A request of nobody known. The text is the same whatever was wrong; ``cause`` is for logs."""

    def __init__(self, cause: str) -> None:
        super().__init__(401, "unauthorized", {"WWW-Authenticate": "Bearer"})
        logging.getLogger(__name__).info("refused a request: %s", cause)


def answer_problems(app: FastAPI) -> None:
    """Have refusals of the application answered in the one form."""
    app.add_exception_handler(HTTPException, _refusal)
    app.add_exception_handler(RequestValidationError, _wrong_fields)


async def _refusal(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)  # noqa: S101 - what it is registered for
    return JSONResponse({"detail": error.detail}, error.status_code, error.headers)


async def _wrong_fields(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)  # noqa: S101 - what it is registered for
    # Without what was sent: it may be a secret, and it may be large.
    details = [{key: one[key] for key in _SHOWN_OF_AN_ERROR} for one in error.errors()]
    return JSONResponse({"detail": details}, 422)


class UnexpectedErrors:
    """The outermost part of the application: whatever else is raised becomes a 500."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        started = False

        async def noting(message: Message) -> None:
            nonlocal started
            started = started or message["type"] == "http.response.start"
            await send(message)

        try:
            await self._app(scope, receive, noting)
        except ClientDisconnect:  # nobody is there to be answered
            where = ascii(f"{scope['method']} {scope['path'][:200]}")[1:-1]
            logging.getLogger(__name__).info("the caller hung up: %s", where)
        except Exception as error:  # the outermost door of a request
            number = os.urandom(4).hex()
            where = f"{scope.get('method', '')} {scope.get('path', '')}"
            logging.getLogger(__name__).exception("error %s at %s", number, where)
            if started or scope["type"] != "http":
                raise  # the connection is cut, so that nobody takes what there is for the whole
            status, what = (507, "no room left on the disk, error") if is_full(error) else _UNKNOWN
            detail = f"{what} {number}: the log of the node says more"
            await JSONResponse({"detail": detail}, status)(scope, receive, send)


_UNKNOWN = (500, "internal error")
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})


def is_full(error: BaseException) -> bool:
    """Whether it came of a full disk, which no caller can help."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError) and cause.errno in _FULL:
            return True
        if getattr(cause, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL:
            return True
        cause = cause.__cause__ or cause.__context__
    return False
