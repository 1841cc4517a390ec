import json
import os
import shutil
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ryeos.cli.client_settings import Interpreter
from ryeos.cli.doctor_probes import (
    Windows,
    agents_finding,
    cache_finding,
    clock_finding,
    kept_findings,
    python_findings,
    remote_finding,
    windows_findings,
)
from ryeos.items.refs import Space
from tests.support.command_line import CommandLine, Stranger, key_document, place_document
from tests.support.programs import require_program

posix_only = pytest.mark.skipif(os.name == "nt", reason="Windows keeps permissions elsewhere")


@pytest.fixture
def project(signer: CommandLine) -> CommandLine:
    """A user with a key, in a project."""
    signer("init", "--project")
    return signer


def checks(cli: CommandLine, name: str, **env: Any) -> list[dict[str, str]]:  # noqa: ANN401
    """The findings of doctor under one name."""
    found: list[dict[str, str]] = cli("doctor", "--json", **env).json["checks"]
    return [check for check in found if check["name"] == name]


def status(cli: CommandLine, name: str, **env: Any) -> list[str]:  # noqa: ANN401
    """The statuses of doctor's findings under one name."""
    return [check["status"] for check in checks(cli, name, **env)]


def test_a_fresh_project_is_healthy(project: CommandLine) -> None:
    done = project("doctor")

    assert done.status == 0
    assert done.stdout.splitlines()[-1].endswith(" ok, 0 to look at, 0 broken")


def test_every_part_is_examined(project: CommandLine) -> None:
    found = project.json("doctor")["checks"]

    assert list(dict.fromkeys(check["name"] for check in found)) == [
        "python",
        "program",
        "cryptography",
        "agents",
        "bundle",
        "user space",
        "signing key",
        "trust",
        "project",
        "rights",
        "interpreter",
        "items",
        "clock",
        "mcp",
    ]


def test_a_user_without_anything_gets_advice_and_no_failure(cli: CommandLine) -> None:
    done = cli("doctor")

    assert done.status == 0
    assert "fix: only needed to sign: rye keys generate\n" in done.stdout
    assert status(cli, "user space") == ["warn"]
    assert list(cli.home.iterdir()) == []


def test_the_interpreters_of_the_runtimes_are_named(project: CommandLine, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()

    require_program("node")
    found = checks(project, "interpreter")
    lost = checks(project, "interpreter", PATH=str(empty))

    runtimes = [
        "rye/core/runtimes/bash/bash",
        "rye/core/runtimes/mcp/stdio",
        "rye/core/runtimes/mcp/stdio",
        "rye/core/runtimes/node/node",
        "rye/core/runtimes/python/function",
        "rye/core/runtimes/python/script",
        "rye/core/runtimes/rust/runtime",
        "rye/core/runtimes/rust/runtime",
    ]
    assert [check["message"].split(": ")[0] for check in found] == runtimes
    assert {check["status"] for check in found} == {"ok"}
    python = next(check for check in lost if "python/function: no python" in check["message"])
    assert python["status"] == "warn"
    assert python["fix"].endswith("or set RYE_PYTHON to its path")


@posix_only
def test_a_private_key_that_others_can_read_fails(project: CommandLine) -> None:
    private = project.key_directory / "private_key.pem"
    private.chmod(0o644)

    done = project("doctor", "--json")

    assert done.status == 1
    assert done.json["status"] == "error"
    assert done.json["hint"] == f"chmod 600 {private}"
    assert done.json["error"] == (
        f"signing key: {private}: other users of this machine can read or write it"
    )


def test_an_own_key_that_does_not_count_fails(project: CommandLine) -> None:
    Path(project.json("keys", "show")["document"]).unlink()

    done = project("doctor")

    assert done.status == 1
    assert "is not trusted, so what you sign is refused" in done.stdout
    assert "fix: rye init\n" in done.stdout


def test_a_broken_private_key_fails(project: CommandLine) -> None:
    (project.key_directory / "private_key.pem").write_bytes(b"broken")

    assert status(project, "signing key") == ["fail"]


def test_a_carried_key_that_is_not_approved_is_worth_a_look(
    project: CommandLine, stranger: Stranger
) -> None:
    place_document(project.project_space, stranger.keypair, key_document(stranger.keypair, None))

    found = checks(project, "trust")

    assert [check["status"] for check in found] == ["ok", "warn"]
    assert found[1]["message"].endswith(
        f"{stranger.fingerprint}.toml: not approved for this project"
    )
    assert found[1]["fix"].endswith(f"rye keys trust {stranger.fingerprint}")


def test_a_broken_file_of_approvals_fails(project: CommandLine) -> None:
    approvals = project.user_space.ai / "config" / "keys" / "approved.json"
    approvals.write_text("{", "utf-8")

    (found,) = checks(project, "trust")

    assert found["status"] == "fail"
    assert found["message"].startswith(f"{approvals}: expected JSON, found: ")


def test_an_unsigned_item_is_worth_a_look(project: CommandLine) -> None:
    path = Path(project.json("new", "tool", "mine/hello")["path"])

    (found,) = checks(project, "items")

    assert found["status"] == "warn"
    assert "1 unsigned" in found["message"]
    assert found["fix"] == f"rye verify {path}"


def test_a_tampered_item_fails(project: CommandLine) -> None:
    path = Path(project.json("new", "tool", "mine/hello")["path"])
    project("sign", "tool:mine/hello")
    path.write_bytes(path.read_bytes() + b"\n")

    done = project("doctor")

    assert done.status == 1
    assert "1 tampered" in done.stdout


def test_shadowed_core_items_are_named(project: CommandLine) -> None:
    project("new", "tool", "rye/bash/bash")
    project("new", "tool", "rye/core/runtimes/bash/bash")

    hiding, core = checks(project, "shadowing"), checks(project, "core")

    (hidden,) = hiding
    assert hidden["message"] == (
        "2 items hide others: tool:rye/bash/bash (project),"
        " tool:rye/core/runtimes/bash/bash (project)"
    )
    assert [check["message"] for check in core] == [
        "tool:rye/core/runtimes/bash/bash: the project space replaces a part of the core"
    ]


def test_settings_that_weaken_rye_are_reported(project: CommandLine) -> None:
    found = checks(project, "settings", RYE_DEV_MODE="1", RYE_LOCK="warn")

    assert [check["fix"] for check in found] == ["unset RYE_DEV_MODE", "unset RYE_LOCK"]


@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        ("RYE_PROJECT", "/does/not/exist", "no project: /does/not/exist is not a folder"),
        ("RYE_LOCK", "loose", "RYE_LOCK: expected one of off, warn, strict, found 'loose'"),
        ("RYE_BUNDLE_PATH", "rel", "bundle rel: expected an absolute path"),
    ],
)
def test_settings_that_stop_all_commands_are_reported_once(
    cli: CommandLine, variable: str, value: str, message: str
) -> None:
    settings: dict[str, Any] = {variable: value}

    done = cli("doctor", "--json", **settings)

    assert done.status == 1
    failed = [check["message"] for check in done.json["checks"] if check["status"] == "fail"]
    assert failed == [message]


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({}, "the current folder"),
        ({"RYE_PROJECT": "{project}"}, "named by RYE_PROJECT"),
        ({"CLAUDE_PROJECT_DIR": "{project}"}, "named by CLAUDE_PROJECT_DIR"),
    ],
)
def test_the_project_is_shown_with_the_reason(
    project: CommandLine, options: dict[str, str], reason: str
) -> None:
    env = {name: value.format(project=project.project) for name, value in options.items()}

    (found,) = checks(project, "project", **env)

    assert found["message"] == f"{project.project} ({reason})"


def test_the_nearest_project_above_is_shown_as_that(project: CommandLine) -> None:
    below = project.project / "a" / "b"
    below.mkdir(parents=True)

    done = project("doctor", cwd=below)

    assert f"{project.project} (the nearest folder with .ai)" in done.stdout


def test_without_a_home_doctor_reports_that(cli: CommandLine) -> None:
    (found,) = checks(cli, "user space", HOME="")

    assert found["status"] == "fail"
    assert found["fix"].startswith("name a folder: USER_SPACE=DIR")


def test_a_home_that_cannot_hold_user_space_is_reported(cli: CommandLine, tmp_path: Path) -> None:
    home = tmp_path / "file"
    home.write_bytes(b"")

    (found,) = checks(cli, "user space", HOME=str(home))

    assert found["status"] == "warn"
    assert found["message"] == f"{home / '.ai'}: not there, and {home} cannot be written to"
    assert found["fix"] == "name another: USER_SPACE=DIR"


@pytest.fixture
def torn_bundle(bundle: Space, tmp_path: Path) -> Space:
    """A copy of the bundle with one changed byte."""
    copy = tmp_path / "torn"
    shutil.copytree(bundle.base, copy)
    tool = copy / ".ai/tools/rye/bash/bash.yaml"
    tool.write_bytes(tool.read_bytes() + b" ")
    return Space(bundle.label, copy, bundle.version, bundle.pinned_pem)


def test_a_changed_file_of_the_bundle_is_found(torn_bundle: Space, tmp_path: Path) -> None:
    folder = tmp_path / "user"
    folder.mkdir()
    cli = CommandLine(folder, torn_bundle)

    done: Any = cli("doctor", "--json")

    failed = [check for check in done.json["checks"] if check["status"] == "fail"]
    assert done.status == 1
    assert failed[0]["message"].startswith("not the file that the bundle ryeos was published with")
    assert failed[0]["fix"] == "install the bundle (or rye.pyz) again"


# --- the settings of clients ----------------------------------------------------------------------


@pytest.fixture
def claude(project: CommandLine) -> Path:
    """The settings of Claude Desktop, of a user who has it."""
    path = project.home / ".config" / "Claude" / "claude_desktop_config.json"
    path.parent.mkdir(parents=True)
    return path


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "rye.pyz"
    path.touch()
    return path


def said_of_clients(cli: CommandLine) -> tuple[str, str]:
    """The status and the message of the one client that is there."""
    (found,) = checks(cli, "client")
    return found["status"], found["message"]


def test_a_client_without_rye_learns_how_to_get_it(project: CommandLine, claude: Path) -> None:
    message = "Claude Desktop: without rye; to add it: rye mcp install claude-desktop"
    assert said_of_clients(project) == ("ok", message)

    claude.write_text('{"theme": "dark"}', "utf-8")

    assert said_of_clients(project) == ("ok", message)


def test_settings_that_a_client_would_ignore_fail(project: CommandLine, claude: Path) -> None:
    claude.write_text('{"mcpServers": {},}', "utf-8")

    status, message = said_of_clients(project)

    assert status == "fail"
    assert message.startswith(f"Claude Desktop: {claude}: line 1, column 18: expected no comma")
    assert project("doctor").status == 1


def test_an_installed_client_is_fine(project: CommandLine, claude: Path, program: Path) -> None:
    project("mcp", "install", "claude-desktop", "--program", program, "--python", sys.executable)

    assert said_of_clients(project) == ("ok", f"Claude Desktop: starts this program, {claude}")


@pytest.mark.parametrize(
    ("command", "args", "status", "message"),
    [
        ("python3", ["{program}", "mcp"], "warn", "starts 'python3', which its PATH may not have"),
        ("/no/python3", ["{program}", "mcp"], "fail", "no program at /no/python3"),
        ("{python}", ["/no/rye.pyz", "mcp"], "fail", "no file at /no/rye.pyz"),
        ("{python}", ["{program}", "mcp", "--project", "/no"], "fail", "no folder at /no"),
        ("bread", ["bake"], "warn", "its entry 'rye' starts something else: bread bake"),
    ],
)
def test_an_entry_that_would_not_start_is_found(
    *,
    command: str,
    args: list[str],
    status: str,
    message: str,
    project: CommandLine,
    claude: Path,
    program: Path,
) -> None:
    words = [word.format(program=program, python=sys.executable) for word in (command, *args)]
    entry = {"command": words[0], "args": words[1:]}
    claude.write_text(json.dumps({"mcpServers": {"rye": entry}}), "utf-8")

    found_status, found = said_of_clients(project)

    assert found_status == status
    assert message in found


def test_a_program_that_a_client_on_the_desktop_would_not_find_is_named(
    project: CommandLine, claude: Path, tmp_path: Path
) -> None:
    own = tmp_path / "own"
    own.mkdir()
    (own / "python3").symlink_to(sys.executable)
    (own / "bash").symlink_to("/bin/sh")
    assert claude.parent.is_dir()

    found = checks(project, "desktop path", PATH=str(own))

    lost = [check for check in found if check["status"] == "warn"]
    assert all(check["fix"].endswith("in the env of its entry") for check in lost)
    assert found


def test_without_a_client_on_the_desktop_its_path_does_not_matter(project: CommandLine) -> None:
    assert checks(project, "desktop path") == []


# --- the machine ----------------------------------------------------------------------------------


def test_an_alias_of_the_microsoft_store_is_worth_a_look() -> None:
    stub = r"C:\Users\me\AppData\Local\Microsoft\WindowsApps\python3.exe"
    interpreter = Interpreter(executable=stub, base=stub, is_virtual=False)

    found = list(python_findings((3, 12), "3.12.1", interpreter))

    assert [check.status for check in found] == ["ok", "warn"]
    assert found[1].fix == "install Python from python.org, and use `py rye.pyz`"


def test_a_python_that_is_too_old_fails() -> None:
    interpreter = Interpreter(executable="/usr/bin/python3", base="", is_virtual=False)

    (found,) = python_findings((3, 10), "3.10.0", interpreter)

    assert (found.status, found.fix) == ("fail", "run rye with Python 3.11 or newer")


def test_on_windows_long_paths_and_the_code_page_are_checked() -> None:
    good = list(windows_findings(Windows(long_paths=True, code_page=65001)))
    bad = list(windows_findings(Windows(long_paths=False, code_page=932)))
    unknown = list(windows_findings(Windows(long_paths=None, code_page=None)))

    assert [check.status for check in good] == ["ok", "ok"]
    assert [check.status for check in bad] == ["warn", "warn"]
    assert bad[1].message.startswith("code page 932: ")
    assert [check.status for check in unknown] == ["warn"]


def test_a_file_from_the_future_is_worth_a_look(project: CommandLine) -> None:
    path = project.project / ".ai" / "tools" / "late.txt"
    path.touch()
    os.utime(path, (4e9, 4e9))

    (found,) = checks(project, "clock")

    assert found["status"] == "warn"
    assert found["message"].startswith(f"{path} was written ")


def test_a_few_seconds_are_no_skew(tmp_path: Path) -> None:
    assert clock_finding(1000.0, 1010.0, tmp_path).status == "ok"
    assert clock_finding(1000.0, 2000.0, tmp_path).status == "warn"


def test_a_system_that_keeps_no_key_from_an_agent_is_worth_a_look() -> None:
    assert agents_finding("linux", 7).status == agents_finding("darwin", 0).status == "ok"

    found = agents_finding("linux", 0)

    assert (found.status, found.fix) == (
        "warn",
        "put the key under a passphrase: rye keys protect",
    )


def test_a_cache_that_cannot_be_made_is_worth_a_look(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.touch(0o400)

    assert cache_finding(tmp_path / "cache" / "rye").status == "ok"
    assert cache_finding(blocked / "cache").status == "warn"


def test_a_relative_user_space_is_worth_a_look(project: CommandLine) -> None:
    (found,) = checks(project, "settings", USER_SPACE="home")

    assert found["message"] == "USER_SPACE=home: another folder in each working directory"


# --- remotes --------------------------------------------------------------------------------------


def remotes(cli: CommandLine, folder: Path, url: str) -> None:
    """A file of remotes in a space."""
    path = folder / ".ai" / "config" / "remotes" / "remotes.yaml"
    path.parent.mkdir(parents=True)
    head = 'version: "1.0.0"\ncategory: remotes\n'
    path.write_text(f"{head}remotes:\n  default: {{url: '{url}'}}\n", "utf-8")
    assert cli("sign", path, "-q").status == 0


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening


def test_a_remote_of_the_user_is_connected_to(
    project: CommandLine, listener: socket.socket
) -> None:
    remotes(project, project.home, f"http://127.0.0.1:{listener.getsockname()[1]}")

    (found,) = checks(project, "remote")

    assert found["message"].endswith(": takes connections")
    assert [check["message"][-9:] for check in offline(project)] == ["--offline"]


def offline(cli: CommandLine) -> list[dict[str, str]]:
    """The findings on remotes when no request may be sent."""
    found = cli.json("doctor", "--offline")["checks"]
    return [check for check in found if check["name"] == "remote"]


def test_a_remote_without_a_server_is_worth_a_look(project: CommandLine) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
    remotes(project, project.home, f"http://127.0.0.1:{port}")

    (found,) = checks(project, "remote")

    assert found["status"] == "warn"
    assert "no connection: " in found["message"]


def test_a_remote_of_the_project_gets_no_request(
    project: CommandLine, listener: socket.socket
) -> None:
    remotes(project, project.project, f"http://127.0.0.1:{listener.getsockname()[1]}")

    (found,) = checks(project, "remote")

    listener.settimeout(0)
    with pytest.raises(BlockingIOError):
        listener.accept()
    assert found["message"].endswith(": named by the project, not asked")


@pytest.mark.parametrize("url", ["ftp://x", "x", "http://[", "http://x:99999"])
def test_a_remote_without_a_usable_url_is_worth_a_look(url: str) -> None:
    assert remote_finding("default", url).message == (
        "default: expected a URL that begins with https:// or http://"
    )


# --- fixing --------------------------------------------------------------------------------------


def fixed(cli: CommandLine) -> list[dict[str, str]]:
    """The fixes that ``rye doctor --fix`` reports."""
    done: list[dict[str, str]] = cli("doctor", "--fix", "--json").json["fixed"]
    return done


def tree(folder: Path) -> dict[str, tuple[int, int, bytes]]:
    """Everything below a folder: mode, time and content."""
    return {
        str(path.relative_to(folder)): (
            path.lstat().st_mode,
            path.lstat().st_mtime_ns,
            path.read_bytes() if path.is_file() else b"",
        )
        for path in folder.rglob("*")
    }


@posix_only
def test_exposed_keys_are_fixed(project: CommandLine) -> None:
    directory = project.key_directory
    private = directory / "private_key.pem"
    private.chmod(0o644)
    directory.chmod(0o777)
    assert project("doctor").status == 1

    done = project("doctor", "--fix", "--json")

    assert done.status == 0
    assert done.json["fixed"] == [
        {"name": "signing key", "status": "done", "message": f"{path}: only for you now"}
        for path in (private, directory)
    ]
    assert [path.stat().st_mode & 0o777 for path in (private, directory)] == [0o600, 0o700]


@posix_only
def test_a_folder_of_keys_that_others_can_write_to_fails(project: CommandLine) -> None:
    project.key_directory.chmod(0o770)

    done = project("doctor")

    assert done.status == 1
    assert (
        f"{project.key_directory}: other users of this machine can replace the key" in done.stdout
    )
    assert done.stderr == "1 of these can be fixed with: rye doctor --fix\n"


@posix_only
def test_a_folder_whose_files_only_their_owner_replaces_is_fine(project: CommandLine) -> None:
    project.key_directory.chmod(0o1777)  # as containers mount secrets

    assert status(project, "signing key") == ["ok"]


@posix_only
def test_a_second_fix_makes_no_change(project: CommandLine) -> None:
    (project.key_directory / "private_key.pem").chmod(0o644)
    assert len(fixed(project)) == 1
    before = tree(project.home) | tree(project.project)

    assert fixed(project) == []
    assert tree(project.home) | tree(project.project) == before


@posix_only
def test_a_key_behind_a_link_is_left_to_its_owner(project: CommandLine, tmp_path: Path) -> None:
    private = project.key_directory / "private_key.pem"
    elsewhere = tmp_path / "key.pem"
    private.rename(elsewhere)
    private.symlink_to(elsewhere)
    elsewhere.chmod(0o644)

    assert fixed(project) == []
    assert elsewhere.stat().st_mode & 0o777 == 0o644


def test_a_missing_user_space_is_made_without_a_key(cli: CommandLine) -> None:
    made = fixed(cli)

    assert [(each["name"], each["status"]) for each in made] == [("user space", "done")]
    assert status(cli, "user space") == ["ok"]
    assert not cli.key_directory.exists()
    assert fixed(cli) == []


def test_a_relative_user_space_is_not_made(cli: CommandLine) -> None:
    before = tree(cli.project)

    done = cli("doctor", "--fix", "--json", USER_SPACE="rel/us").json

    assert "fixed" not in done or done["fixed"] == []
    assert tree(cli.project) == before


def test_a_fix_trusts_no_key_and_signs_no_item(project: CommandLine) -> None:
    unsigned = project.project_space.ai / "tools" / "mine" / "hello.py"
    unsigned.parent.mkdir(parents=True)
    unsigned.write_text("print()\n", "utf-8")
    Path(project.json("keys", "show")["document"]).unlink()
    stranger = Stranger.appear()
    place_document(project.project_space, stranger.keypair, key_document(stranger.keypair, None))
    before = tree(project.home) | tree(project.project)

    done = project("doctor", "--fix")

    assert done.status == 1
    assert tree(project.home) | tree(project.project) == before


def test_a_failed_fix_is_reported(cli: CommandLine) -> None:
    from ryeos.cli.findings import Finding, fix_findings, keep_from_others

    gone = cli.home / "gone"

    exposed = [Finding("cache", "warn", "exposed", "chmod 700 it", keep_from_others(gone))]
    (finding,) = fix_findings(exposed)

    assert (finding.status, finding.fix) == ("fail", "chmod 700 it")
    assert finding.message == f"not fixed: {gone}: no such file or directory"


@posix_only
def test_an_exposed_cache_is_fixed_unless_others_could_write(tmp_path: Path) -> None:
    seen, written, fine = (tmp_path / name for name in ("seen", "written", "fine"))
    for folder, mode in ((seen, 0o755), (written, 0o777), (fine, 0o700)):
        folder.mkdir()
        folder.chmod(mode)

    found = list(kept_findings([seen, written, fine]))

    assert [check.status for check in found] == ["warn", "warn"]
    assert [check.fix for check in found] == [f"chmod 700 {seen}", f"remove it: rm -r {written}"]
    assert [check.apply is not None for check in found] == [True, False]


def test_an_unknown_lock_mode_is_reported_with_the_way_out(cli: CommandLine) -> None:
    done = cli("doctor", RYE_LOCK="bogus")

    assert "fail  settings" in done.stdout
    assert "fix: unset RYE_LOCK\n" in done.stdout
