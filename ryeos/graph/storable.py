"""Values that can be written down. Pure.

A tool may answer ``NaN``, a pipe may give an infinite number, a loop may nest a value ever deeper:
what JSON cannot hold fails the node that it comes from, for the run could not be resumed with it.
"""

from lillux.integrity import CanonicalJsonError, require_json


def storage_problem(value: object) -> str | None:
    """Why a value cannot be part of a run; None if it can.

    It has levels of nesting to spare for the objects and lists that it is written down in.
    """
    try:
        require_json([[[[value]]]])
    except CanonicalJsonError as error:
        return f"expected {error.expected}, found {error.found}"
    return None
