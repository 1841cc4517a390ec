"""A server that cannot start answers its first request with the reason.

A file of its own because only a failed start imports it.
"""

import os
import sys

from lillux.errors import LilluxError
from lillux.jsonrpc import (
    INTERNAL_ERROR,
    Failure,
    LineDecoder,
    OverlongLine,
    Request,
    encode_line,
    parse_messages,
)

PATIENCE_S = 10.0
_MAX_LINE_BYTES = 1024 * 1024


def answer_first_request(error: LilluxError, reader: int = 0, writer: int = 1) -> None:
    """Wait for a request, not longer than clients do, and answer it with a failure.

    Does nothing where a person types, and raises nothing.
    """
    try:
        request = None if os.isatty(reader) else _first_request(reader)
        if request:
            data = {"code": error.code} | ({"hint": error.hint} if error.hint else {})
            os.write(writer, encode_line(Failure(request.id, INTERNAL_ERROR, str(error), data)))
    except OSError:  # the client is gone
        return


def _first_request(reader: int) -> Request | None:
    lines = LineDecoder(_MAX_LINE_BYTES)
    while _is_ready(reader) and (chunk := os.read(reader, 65536)):
        for line in lines.feed(chunk):
            if isinstance(line, OverlongLine):
                continue
            for message in parse_messages(line):
                if isinstance(message, Request):
                    return message
    return None


def _is_ready(reader: int) -> bool:
    if sys.platform == "win32":  # pipes cannot be waited for
        return True
    import select

    return bool(select.select([reader], [], [], PATIENCE_S)[0])
