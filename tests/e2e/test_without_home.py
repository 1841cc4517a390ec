"""A start whose environment does not name a home: the system's entry of the user counts.

No start here is one of the user who runs the tests, whose own home would be written to.
"""

import json
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ryeos.items.places import home_of_account
from tests.support.built import BASE_PYTHON, built_pyz
from tests.support.environments import STRANGER, SharedFile, shared_file

__all__ = ["built_pyz", "shared"]
CALLS = (
    {"jsonrpc": "2.0", "method": "notifications/initialized"},
    {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {
            "name": "execute",
            "arguments": {"item_id": "rye/bash/bash", "parameters": {"command": "echo $HOME"}},
        },
    },
)
BEGIN = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "a", "version": "1"},
    },
}
# A mount that fails ends it: the user has no home then, and nothing may be started for it.
AS_STRANGER = 'mount --bind "$1" /etc/passwd && shift && exec setpriv --reuid="$1" --clear-groups'
needs_root = pytest.mark.skipif(
    sys.platform != "linux" or os.geteuid() != 0 or not shutil.which("setpriv"),
    reason="root gives a user that no one is an entry of the system",
)


@pytest.fixture
def shared(built_pyz: Path) -> Iterator[SharedFile]:
    with shared_file(built_pyz) as found:
        yield found


def python_for_everyone() -> str:
    """An interpreter that every user may start; the test is skipped where there is none."""
    system = shutil.which("python3", path="/usr/bin:/usr/local/bin")
    for one in filter(None, (str(BASE_PYTHON.resolve()), system and os.path.realpath(system))):
        is_open = all(above.stat().st_mode & stat.S_IXOTH for above in Path(one).parents)
        check = [one, "-c", "import sys; sys.exit(sys.version_info < (3, 11))"]
        if is_open and not subprocess.run(check, check=False).returncode:
            return one
    pytest.skip("every Python from 3.11 on is in a folder that other users cannot enter")


def asked(shared: SharedFile, passwd: Path) -> dict[str, object]:
    """What a call of a tool gives under an empty environment, with these entries of users."""
    python = python_for_everyone()
    project = shared.make("project", 0o777)
    mounts = ["unshare", "-m", "mount", "--bind", str(passwd), "/etc/passwd"]
    if subprocess.run(mounts, capture_output=True, check=False).returncode:
        pytest.skip("no namespace of mounts can be made here")
    words = ["unshare", "-m", "sh", "-c", f'{AS_STRANGER} env -i "$2" "$3" mcp --project "$4"']
    words += ["sh", str(passwd), str(STRANGER), python, str(shared.pyz), str(project)]
    lines = "".join(json.dumps(one) + "\n" for one in (BEGIN, *CALLS))
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8", cwd=project
    ) as server:
        assert server.stdin
        assert server.stdout
        server.stdin.write(lines)
        server.stdin.flush()
        for line in server.stdout:
            message = json.loads(line)
            if message.get("id") == 1:
                server.stdin.close()
                found: dict[str, object] = message["result"]["structuredContent"]
                return found
    raise AssertionError("the server ended without an answer")


@needs_root
def test_a_tool_starts_over_mcp_with_the_home_of_the_account(shared: SharedFile) -> None:
    home = shared.make("home", 0o777)
    passwd = shared.folder / "passwd"
    passwd.write_text(f"someone:x:{STRANGER}:{STRANGER}::{home}:/bin/sh\n", "utf-8")

    found = asked(shared, passwd)

    assert found["status"] == "success", found
    assert f"{home}\n" in json.dumps(found["data"]).replace("\\n", "\n")
    assert (home / ".ai/state/receipts/log.jsonl").exists()


@needs_root
def test_without_any_home_the_error_names_the_variable_that_helps(shared: SharedFile) -> None:
    passwd = shared.folder / "passwd"
    passwd.write_text("root:x:0:0:root:/nonexistent:/bin/sh\n", "utf-8")

    found = asked(shared, passwd)

    assert found["status"] == "error"
    assert "expected a home folder" in str(found["error"])
    assert "USER_SPACE=DIR" in str(found["hint"])


@pytest.mark.skipif(os.name != "posix", reason="accounts with homes are of POSIX")
def test_the_home_of_the_account_is_that_of_the_effective_user() -> None:
    import pwd

    try:
        expected = pwd.getpwuid(os.geteuid()).pw_dir
    except KeyError:
        expected = ""

    assert home_of_account() == expected
