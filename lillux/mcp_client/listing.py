"""All tools of a server, asked for page by page. Pure."""

from collections.abc import Mapping
from typing import Any, ClassVar

from lillux.values import dataclass

MAX_TOOLS, MAX_PAGES = 1000, 40


@dataclass(frozen=True, slots=True)
class ToolListing:
    """Asks for every tool; the answer's result is ``{"tools": [...], "truncated": bool}``."""

    method: ClassVar[str] = "tools/list"


class Pages:
    """The tools that came so far. ``next_cursor`` asks for more, ``""`` where that is all."""

    def __init__(self) -> None:
        self._tools: list[Mapping[str, Any]] = []
        self._count = 0
        self._is_cut = False
        self.next_cursor = ""

    def add(self, result: Mapping[str, Any]) -> str:
        """Take a page; what is wrong with it, ``""`` for nothing."""
        tools = result.get("tools")
        if not isinstance(tools, list) or not all(isinstance(tool, dict) for tool in tools):
            return "expected a result whose tools is a list of objects"
        cursor = result.get("nextCursor")
        if not isinstance(cursor, str | None):
            return "expected a result whose nextCursor is a string"
        self._count += 1
        self._tools += tools
        self._is_cut = len(self._tools) > MAX_TOOLS or bool(cursor and self._count == MAX_PAGES)
        self.next_cursor = "" if self._is_cut else cursor or ""
        return ""

    def result(self) -> dict[str, Any]:
        """All of them, at most `MAX_TOOLS`."""
        return {"tools": self._tools[:MAX_TOOLS], "truncated": self._is_cut}
