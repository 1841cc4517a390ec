"""MCP servers that leave the probe for the modern revision without an answer.

Such a server costs seconds once. It is remembered in this process and, as an empty file named by a
digest, in the user's cache, for 30 days. It decides no more than which revision is tried first: a
server that refuses that one is forgotten and asked anew.

A file of its own because both transports use it, and nothing else may.
"""

import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from time import time

from lillux.digests import canonical_json, sha256_hex
from lillux.mcp_client.session import McpClientError, McpProtocolError, McpRefusedError
from lillux.mcp_client.versions import AllowedVersions
from ryeos.items.context import cache_place

KIND = "servers"  # of the folders of the cache
KEPT_S = 30 * 24 * 3600
_in_this_process: set[str] = set()


class SilentServer:
    """What is known of one server. ``words`` are its command and folder, or its address."""

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

    def forget_after(self, error: McpClientError) -> None:
        """Ask it anew next time, where it has refused the revision."""
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
