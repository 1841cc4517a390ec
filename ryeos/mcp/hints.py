"""Hints for those who call tools: an argument where the command line has a flag. Pure.

A hint that is a whole command (``rye keys generate``) stays as it is: no tool does that.
"""

import re
from collections.abc import Mapping
from typing import Any

_WORDINGS = (
    (re.compile(r"--async\b"), "async"),
    (re.compile(r"--overwrite\b"), "overwrite"),
    (re.compile(r"--target local\b"), "target local"),
    (re.compile(r"--project DIR, or make one with: rye init --project"), "project_path"),
    (re.compile(r"--project DIR\b"), "project_path"),
    (
        re.compile(r"copy it first: rye load (\S+) --to (project|user)"),
        r"copy it first: load with item_id \1 and destination \2",
    ),
    (
        re.compile(r"(\S+)=\.\.\. is text; give JSON with \1:=\.\.\."),
        r"give \1 as JSON, not as text",
    ),
    (re.compile(r"list what there is with: rye search '\*'"), "list what there is: search for *"),
)


def for_callers(envelope: Mapping[str, Any]) -> dict[str, Any]:
    """The envelope, with its hint in the words of a tool's arguments."""
    hint = envelope.get("hint")
    if not isinstance(hint, str):
        return dict(envelope)
    for flag, argument in _WORDINGS:
        hint = flag.sub(argument, hint)
    return {**envelope, "hint": hint}
