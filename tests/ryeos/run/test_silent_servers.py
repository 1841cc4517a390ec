"""Servers that leave the probe without an answer are remembered, and forgotten when they change."""

import os
from pathlib import Path

import pytest

from lillux.mcp_client.errors import McpProtocolError, McpRefusedError, McpTimeoutError
from lillux.mcp_client.versions import AllowedVersions
from ryeos.run import silent_servers
from ryeos.run.silent_servers import DEAD_S, KEPT_S, SHORT_S, SilentServer

AUTO = AllowedVersions()


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return {"RYE_CACHE_DIR": str(tmp_path / "cache")}


def in_another_process(server: SilentServer) -> SilentServer:
    """The same, as a process sees it that has not called the server."""
    silent_servers._in_this_process.clear()
    silent_servers._dead_in_this_process.clear()
    return server


def test_a_server_that_kept_silent_is_begun_in_the_older_way_by_every_later_process(
    env: dict[str, str],
) -> None:
    server = SilentServer(("python3", "s.py"), env)
    before = server.allowed(AUTO)

    server.remember()

    assert (before, server.allowed(AUTO)) == (AUTO, AUTO.legacy_only)
    assert in_another_process(server).allowed(AUTO) == AUTO.legacy_only
    assert SilentServer(("python3", "other.py"), env).allowed(AUTO) == AUTO


@pytest.mark.parametrize("env", [{}, {"RYE_CACHE_DIR": "/dev/null/none"}], indirect=False)
def test_without_a_cache_it_is_remembered_as_long_as_the_process_lives(env: dict[str, str]) -> None:
    server = SilentServer(("python3", str(env)), env)

    server.remember()

    assert server.allowed(AUTO) == AUTO.legacy_only
    assert in_another_process(server).allowed(AUTO) == AUTO


def test_a_named_revision_is_never_changed(env: dict[str, str]) -> None:
    server = SilentServer(("python3", "named.py"), env)
    server.remember()

    for wanted in (AllowedVersions(legacy=""), AllowedVersions(modern=False, legacy="2025-03-26")):
        assert server.allowed(wanted) == wanted


def test_after_thirty_days_a_server_is_asked_anew(env: dict[str, str], tmp_path: Path) -> None:
    server = SilentServer(("python3", "old.py"), env)
    server.remember()
    (mark,) = (tmp_path / "cache" / "servers").iterdir()

    os.utime(mark, (0, mark.stat().st_mtime - KEPT_S))

    assert in_another_process(server).allowed(AUTO) == AUTO


NOT_BEGUN = McpTimeoutError("s", "start of the conversation", 20)


@pytest.mark.parametrize("place", ["cache", ""])
def test_a_server_that_answers_nothing_is_waited_for_once(place: str, tmp_path: Path) -> None:
    known = {"RYE_CACHE_DIR": str(tmp_path / place)} if place else {}
    server = SilentServer(("python3", "dead.py", place), known)
    first = server.start_s(20)

    server.forget_after(McpTimeoutError("s", "tools/call", 300))
    of_a_slow_tool = server.start_s(20)
    server.forget_after(NOT_BEGUN)

    assert (first, of_a_slow_tool, server.start_s(20), server.start_s(1)) == (20, 20, SHORT_S, 1)
    assert in_another_process(server).start_s(20) == (SHORT_S if place else 20)


def test_a_server_that_is_back_gets_its_whole_time_again(
    env: dict[str, str], tmp_path: Path
) -> None:
    server = SilentServer(("python3", "back.py"), env)
    server.forget_after(NOT_BEGUN)
    server.answered()
    after_an_answer = server.start_s(20)

    server.forget_after(NOT_BEGUN)
    (mark,) = (tmp_path / "cache" / "servers").iterdir()
    os.utime(mark, (0, mark.stat().st_mtime - DEAD_S))

    assert (after_an_answer, in_another_process(server).start_s(20)) == (20, 20)


def test_a_server_that_refuses_the_older_way_is_asked_anew(env: dict[str, str]) -> None:
    server = SilentServer(("python3", "modern.py"), env)
    server.remember()

    server.forget_after(McpTimeoutError("s", "tools/call", 1))
    server.forget_after(McpRefusedError("s", -32602, "no such tool", stage="tools/call"))
    kept = server.allowed(AUTO)
    server.forget_after(McpRefusedError("s", -32022, "only the modern", stage="initialize"))
    forgotten = server.allowed(AUTO)
    server.remember()
    server.forget_after(McpProtocolError("s", "another revision"))

    assert (kept, forgotten, server.allowed(AUTO)) == (AUTO.legacy_only, AUTO, AUTO)
