"""MCP servers that leave the probe for the modern revision, or everything, without an answer.

Such a probe costs seconds once. It is remembered in this process and, as an empty file named by a
digest, in the user's cache, for 30 days. It decides no more than which revision is tried first: a
server that refuses that one is forgotten and asked anew.

A server that answered nothing in the time that it has to begin gets `SHORT_S` at the calls of the
next `DEAD_S`: one that is gone costs its whole time once, and one that is back is found soon.

A file of its own because both transports use it, and nothing else may.
"""

import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from time import time

from lillux.canonical_json import canonical_json
from lillux.digests import sha256_hex
from lillux.mcp_client.errors import (
    McpClientError,
    McpProtocolError,
    McpRefusedError,
    McpTimeoutError,
)
from lillux.mcp_client.versions import AllowedVersions
from ryeos.items.context import cache_place

KIND = "servers"  # of the folders of the cache
KEPT_S = 30 * 24 * 3600
DEAD_S, SHORT_S = 60, 3.0
_DEAD = ".dead"
_BEGINNING = "start of the conversation"
_dead_in_this_process: dict[str, float] = {}
_in_this_process: set[str] = set()


class SilentServer:
    """Facts about one server. ``words`` are its command and folder, or its address."""

    def __init__(self, words: Sequence[str], env: Mapping[str, str]) -> None:
        self._name, self._env = sha256_hex(canonical_json(list(words))), env

    def allowed(self, wanted: AllowedVersions) -> AllowedVersions:
        """The revisions to try: without the probe where it is known to be in vain."""
        if wanted.modern and wanted.legacy and self._is_known():
            return wanted.legacy_only
        return wanted

    def remember(self) -> None:
        """The probe was not answered."""
        _in_this_process.add(self._name)
        folder = cache_place(self._env, KIND, sys.platform)
        if folder:
            with suppress(OSError):  # a cache that cannot be written
                (folder / self._name).touch(mode=0o600)

    def start_s(self, usual_s: float) -> float:
        """The time it may take to begin: less where it answered nothing a moment ago."""
        since = _dead_in_this_process.get(self._name, 0.0)
        folder = cache_place(self._env, KIND, sys.platform)
        if folder:
            with suppress(OSError):
                since = max(since, os.lstat(Path(folder, self._name + _DEAD)).st_mtime)
        return min(usual_s, SHORT_S) if 0 <= time() - since < DEAD_S else usual_s

    def answered(self) -> None:
        """It has begun: it gets its whole time again."""
        self._mark_dead(is_dead=False)

    def _mark_dead(self, *, is_dead: bool) -> None:
        folder = cache_place(self._env, KIND, sys.platform)
        path = folder / f"{self._name}{_DEAD}" if folder else None
        if is_dead:
            _dead_in_this_process[self._name] = time()
        else:
            _dead_in_this_process.pop(self._name, None)
        with suppress(OSError):  # a cache that cannot be written
            if path and is_dead:
                path.touch(mode=0o600)
            elif path:
                path.unlink(missing_ok=True)

    def forget_after(self, error: McpClientError) -> None:
        """Ask it anew next time, where it has refused the revision; less long where it is dead."""
        if isinstance(error, McpTimeoutError) and error.stage == _BEGINNING:
            self._mark_dead(is_dead=True)
            return
        self.answered()
        refused = isinstance(error, McpRefusedError) and error.stage == "initialize"
        if not refused and not isinstance(error, McpProtocolError):
            return
        _in_this_process.discard(self._name)
        folder = cache_place(self._env, KIND, sys.platform)
        if folder:
            with suppress(OSError):
                (folder / self._name).unlink()

    def _is_known(self) -> bool:
        if self._name in _in_this_process:
            return True
        folder = cache_place(self._env, KIND, sys.platform)
        if folder is None:
            return False
        with suppress(OSError):
            return os.lstat(Path(folder, self._name)).st_mtime > time() - KEPT_S
        return False
