"""What a worker reports to the server while it runs: a line of JSON for each, on standard error.

A file of its own because the worker imports it, and must not import a database. A program that the
worker runs may write such lines too, so the server decides nothing by them that concerns any other
execution.
"""

import json
from collections.abc import Callable

STDOUT, STDERR = "stdout", "stderr"
RETRYABLE = "retryable"
CONFIDENTIAL = "confidential"
BEGIN = "begin"
_STREAMS = frozenset({STDOUT, STDERR, RETRYABLE, CONFIDENTIAL, BEGIN})


def report(write: Callable[[bytes], object], stream: str, text: str) -> None:
    """Report a piece of output, or a fact about the item, before it runs.

    The facts: `RETRYABLE`, its item may run again; `CONFIDENTIAL`, the names of its secret
    parameters, as JSON; `BEGIN`, the last one: all was reported, and the worker waits for the word
    to begin.
    """
    write(json.dumps([stream, text]).encode() + b"\n")


def read_report(line: bytes) -> tuple[str, str] | None:
    """The stream and the text of a line; None for a line of another form."""
    try:
        match json.loads(line):
            case [str(stream), str(text)] if stream in _STREAMS:
                return stream, text
    except (ValueError, RecursionError):
        pass
    return None
