"""Values that can be stored as JSON, and what keeps others from it.

A tool may answer ``NaN``, a pipe may give an infinite number, a loop may nest a value ever
deeper: what JSON cannot hold fails the node that it comes from, for the run could not be resumed
with it. Pure.
"""

from collections.abc import Mapping

from lillux.canonical_json import CanonicalJsonError, require_json

MAX_SIZE = 16 * 1024 * 1024
"""Of one value: its characters and its parts, together. What is larger belongs into a file."""


def storage_problem(value: object) -> str | None:
    """Why a value cannot be part of a run; None if it can.

    It has levels of nesting to spare for the objects and lists that it is stored in.
    """
    if is_too_large(value):  # first: what is small in memory may be endless as JSON
        return f"expected at most {MAX_SIZE} characters and parts, found more"
    try:
        require_json([[[[value]]]])
    except CanonicalJsonError as error:
        return f"expected {error.expected}, found {error.found}"
    return None


def is_too_large(value: object) -> bool:
    """True if a value as JSON is larger than `MAX_SIZE`; stops counting there."""
    left, parts = MAX_SIZE, [value]
    while parts and left >= 0:
        part = parts.pop()
        left -= 1
        if isinstance(part, str):
            left -= len(part)
        elif isinstance(part, Mapping):
            left -= sum(map(len, part)) if all(isinstance(key, str) for key in part) else 0
            parts.extend(part.values())
        elif isinstance(part, list | tuple):
            parts.extend(part)
    return left < 0
