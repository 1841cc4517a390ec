"""What a worker tells the server while it runs: a line of JSON for each piece, on standard error.

A file of its own because the worker imports it, and must not import a database. What a program
writes is a stranger's text, and it may write here too: the server decides nothing by it but what
concerns this very execution.
"""

import json
from collections.abc import Callable

STDOUT, STDERR = "stdout", "stderr"
RETRYABLE = "retryable"


def tell(write: Callable[[bytes], object], stream: str, text: str) -> None:
    """Tell the server of a piece, or of a fact: ``stream`` is `RETRYABLE` then."""
    write(json.dumps([stream, text]).encode() + b"\n")


def told(line: bytes) -> tuple[str, str] | None:
    """What a line of a worker tells; None for one that is not of that form."""
    try:
        match json.loads(line):
            case [(("stdout" | "stderr" | "retryable") as stream), str(text)]:
                return stream, text
    except (ValueError, RecursionError):
        pass
    return None
