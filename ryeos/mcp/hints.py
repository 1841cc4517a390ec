"""Hints for those who call tools: a tool where they name a command, an argument for a flag. Pure.

A command that no tool stands for (``rye keys generate``) stays as it is.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any

_Wordings = Iterable[tuple[re.Pattern[str], str]]

_COMMANDS: _Wordings = (
    (
        re.compile(r"copy it first: rye load (\S+) --to (project|user)"),
        r"copy it first: load with item_id \1 and destination \2",
    ),
    (
        re.compile(r"list what there is with: rye search '\*' --type (\w+)"),
        r"list what there is: search for * with item_type \1",
    ),
    (re.compile(r"list what there is with: rye search '\*'"), "list what there is: search for *"),
    (re.compile(r"rye load (\S+)"), r"help with topic item:\1"),
    (re.compile(r"rye help (\S+)"), r"help with topic \1"),
    # What a file is called below its space is the id of its item.
    (
        re.compile(r"rye sign .*/\.ai/(tool|directive)s/(.+)\.[^./]+$"),
        r"sign with item_id \1:\2",
    ),
    (re.compile(r"rye sign .*/\.ai/knowledge/(.+)\.[^./]+$"), r"sign with item_id knowledge:\1"),
    (re.compile(r"rye sign \S.*$"), "sign with its item_id"),
    (
        re.compile(r"rye graph validate shows"),
        'execute with parameters {"validate": true} shows',
    ),
    (
        re.compile(r"rye graph validate (\S+)"),
        r'execute with item_id \1 and parameters {"validate": true}',
    ),
    (re.compile(r"rye graph resume (\S+)"), r"execute with resume_thread_id \1"),
)
_FLAGS: _Wordings = (
    (re.compile(r"--async\b"), "async"),
    (re.compile(r"--overwrite\b"), "overwrite"),
    (re.compile(r"--target local\b"), "target local"),
    (re.compile(r"--project DIR, or make one with: rye init --project"), "project_path"),
    (re.compile(r"--project DIR\b"), "project_path"),
    (
        re.compile(r"(\S+)=\.\.\. is text; give JSON with \1:=\.\.\."),
        r"give \1 as JSON, not as text",
    ),
)


def for_callers(envelope: Mapping[str, Any]) -> dict[str, Any]:
    """The envelope of a tool, with its hint in the words of tools and of their arguments."""
    hint = envelope.get("hint")
    if not isinstance(hint, str):
        return dict(envelope)
    return {**envelope, "hint": _reworded(naming_tools(hint), _FLAGS)}


def naming_tools(hint: str) -> str:
    """The hint, for who can call tools but has called none: flags are those of the server."""
    return _reworded(hint, _COMMANDS)


def _reworded(hint: str, wordings: _Wordings) -> str:
    for found, told in wordings:
        hint = found.sub(told, hint)
    return hint
