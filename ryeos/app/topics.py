"""The topics of ``help``, and what to read next.

The text of a topic is the file ``help_texts/TOPIC.md`` beside this module, which is read when the
topic is asked for. It begins with its one-line summary, and has at most `MAX_CHARACTERS`. Lines
that begin with ``$ `` are for people on the command line, and name commands; lines that begin with
``> `` are for agents over MCP, and name calls of tools; all others are for both. See `text_for`.
"""

from collections.abc import Mapping
from enum import StrEnum


class Face(StrEnum):
    """The reader of a text; the value is the mark of the lines that only this reader gets."""

    PERSON = "$"
    AGENT = ">"


def text_for(text: str, face: Face) -> str:
    """The lines of a text that are for this reader, without marks."""
    lines = []
    for line in text.split("\n"):
        mark, rest = line[:1], line[2:]
        if line[1:2].strip() or mark not in set(Face):
            lines.append(line)
        elif mark == face:
            lines.append(rest)
    return "\n".join(lines)


def topic_text(topic: str) -> str:
    """The text of a topic of `TOPICS` or `COMMAND_LINE_TOPICS`, with the marks of its readers.

    By the loader of this package: the texts lie in rye.pyz, in a wheel or in a checkout.
    """
    from pkgutil import get_data

    data = get_data("ryeos.app", f"help_texts/{topic}.md")
    assert data is not None  # noqa: S101 - each of our loaders has `get_data`
    return data.decode("utf-8")


MAX_CHARACTERS = 4000
OVERVIEW = "overview"

TOPICS = (
    "search",
    "load",
    "fetch",
    "execute",
    "sign",
    "directives",
    "tools",
    "knowledge",
    "runtimes",
    "graphs",
    "remote",
    "registry",
    "config",
    "setup",
    "mcp",
    "cli",
    "spaces",
    "signing",
    "refs",
    "parameters",
    "chain",
    "threads",
    "errors",
    "bundle",
    "test",
)
"""Those for agents and people, in the order of lists."""

COMMAND_LINE_TOPICS = ("exit-status", "environment")
"""Those for people alone."""

# The tools to know first, with what they are for. The overview names those that are here.
MAIN_TOOLS: Mapping[str, str] = {
    "rye/file-system/read": "a file; in its folder edit_lines, write, ls, glob, grep",
    "rye/code/git": "status, diff, log, show, blame, add, commit, branches",
    "rye/bash/bash": "any command",
    "rye/web/fetch": "a page as Markdown; in its folder search",
    "rye/core/processes/list": "background runs; in its folder status, steps, cancel",
    "rye/core/testing/test": "the cases of a tool",
    "rye/mcp/manager": "tools of MCP servers, as items",
    "rye/core/registry/registry": "published items and bundles",
    "rye/core/remote/remote": "other machines",
}

# Words that mean a topic of another name.
SYNONYMS: Mapping[str, str] = {
    "help": OVERVIEW,
    "run": "execute",
    "call": "execute",
    "key": "signing",
    "keys": "signing",
    "trust": "signing",
    "approval": "signing",
    "approve": "signing",
    "verify": "signing",
    "id": "refs",
    "ids": "refs",
    "params": "parameters",
    "inputs": "parameters",
    "arguments": "parameters",
    "permissions": "graphs",
    "background": "threads",
    "async": "threads",
    "executor": "chain",
    "lock": "chain",
    "init": "setup",
    "install": "setup",
    "doctor": "setup",
    "node": "remote",
    "nodes": "remote",
    "cases": "test",
    "project": "spaces",
    "codes": "errors",
    "cancel": "threads",
    "limits": "config",
    "timeout": "config",
    "timeouts": "config",
    "settings": "config",
}
SEE_ALSO: Mapping[str, tuple[str, ...]] = {
    OVERVIEW: ("search", "execute", "bundle", "setup"),
    "search": ("load", "fetch", "refs"),
    "load": ("search", "sign", "spaces"),
    "fetch": ("load", "search"),
    "execute": ("tools", "directives", "chain"),
    "sign": ("signing", "setup"),
    "directives": ("execute", "sign"),
    "tools": ("runtimes", "parameters", "sign", "test"),
    "knowledge": ("search", "sign"),
    "runtimes": ("tools", "chain"),
    "spaces": ("refs", "load"),
    "signing": ("sign", "errors"),
    "chain": ("runtimes", "errors"),
    "setup": ("signing", "cli"),
    "threads": ("execute", "graphs", "errors"),
    "graphs": ("execute", "threads", "tools"),
    "remote": ("registry", "threads"),
    "registry": ("bundle", "signing"),
    "bundle": ("search", "load", "registry"),
    "test": ("tools", "execute"),
    "errors": ("signing", "refs"),
}
