"""JSON Schemas of the files that people write, for the editors that complete and check them.

Draft 07: what the YAML and JSON plugins of editors and our own validator understand alike. A
schema knows the structure; what needs the whole file (targets of edges, expressions, references)
or the machine is told by ``rye graph validate`` and by the run.
"""

from collections.abc import Mapping
from importlib import import_module
from typing import Any

NAMES = ("graph", "runtime", "test", "tool")


def schema_named(name: str) -> Mapping[str, Any]:
    """The schema with this name, one of `NAMES`. Raises KeyError."""
    if name not in NAMES:
        raise KeyError(name)
    schema: Mapping[str, Any] = import_module(f"ryeos.schemas.{name}").SCHEMA
    return schema
