import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from ryeos.items import Space
from tests.support.command_line import CommandLine, Stranger, key_document, place_document
from tests.support.programs import require_program

posix_only = pytest.mark.skipif(os.name == "nt", reason="Windows keeps permissions elsewhere")


@pytest.fixture
def project(signer: CommandLine) -> CommandLine:
    """A user with a key, in a project."""
    signer("init", "--project")
    return signer


def checks(cli: CommandLine, name: str, **env: Any) -> list[dict[str, str]]:  # noqa: ANN401
    """What doctor finds under one name."""
    found: list[dict[str, str]] = cli("doctor", "--json", **env).json["checks"]
    return [check for check in found if check["name"] == name]


def status(cli: CommandLine, name: str, **env: Any) -> list[str]:  # noqa: ANN401
    """The statuses of what doctor finds under one name."""
    return [check["status"] for check in checks(cli, name, **env)]


def test_a_fresh_project_is_healthy(project: CommandLine) -> None:
    done = project("doctor")

    assert done.status == 0
    assert done.stdout.splitlines()[-1].endswith(" ok, 0 to look at, 0 broken")


def test_every_part_is_looked_at(project: CommandLine) -> None:
    found = project.json("doctor")["checks"]

    assert list(dict.fromkeys(check["name"] for check in found)) == [
        "python",
        "program",
        "cryptography",
        "bundle",
        "user space",
        "signing key",
        "trust",
        "project",
        "interpreter",
        "items",
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
    assert "does not count, so what you sign is refused" in done.stdout
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


def test_settings_that_weaken_rye_are_said(project: CommandLine) -> None:
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
def test_settings_that_stop_everything_are_said_once(
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


def test_without_a_home_doctor_says_what_is_missing(cli: CommandLine) -> None:
    (found,) = checks(cli, "user space", HOME="")

    assert found["status"] == "fail"
    assert found["fix"].startswith("name a folder: USER_SPACE=DIR")


def test_a_home_that_cannot_hold_user_space_is_said(cli: CommandLine, tmp_path: Path) -> None:
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
