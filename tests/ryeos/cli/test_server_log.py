import subprocess
import sys
from pathlib import Path

import pytest

from lillux.errors import FileSystemError
from ryeos.cli.mcp import MAX_BYTES, server_log

ROOT = Path(__file__).resolve().parents[3]
# In a process of its own: the setup of logs belongs to the whole process.
_LOGS = """
import sys
sys.path.insert(0, sys.argv[1])
from ryeos.cli.mcp import server_log
log = server_log(sys.argv[2], {"RYE_LOG": sys.argv[3]} if sys.argv[3] else {})
for _ in range(int(sys.argv[4])):
    log("info", "x" * 100_000)
log("debug", "detail")
log("error", "the last\\nline")
"""


def logged(path: Path, level: str = "", times: int = 0) -> str:
    """The standard error of a process that logs this often."""
    argv = [sys.executable, "-c", _LOGS, str(ROOT), str(path), level, str(times)]
    ended = subprocess.run(argv, capture_output=True, check=True, encoding="utf-8")
    return ended.stderr


def test_a_file_gets_all_events_and_standard_error_gets_none(tmp_path: Path) -> None:
    said = logged(tmp_path / "log", times=1)

    assert said == ""
    text = (tmp_path / "log").read_text("utf-8")
    assert (text.count("INFO"), text.count("DEBUG"), text.count("ERROR the last")) == (1, 0, 1)


def test_standard_error_gets_the_requested_level(tmp_path: Path) -> None:
    said = logged(tmp_path / "log", "error", times=1)

    assert said.endswith(" ERROR the last\nline\n")
    assert said.startswith("rye[")


def test_a_file_that_is_full_becomes_the_one_before(tmp_path: Path) -> None:
    logged(tmp_path / "log", times=120)

    sizes = {path.name: path.stat().st_size for path in tmp_path.iterdir()}
    assert set(sizes) == {"log", "log.1"}
    assert max(sizes.values()) <= MAX_BYTES


def test_a_file_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileSystemError) as error:
        server_log(str(tmp_path / "lost" / "log"), {})

    assert str(tmp_path / "lost" / "log") in str(error.value)
