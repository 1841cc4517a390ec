"""Ids of graph runs: made from the graph's, used as the name of a folder."""

import os
import time

from lillux.errors import UnsafePathError
from lillux.files import check_relative
from ryeos.graph.run_errors import RunIdError

MAX_ID_BYTES = 200
_LONGEST_GRAPH = 160


def run_id_for(graph_id: str, *, epoch_ms: int, chance: bytes) -> str:
    """``<graph id, each / as ->-<milliseconds>-<4 hex digits>``; a long id keeps its end."""
    name = graph_id.replace("/", "-").lstrip(".-")
    last = name.encode()[-_LONGEST_GRAPH:].decode("utf-8", "ignore")
    return f"{last.lstrip('.-') or 'graph'}-{epoch_ms}-{chance[:2].hex()}"


def new_run_id(graph_id: str) -> str:
    """The id of a run that begins now."""
    return run_id_for(graph_id, epoch_ms=time.time_ns() // 1_000_000, chance=os.urandom(2))


def check_run_id(run_id: str) -> str:
    """The id, if it may be the name of a folder and of a file. Raises RunIdError."""
    try:
        check_relative(run_id)
    except UnsafePathError as error:
        raise RunIdError(run_id, error.problem) from None
    if "/" in run_id:
        raise RunIdError(run_id, "expected no '/'")
    if run_id.startswith("."):
        raise RunIdError(run_id, "starts with a dot")
    if len(run_id.encode("utf-8", "surrogateescape")) > MAX_ID_BYTES:
        raise RunIdError(run_id, f"expected at most {MAX_ID_BYTES} bytes")
    return run_id
