import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lillux.process.children import PosixGroup, WindowsTree, tree_of

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="stands in for Windows' taskkill")


@pytest.fixture
def process() -> Iterator["subprocess.Popen[bytes]"]:
    with subprocess.Popen(["/bin/sleep", "1000"]) as process:
        yield process
        process.kill()


@pytest.fixture
def taskkill_log(tmp_path: Path) -> Path:
    log = tmp_path / "log"
    taskkill = tmp_path / "System32" / "taskkill.exe"
    taskkill.parent.mkdir()
    taskkill.write_text(f'#!/bin/sh\necho "$@" >> "{log}"\n', encoding="utf-8")
    taskkill.chmod(0o755)
    return log


def test_on_windows_the_whole_tree_is_ended_by_the_program_of_the_system(
    process: "subprocess.Popen[bytes]", taskkill_log: Path, tmp_path: Path
) -> None:
    tree = tree_of(process, {"SYSTEMROOT": str(tmp_path)}, platform="win32")

    tree.terminate()

    assert isinstance(tree, WindowsTree)
    assert taskkill_log.read_text(encoding="utf-8") == f"/T /F /PID {process.pid}\n"
    assert process.wait() != 0


def test_on_windows_a_child_that_has_ended_is_left_alone(
    process: "subprocess.Popen[bytes]", taskkill_log: Path, tmp_path: Path
) -> None:
    process.kill()
    process.wait()

    WindowsTree(process, tmp_path).kill()

    assert not taskkill_log.exists()


def test_on_windows_a_missing_taskkill_still_ends_the_child(
    process: "subprocess.Popen[bytes]", tmp_path: Path
) -> None:
    WindowsTree(process, tmp_path).kill()

    assert process.wait() != 0


def test_a_group_that_is_gone_can_be_signalled_without_harm() -> None:
    with subprocess.Popen(["/bin/sleep", "0"], start_new_session=True) as process:
        process.wait()
    group = tree_of(process, {}, platform="linux")

    group.terminate()
    group.kill()

    assert isinstance(group, PosixGroup)
