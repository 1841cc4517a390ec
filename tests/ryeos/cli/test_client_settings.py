import os
import stat
from pathlib import Path

import pytest

from lillux.files import FileChangedError
from ryeos.cli.client_settings import (
    EntryChange,
    ServerLaunch,
    read_settings,
    with_entry,
    without_entry,
    write_settings,
)
from ryeos.imports.clients import find_client
from ryeos.items.errors import RyeError
from ryeos.items.refs import REPLACED_SETTINGS_FOLDER, USER, Space
from ryeos.items.replaced import MOST_KEPT
from tests.support.errors import coded
from tests.support.replaced import kept_copies

LAUNCH = ServerLaunch(argv=("/usr/bin/python3", "/home/me/rye.pyz", "mcp"))
MOVED = ServerLaunch(argv=("/usr/local/bin/python3", "/opt/rye.pyz", "mcp"))
posix_only = pytest.mark.skipif(os.name == "nt", reason="Windows keeps permissions elsewhere")


def install(
    name: str, path: Path, launch: ServerLaunch = LAUNCH, *, force: bool = False
) -> EntryChange:
    """The change of a file by `rye mcp install`."""
    settings = read_settings(find_client(name), path)
    change, text = with_entry(settings, launch, force=force)
    if change is not EntryChange.ALREADY:
        write_settings(settings, text, mode=0o600, user=user_of(path))
    return change


def uninstall(name: str, path: Path) -> EntryChange:
    """The change of a file by `rye mcp uninstall`."""
    settings = read_settings(find_client(name), path)
    change, text = without_entry(settings, LAUNCH)
    if change is not EntryChange.ABSENT:
        write_settings(settings, text, mode=0o600, user=user_of(path))
    return change


def user_of(path: Path) -> Space:
    """The user space beside a file."""
    return Space(USER, path.parent / "home")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "settings"


@pytest.mark.parametrize("name", ["cursor", "vscode", "codex", "zed", "opencode", "amp"])
def test_an_entry_is_added_found_again_and_removed(name: str, path: Path) -> None:
    assert install(name, path) is EntryChange.ADDED
    written = path.read_bytes()

    assert install(name, path) is EntryChange.ALREADY
    assert path.read_bytes() == written
    assert uninstall(name, path) is EntryChange.REMOVED
    assert uninstall(name, path) is EntryChange.ABSENT


def test_the_first_file_is_kept_and_the_newest_ones(path: Path) -> None:
    path.write_text('{"theme": "dark"}', "utf-8")

    for _ in range(MOST_KEPT):
        install("cursor", path)
        install("cursor", path, MOVED)

    kept = kept_copies(user_of(path).ai, path)
    assert len(kept) == MOST_KEPT
    assert kept[0].read_text("utf-8") == '{"theme": "dark"}'
    assert "/home/me/rye.pyz" in kept[-1].read_text("utf-8")


@posix_only
def test_modes_are_kept_and_the_copy_is_for_its_user_alone(path: Path) -> None:
    path.write_text("{}", "utf-8")
    path.chmod(0o640)

    install("cursor", path)

    (kept,) = kept_copies(user_of(path).ai, path)
    folder = user_of(path).ai / REPLACED_SETTINGS_FOLDER
    modes = [stat.S_IMODE(one.stat().st_mode) for one in (path, kept, folder)]
    assert modes == [0o640, 0o600, 0o700]


def test_a_byte_order_mark_and_newlines_are_kept(path: Path) -> None:
    path.write_bytes(b'\xef\xbb\xbf{\r\n  "theme": "dark"\r\n}\r\n')

    install("cursor", path)

    data = path.read_bytes()
    assert data.startswith(b'\xef\xbb\xbf{\r\n  "theme": "dark",\r\n  "mcpServers": {\r\n')
    assert data.count(b"\n") == data.count(b"\r\n")


def test_keys_that_a_user_added_to_the_entry_stay(path: Path) -> None:
    install("vscode", path)
    text = path.read_text("utf-8").replace(
        '"type": "stdio",', '"type": "stdio", // mine\n      "timeout": 5,'
    )
    path.write_text(text, "utf-8")

    assert install("vscode", path, MOVED) is EntryChange.UPDATED

    after = path.read_text("utf-8")
    assert '"type": "stdio", // mine\n      "timeout": 5,' in after
    assert "/opt/rye.pyz" in after
    assert "/home/me/rye.pyz" not in after


def test_a_choice_of_the_user_is_not_undone(path: Path) -> None:
    install("opencode", path)
    path.write_text(path.read_text("utf-8").replace("true", "false"), "utf-8")

    assert install("opencode", path) is EntryChange.ALREADY
    assert '"enabled": false' in path.read_text("utf-8")


def test_variables_of_the_user_stay_beside_ours(path: Path) -> None:
    path.write_text(
        '{"mcpServers": {"rye": {"command": "rye.pyz", "args": ["mcp"], "env": {"K": "v"}}}}',
        "utf-8",
    )
    path.write_text(path.read_text("utf-8").replace('"rye.pyz"', '"/x/rye.pyz"'), "utf-8")

    install("cursor", path, ServerLaunch(argv=MOVED.argv, env={"USER_SPACE": "/data"}))

    assert '"env": {"K": "v", "USER_SPACE": "/data"}' in path.read_text("utf-8")


FOREIGN = '{"mcpServers": {"rye": {"command": "npx", "args": ["rye-bread"]}, "b": {}}}'


def test_the_entry_of_another_user_is_left_alone(path: Path) -> None:
    path.write_text(FOREIGN, "utf-8")

    for act in (install, uninstall):
        with pytest.raises(RyeError, check=coded("CONFLICT")) as error:
            act("cursor", path)
        assert str(error.value) == f"{path}: its entry 'rye' starts something else: npx rye-bread"

    assert path.read_text("utf-8") == FOREIGN
    assert kept_copies(user_of(path).ai, path) == []


def test_the_entry_of_another_user_is_replaced_by_force(path: Path) -> None:
    path.write_text(FOREIGN, "utf-8")

    assert install("cursor", path, force=True) is EntryChange.UPDATED

    assert "rye-bread" not in path.read_text("utf-8")
    assert '"b": {}' in path.read_text("utf-8")


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("claude-desktop", '{"mcpServers": {},}', "line 1, column 18: expected no comma before"),
        ("claude-desktop", "{} // x", "line 1, column 4: expected no comment"),
        ("vscode", '{"servers": []}', "expected an object that holds 'rye'"),
        ("vscode", "[]", "expected an object that holds 'servers'"),
        ("codex", "a = \n", "line 1, column 5: invalid value"),
        ("codex", 'mcp_servers = ["x"]', "expected an object that holds 'rye'"),
        ("codex", "mcp_servers = {}", "mcp_servers.rye: expected a table under its own header"),
        ("cursor", "\udcff", "line 1: expected UTF-8, found the byte 0xff"),
    ],
)
def test_a_malformed_file_is_refused_and_left_as_it_is(
    name: str, text: str, problem: str, path: Path
) -> None:
    data = text.encode("utf-8", "surrogateescape")
    path.write_bytes(data)

    with pytest.raises(RyeError, check=coded("CONFIG_ERROR")) as error:
        install(name, path)

    assert str(error.value).startswith(f"{path}: {problem}")
    assert path.read_bytes() == data
    assert [found.name for found in path.parent.iterdir()] == ["settings"]


def test_a_link_is_followed_and_stays_a_link(tmp_path: Path, path: Path) -> None:
    target = tmp_path / "dotfiles" / "mcp.json"
    target.parent.mkdir()
    target.write_text("{}", "utf-8")
    path.symlink_to(target)

    install("cursor", path)

    assert path.is_symlink()
    assert "rye.pyz" in target.read_text("utf-8")


def test_a_file_that_was_written_meanwhile_is_not_overwritten(path: Path) -> None:
    path.write_text("{}", "utf-8")
    settings = read_settings(find_client("cursor"), path)
    _, text = with_entry(settings, LAUNCH)
    path.write_text('{"new": 1}', "utf-8")

    with pytest.raises(FileChangedError):
        write_settings(settings, text, mode=0o600, user=user_of(path))

    assert path.read_text("utf-8") == '{"new": 1}'


def test_a_path_that_is_no_utf_8_is_refused(path: Path) -> None:
    with pytest.raises(RyeError, check=coded("CONFIG_ERROR"), match=r"a path that is no UTF-8"):
        install("cursor", path, ServerLaunch(argv=("/usr/bin/python3", "/\udcff/rye.pyz", "mcp")))

    assert not path.exists()
