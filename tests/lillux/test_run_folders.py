"""Private temporary folders of runs: whose they are, how they end, what is left of them."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lillux.run_folders import MAX_BASE, private_folder, temporary_base

posix = pytest.mark.skipif(sys.platform == "win32", reason="folders have no descriptors there")


def names(base: Path) -> list[str]:
    return sorted(one.name for one in (base / f"rye-{os.getuid()}").iterdir())


@pytest.fixture
def base() -> Iterator[Path]:
    """A folder with a path that is short enough to be taken."""
    import tempfile

    with tempfile.TemporaryDirectory(prefix="t", dir="/tmp") as made:
        yield Path(made)


@posix
def test_a_folder_is_for_this_user_alone_and_is_gone_afterwards(base: Path) -> None:
    with private_folder({"TMPDIR": str(base)}) as folder:
        assert folder.parent == base / f"rye-{os.getuid()}"
        assert (folder.stat().st_mode & 0o777, folder.parent.stat().st_mode & 0o777) == (
            0o700,
            0o700,
        )
        (folder / "kept").write_text("x", encoding="utf-8")

    assert names(base) == []


@posix
def test_two_folders_at_once_are_two(base: Path) -> None:
    env = {"TMPDIR": str(base)}
    with private_folder(env) as one, private_folder(env) as other:
        assert one != other
        assert len(names(base)) == 2


@posix
def test_a_folder_is_removed_after_an_error(base: Path) -> None:
    with pytest.raises(KeyboardInterrupt), private_folder({"TMPDIR": str(base)}):
        raise KeyboardInterrupt

    assert names(base) == []


@posix
def test_what_a_killed_process_left_is_swept_by_the_next_and_what_lives_is_not(base: Path) -> None:
    text = (
        "import sys; from lillux.run_folders import private_folder\n"
        f"with private_folder({{'TMPDIR': {str(base)!r}}}) as folder:\n"
        "    (folder / 'a').mkdir(mode=0o000)\n"
        "    print(folder.name, flush=True); sys.stdin.read()\n"
    )
    started = [
        subprocess.Popen(
            [sys.executable, "-c", text],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            encoding="utf-8",
            cwd=Path(__file__).parents[2],
        )
        for _ in range(2)
    ]
    killed, living = ((one.stdout and one.stdout.readline().strip()) or "" for one in started)
    started[0].kill()
    started[0].communicate()
    assert names(base) == sorted((killed, living))

    script = text.replace("sys.stdin.read()", "pass")
    subprocess.run([sys.executable, "-c", script], check=True, cwd=Path(__file__).parents[2])

    assert names(base) == [living]
    started[1].communicate()
    assert names(base) == []


@posix
def test_links_in_a_folder_are_removed_and_not_followed(base: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("x", encoding="utf-8")
    with private_folder({"TMPDIR": str(base)}) as folder:
        (folder / "link").symlink_to(tmp_path)
        (folder / "in").mkdir()
        (folder / "in" / "link").symlink_to(tmp_path)

    assert names(base) == []
    assert (tmp_path / "mine").read_text(encoding="utf-8") == "x"


@posix
def test_folders_that_are_closed_or_thousands_deep_are_removed_too(base: Path) -> None:
    with private_folder({"TMPDIR": str(base)}) as folder:
        at = os.open(folder, os.O_RDONLY)
        for _ in range(1200):
            os.mkdir("d", 0o700, dir_fd=at)
            inner = os.open("d", os.O_RDONLY, dir_fd=at)
            os.close(at)
            at = inner
        os.close(at)
        closed = folder / "closed"
        (closed / "in").mkdir(parents=True)
        (closed / "in").chmod(0o000)
        closed.chmod(0o000)
        folder.chmod(0o000)

    assert names(base) == []


@posix
def test_a_folder_of_that_name_which_others_can_enter_is_not_used(base: Path) -> None:
    (base / f"rye-{os.getuid()}").mkdir(mode=0o777)
    (base / f"rye-{os.getuid()}").chmod(0o777)

    with private_folder({"TMPDIR": str(base)}) as folder:
        assert folder.parent.parent == base
        assert folder.parent.name != f"rye-{os.getuid()}"

    assert [one.name for one in base.iterdir()] == [f"rye-{os.getuid()}"]


@posix
def test_a_link_of_that_name_is_not_followed(base: Path, tmp_path: Path) -> None:
    (base / f"rye-{os.getuid()}").symlink_to(tmp_path)

    with private_folder({"TMPDIR": str(base)}) as folder:
        assert not folder.is_relative_to(base / f"rye-{os.getuid()}")
    assert list(tmp_path.iterdir()) == []


def test_a_path_that_leaves_no_room_for_a_socket_is_not_taken(tmp_path: Path) -> None:
    long = tmp_path / ("x" * MAX_BASE)
    long.mkdir()

    assert temporary_base({"TMPDIR": str(long)}, platform="linux") == "/tmp"


@posix
def test_such_a_path_is_taken_where_nothing_else_may_be_written(tmp_path: Path) -> None:
    long = tmp_path / ("x" * MAX_BASE)
    long.mkdir()
    text = (
        "import sys; from pathlib import Path\n"
        "from lillux.run_folders import private_folder; from lillux.landlock import confine\n"
        f"if not confine([Path('/')], [Path({str(long)!r})]): sys.exit(77)\n"
        f"with private_folder({{'TMPDIR': {str(long)!r}}}) as folder: print(folder)\n"
    )

    done = subprocess.run(
        [sys.executable, "-c", text],
        capture_output=True,
        encoding="utf-8",
        check=False,
        cwd=Path(__file__).parents[2],
    )

    if done.returncode == 77:
        pytest.skip("this system has no Landlock")
    assert done.stdout.startswith(f"{long}/rye-"), done.stderr


def test_a_relative_or_missing_folder_is_not_taken() -> None:
    assert temporary_base({"TMPDIR": "here"}, platform="linux") == "/tmp"
    assert temporary_base({"TMPDIR": "/missing/here"}, platform="darwin") == "/tmp"


def test_windows_takes_what_its_environment_names(tmp_path: Path) -> None:
    env = {"TEMP": str(tmp_path)}
    assert temporary_base(env, platform="win32") == str(tmp_path)
    with private_folder(env, platform="win32") as folder:
        (folder / "in").mkdir()
        assert folder.parent == tmp_path
    assert list(tmp_path.iterdir()) == []
