"""A shell script knows its path, and finds there what was verified and nothing else of code."""

import os

import pytest

from ryeos.run.model import ExecutionResult
from tests.support.workspace import Workspace

pytestmark = pytest.mark.skipif(os.name == "nt", reason="the scripts are for POSIX")
HERE = 'here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)\n'


def script(workspace: Workspace, body: str) -> ExecutionResult:
    """What comes of a script without a header that begins with ``#!``."""
    workspace.project.signed("tools/mine/s.sh", f"#!/bin/bash\n{body}")
    return workspace.run("mine/s")


def printed(result: ExecutionResult) -> str:
    assert result.success, result.failure
    return str(result.data["stdout"] if isinstance(result.data, dict) else result.data)


def test_a_script_with_a_shebang_alone_is_a_tool_of_bash(workspace: Workspace) -> None:
    assert printed(script(workspace, 'echo "it runs in ${BASH##*/}"\n')) == "it runs in bash\n"


def test_a_script_finds_that_it_is_the_program_and_not_sourced(workspace: Workspace) -> None:
    assert printed(script(workspace, '[[ $BASH_SOURCE == "$0" ]] && echo main\n')) == "main\n"


def test_a_script_is_named_as_its_file(workspace: Workspace) -> None:
    found = printed(script(workspace, 'echo "${0##*/.ai/} ${BASH_SOURCE[0]##*/}"\n'))

    assert found == "tools/mine/s.sh s.sh\n"


def test_data_beside_a_script_is_found(workspace: Workspace) -> None:
    workspace.project.write("tools/mine/data/names.txt", "ann\n")

    assert printed(script(workspace, HERE + 'cat "$here/data/names.txt"\n')) == "ann\n"


@pytest.mark.parametrize("place", ["mine/lib.sh", "mine/below/lib.sh", "other/lib.sh"])
def test_a_verified_script_beside_it_is_found(workspace: Workspace, place: str) -> None:
    workspace.project.signed(f"tools/{place}", "hello() { echo hello; }\n")
    way = os.path.relpath(place, "mine")

    assert printed(script(workspace, HERE + f'. "$here/{way}"; hello\n')) == "hello\n"


def test_the_script_beside_it_is_the_one_that_was_verified(workspace: Workspace) -> None:
    lib = workspace.project.signed("tools/mine/lib.sh", "hello() { echo hello; }\n")
    body = HERE + f'echo "hello() {{ echo changed; }}" > {lib}; . "$here/lib.sh"; hello\n'

    assert printed(script(workspace, body)) == "hello\n"


@pytest.mark.parametrize("name", ["lib.sh", "lib.py"])
@pytest.mark.parametrize("state", ["changed", "unsigned"])
def test_code_beside_it_that_was_not_verified_is_not_there(
    workspace: Workspace, name: str, state: str
) -> None:
    lib = workspace.project.write(f"tools/mine/{name}", "x = 1\n")
    if state == "changed":
        workspace.project.sign(lib)
        lib.write_text(lib.read_text("utf-8") + "x = 2\n", "utf-8")

    result = script(workspace, HERE + f'[ -e "$here/{name}" ] || echo "no {name}"\n')

    assert printed(result) == f"no {name}\n"
    (warning,) = result.metadata["warnings"]
    assert str(lib) in warning
    assert "rye sign" in warning


def test_an_unsigned_script_that_it_does_not_name_is_not_spoken_of(workspace: Workspace) -> None:
    workspace.project.write("tools/mine/draft.sh", "echo draft\n")

    result = script(workspace, HERE + "echo ran\n")

    assert printed(result) == "ran\n"
    assert "warnings" not in result.metadata


def test_nothing_of_the_run_is_left(workspace: Workspace) -> None:
    printed(script(workspace, HERE + "echo ran\n"))

    assert list((workspace.home / ".ai/state/held").iterdir()) == []


def test_a_shebang_put_before_a_signed_text_makes_no_tool_of_it(workspace: Workspace) -> None:
    path = workspace.project.signed("tools/mine/lib.sh", "echo ran\n")
    path.write_text(f"#!/bin/bash\n{path.read_text('utf-8')}", "utf-8")

    result = workspace.run("mine/lib")

    assert result.metadata["error_code"] == "UNBOUND_SIGNATURE"


def test_a_tool_whose_shebang_is_taken_away_does_not_run(workspace: Workspace) -> None:
    path = workspace.project.signed("tools/mine/s.sh", "#!/bin/bash\necho ran\n")
    path.write_text(path.read_text("utf-8").partition("\n")[2], "utf-8")

    assert workspace.run("mine/s").metadata["error_code"] == "CONFIG_ERROR"


def test_an_older_text_of_such_a_tool_is_refused(workspace: Workspace) -> None:
    path = workspace.project.signed("tools/mine/s.sh", "#!/bin/bash\necho first\n")
    assert workspace.run("mine/s").success
    old = path.read_bytes()
    workspace.project.signed("tools/mine/s.sh", "#!/bin/bash\necho second\n")
    lock = workspace.project.space.ai / "lockfiles/tools/mine/s.lock.json"
    lock.unlink()
    assert workspace.run("mine/s").success
    path.write_bytes(old)

    assert workspace.run("mine/s").metadata["error_code"] == "LOCKFILE_MISMATCH"
