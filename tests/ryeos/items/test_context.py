import os
import sys
from pathlib import Path

import pytest

from ryeos.items.context import Context, LockMode, context_from
from ryeos.items.errors import RyeError, UsageError
from ryeos.items.refs import Space
from tests.support.errors import coded

posix = pytest.mark.skipif(sys.platform == "win32", reason="links need a privilege there")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    path = tmp_path / "home"
    path.mkdir()
    return path


@pytest.fixture
def project(home: Path) -> Path:
    """A project in the user's home."""
    path = home / "code" / "project"
    (path / ".ai").mkdir(parents=True)
    return path


def context(home: Path, cwd: Path, **env: str) -> Context:
    return context_from({"HOME": str(home), **env}, cwd=cwd)


# --- user space -----------------------------------------------------------------------------------


def test_user_space_is_the_home_folder(home: Path) -> None:
    assert context(home, home).spaces.user == Space("user", home)


@pytest.mark.parametrize(
    ("named", "base"),
    [
        ("/elsewhere", "/elsewhere"),
        ("~", "HOME"),
        ("~/rye", "HOME/rye"),
        ("~rye", "CWD/~rye"),
        ("rye", "CWD/rye"),
        (".ai", "CWD"),
        ("/elsewhere/.ai", "/elsewhere"),
        ("~/.ai", "HOME"),
        ("", "HOME"),
    ],
)
@posix
def test_user_space_may_be_named(home: Path, tmp_path: Path, named: str, base: str) -> None:
    expected = base.replace("HOME", str(home)).replace("CWD", str(tmp_path))

    assert context(home, tmp_path, USER_SPACE=named).spaces.user.base == Path(expected)


def test_a_flag_wins_over_the_environment(home: Path) -> None:
    made = context_from({"USER_SPACE": "/a"}, cwd=home, user_space="/b")

    assert made.spaces.user.base == Path("/b").absolute()


def test_windows_has_its_own_variable_for_home(home: Path, tmp_path: Path) -> None:
    env = {"USERPROFILE": str(home), "HOME": str(tmp_path)}

    assert context_from(env, cwd=home, platform="win32").spaces.user.base == home
    assert context_from(env, cwd=home, platform="linux").spaces.user.base == tmp_path


@pytest.mark.parametrize("env", [{}, {"HOME": ""}])
def test_without_a_home_user_space_is_the_root(tmp_path: Path, env: dict[str, str]) -> None:
    assert context_from(env, cwd=tmp_path).spaces.user.base == Path(tmp_path.anchor)


# --- the project ----------------------------------------------------------------------------------


def test_the_project_is_the_nearest_folder_that_holds_items(home: Path, project: Path) -> None:
    deep = project / "src" / "deep"
    deep.mkdir(parents=True)

    assert context(home, deep).project_path == project
    assert context(home, project).working_directory == project


def test_a_folder_without_items_is_a_project_of_its_own(home: Path) -> None:
    bare = home / "bare"
    bare.mkdir()

    assert context(home, bare).project_path == bare


def test_the_users_own_items_do_not_make_the_home_folder_a_project(home: Path) -> None:
    (home / ".ai").mkdir()
    below = home / "below"
    below.mkdir()

    assert context(home, home).project_path is None
    assert context(home, home).working_directory == home
    assert context(home, below).project_path == below


@posix
def test_a_home_that_is_a_link_is_no_project_either(home: Path, tmp_path: Path) -> None:
    (home / ".ai").mkdir()
    link = tmp_path / "link"
    link.symlink_to(home)

    assert context(link, home).project_path is None
    assert context(home, link).project_path is None


def test_the_root_of_the_file_system_is_no_project(home: Path) -> None:
    assert context(home, Path(home.anchor)).project_path is None


@pytest.mark.parametrize("variable", ["RYE_PROJECT", "CLAUDE_PROJECT_DIR"])
def test_a_project_may_be_named(home: Path, project: Path, variable: str) -> None:
    assert context(home, home, **{variable: str(project)}).project_path == project
    assert context(home, home, **{variable: str(project / ".ai")}).project_path == project
    assert context(home, home, **{variable: "~/code/project"}).project_path == project
    assert context(home, project.parent, **{variable: "project"}).project_path == project


def test_the_first_name_wins(home: Path, project: Path) -> None:
    env = {"HOME": str(home), "RYE_PROJECT": str(project), "CLAUDE_PROJECT_DIR": "/nowhere"}

    assert context_from(env, cwd=home).project_path == project
    assert context_from(env, cwd=home, project=str(home)).project_path == home


@pytest.mark.parametrize("name", ["nowhere", "~nobody-by-that-name/x", "a\0b", "x" * 5000])
def test_a_named_project_must_be_a_folder(home: Path, name: str) -> None:
    with pytest.raises(RyeError, check=coded("NO_PROJECT")) as error:
        context(home, home, RYE_PROJECT=name)

    assert str(error.value) == f"no project: {name} is not a folder"
    assert error.value.hint == ("name one with --project DIR, or make one with: rye init --project")


@posix
def test_a_named_project_is_known_by_its_real_path(home: Path, project: Path) -> None:
    link = home / "link"
    link.symlink_to(project)

    assert context(home, home, RYE_PROJECT=str(link)).project_path == project


# --- switches -------------------------------------------------------------------------------------


def test_switches_are_off_unless_set_to_one(home: Path) -> None:
    plain = context(home, home, RYE_DEV_MODE="true", RYE_PROTECT_CORE="yes")
    switched = context(home, home, RYE_DEV_MODE="1", RYE_PROTECT_CORE="1")

    assert (plain.dev_mode, plain.spaces.protect_core) == (False, False)
    assert (switched.dev_mode, switched.spaces.protect_core) == (True, True)


@pytest.mark.parametrize(
    ("word", "mode"),
    [
        ("", LockMode.STRICT),
        ("strict", LockMode.STRICT),
        ("warn", LockMode.WARN),
        ("off", LockMode.OFF),
    ],
)
def test_lockfiles_are_strict_by_default(home: Path, word: str, mode: LockMode) -> None:
    assert context(home, home, RYE_LOCK=word).lock_mode is mode


def test_an_unknown_mode_of_lockfiles_is_refused(home: Path) -> None:
    with pytest.raises(UsageError) as error:
        context(home, home, RYE_LOCK="Off")

    assert str(error.value) == "RYE_LOCK: expected one of off, warn, strict, found 'Off'"


def test_the_signing_key_is_in_user_space_or_where_the_environment_says(home: Path) -> None:
    folder = home / ".ai" / "config" / "keys" / "signing"

    assert context(home, home).key_directory == folder
    assert context(home, home, RYE_SIGNING_KEY_DIR="/keys").key_directory == Path("/keys")


def test_a_private_key_in_the_environment_goes_to_no_tool(home: Path) -> None:
    made = context(home, home, RYE_SIGNING_KEY="secret", OTHER="kept")

    assert made.process_env == {"HOME": str(home), "OTHER": "kept"}


def test_bundles_are_handed_on(home: Path) -> None:
    bundle = Space("system:x", home)

    made = context_from({"HOME": str(home)}, cwd=home, bundles=(bundle,))

    assert made.spaces.bundles == (bundle,)


# --- PATH -----------------------------------------------------------------------------------------


@posix
def test_our_programs_come_behind_those_of_the_user(home: Path) -> None:
    found = context_from(
        {"HOME": str(home), "PATH": "/usr/bin:/bin"}, cwd=home, tool_programs=lambda: "/ours"
    ).tool_environment()

    assert found["PATH"] == "/usr/bin:/bin:/ours"


@posix
@pytest.mark.parametrize(
    "path", [".:/usr/bin", ":/usr/bin", "/usr/bin:", "node_modules/.bin:/usr/bin"]
)
def test_an_empty_or_relative_folder_of_programs_is_left_out(home: Path, path: str) -> None:
    found = context(home, home, PATH=path)

    assert found.tool_environment()["PATH"] == "/usr/bin"
    assert found.own_environment["PATH"] == "/usr/bin"  # of pagers, editors, clients


@posix
def test_a_path_of_relative_folders_alone_is_that_of_the_system(home: Path) -> None:
    found = context(home, home, PATH="bin:").tool_environment()["PATH"].split(":")

    assert found == os.defpath.split(":")
