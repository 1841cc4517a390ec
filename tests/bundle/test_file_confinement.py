"""File tools never touch protected files, for any parameters and any files of the project."""

import errno
import os
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.tool_functions import call, refused, tool_module

posix = pytest.mark.skipif(sys.platform == "win32", reason="links and FIFOs")
SECRET = "a private text"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project, and a secret beside it."""
    folder = tmp_path / "project"
    (folder / "src").mkdir(parents=True)
    (folder / "src/a.txt").write_text("one\ntwo\n", encoding="utf-8")
    (tmp_path / "secret.txt").write_text(SECRET, encoding="utf-8")
    (tmp_path / "out").mkdir()
    return folder


def outside(path: str, project: Path) -> str:
    meant = "" if Path(path).is_absolute() else f": {os.path.normpath(project / path)}"
    return f"{path}: expected a path in {project}, found one outside{meant}"


@pytest.mark.parametrize(
    "path", ["../secret.txt", "src/../../secret.txt", "/etc/passwd", "src/../../project/src/a.txt"]
)
def test_a_path_does_not_lead_out(path: str, project: Path) -> None:
    assert refused("rye/file-system/read", project, path=path) == outside(path, project)
    assert refused("rye/file-system/write", project, path=path, content="") == outside(
        path, project
    )


@pytest.mark.parametrize("path", ["", "a\0b", "src/\ud800"])
def test_an_impossible_file_name_is_refused(path: str, project: Path) -> None:
    expected = f"path: expected the path of a file, found {path!r}"

    assert refused("rye/file-system/read", project, path=path) == expected
    assert refused("rye/file-system/write", project, path=path, content="") == expected


def test_an_absolute_path_below_the_project_is_fine(project: Path) -> None:
    answer = call("rye/file-system/read", project, path=str(project / "src/../src/a.txt"))

    assert (answer["path"], answer["total_lines"]) == ("src/a.txt", 2)


@posix
@pytest.mark.parametrize("target", ["../secret.txt", "{tmp}/secret.txt", "src/../../secret.txt"])
def test_a_link_out_is_not_followed(target: str, project: Path) -> None:
    (project / "link").symlink_to(target.format(tmp=project.parent))

    for tool, more in (("read", {}), ("write", {"content": "x", "overwrite": True})):
        answer = refused(f"rye/file-system/{tool}", project, path="link", **more)
        assert answer == outside("link", project)
    assert call("rye/file-system/grep", project, pattern="business")["files"] == 0
    assert (project.parent / "secret.txt").read_text("utf-8") == SECRET


@posix
def test_a_link_of_a_folder_out_is_not_followed(project: Path) -> None:
    (project / "out").symlink_to("../out")
    (project / "deep").symlink_to(project.parent)

    answer = refused("rye/file-system/write", project, path="out/new.txt", content="x")
    found = call("rye/file-system/glob", project, pattern="**/*")

    assert answer == outside("out/new.txt", project)
    assert found["paths"] == ["deep", "out", "src/a.txt"]
    assert refused("rye/file-system/ls", project, path="deep") == outside("deep", project)
    assert refused("rye/file-system/grep", project, pattern="x", path="deep") == outside(
        "deep", project
    )


@posix
def test_a_link_within_the_project_is_followed(project: Path) -> None:
    (project / "again").symlink_to(project / "src")
    (project / "src/b.txt").symlink_to("../again/a.txt")

    answer = call("rye/file-system/write", project, path="src/b.txt", content="x", overwrite=True)

    assert (answer["path"], answer["created"]) == ("src/a.txt", False)
    assert (project / "src/a.txt").read_text("utf-8") == "x"
    assert (project / "src/b.txt").is_symlink()


@posix
def test_links_in_a_circle_are_an_error(project: Path) -> None:
    (project / "a").symlink_to("b")
    (project / "b").symlink_to("a")

    assert refused("rye/file-system/read", project, path="a") == "a: more than 40 links"


@posix
def test_a_folder_that_becomes_a_link_on_the_way_is_not_followed(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool_module("rye/file-system/read")
    confined = sys.modules["confined"]
    (project.parent / "out/a.txt").write_text(SECRET, encoding="utf-8")

    def swapped(name: str, *, dir_fd: int) -> str:
        """An attacker is faster: a path becomes a link between the look and the opening."""
        if name == "src":
            (project / "src").rename(project / "moved")
            (project / "src").symlink_to("../out")
        raise OSError(errno.EINVAL, "no link")

    monkeypatch.setattr(confined.os, "readlink", swapped)

    assert refused("rye/file-system/read", project, path="src/a.txt") == (
        "src/a.txt: src is no folder"
    )


@posix
def test_a_pipe_or_a_folder_is_not_opened(project: Path) -> None:
    os.mkfifo(project / "pipe")

    assert refused("rye/file-system/read", project, path="pipe") == (
        "pipe: expected a file, found a pipe"
    )
    assert refused("rye/file-system/read", project, path="src") == (
        "src: expected a file, found a folder"
    )
    assert refused("rye/file-system/write", project, path="pipe", content="x", overwrite=True) == (
        "pipe: expected a file, found a pipe"
    )
    assert call("rye/file-system/grep", project, pattern="one")["files"] == 1


@pytest.mark.parametrize(
    "path",
    [
        ".git/hooks/pre-commit",
        ".git",
        "src/.git/config",
        ".GIT/config",
        ".git./config",
        ".g\u200cit/config",
        "git~1/config",
        ".ai/config/keys/trusted/x.toml",
        ".ai/config/file-system/access.yaml",
        ".ai/state/x",
        ".AI/State/x",
        "src/../.git/config",
        "nested/.ai/state/x",
    ],
)
def test_files_that_decide_about_runs_are_not_written(path: str, project: Path) -> None:
    answer = refused("rye/file-system/write", project, path=path, content="x", create_folders=True)

    assert answer == (
        f"{path}: nothing is written in .git, .ai/state, .ai/config/keys and .ai/config/file-system"
    )
    assert {entry.name for entry in project.iterdir()} == {"src"}


@pytest.mark.parametrize("folder", ["signing", "receipts"])
def test_private_keys_are_not_read(folder: str, project: Path) -> None:
    path = f".ai/config/keys/{folder}/private.pem"
    key = project / path
    key.parent.mkdir(parents=True)
    key.write_text(SECRET, encoding="utf-8")

    found = call("rye/file-system/grep", project, pattern="business", hidden=True)

    assert refused("rye/file-system/read", project, path=path) == (
        f"{path}: private keys are not read"
    )
    assert refused("rye/file-system/grep", project, path=path, pattern="x") == (
        f"{path}: private keys are not read"
    )
    assert (found["files"], found["files_searched"]) == (0, 1)


@pytest.mark.parametrize("path", ["", "a\0b"])
def test_an_invalid_path_is_an_error(path: str, project: Path) -> None:
    assert refused("rye/file-system/read", project, path=path) == (
        f"path: expected the path of a file, found {path!r}"
    )


def test_the_root_folder_is_no_project(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("USER_SPACE", str(project))

    for folder in (project, Path(project.anchor)):
        assert refused("rye/file-system/ls", folder) == (
            f"{folder}: expected a project, found the folder of everything"
        )


def test_an_allowed_folder_is_in_reach_by_its_absolute_path(project: Path) -> None:
    allowed = project.parent / "out"
    (allowed / "b.txt").write_text("there\n", encoding="utf-8")
    config = {"resolved_config": {"allow": [str(allowed), "relative", str(project / "none")]}}

    read = call("rye/file-system/read", project, path=str(allowed / "b.txt"), **config)
    found = call("rye/file-system/grep", project, path=str(allowed), pattern="there", **config)
    listed = call("rye/file-system/glob", project, path=str(allowed), pattern="*", **config)

    assert read["path"] == "b.txt"
    assert found["results"] == [{"path": str(allowed / "b.txt"), "lines": ["1:there"]}]
    assert listed["paths"] == [str(allowed / "b.txt")]
    assert refused("rye/file-system/read", project, path=str(allowed / "../secret.txt"), **config)


# Paths and links of few names, so that they meet.
STEPS = st.lists(st.sampled_from(["a", "b", "c", "..", ".", "l", "m"]), min_size=1, max_size=5)
TARGETS = STEPS.map("/".join) | STEPS.map(lambda names: "{project}/" + "/".join(names))


@posix
@pytest.mark.property
@given(
    links=st.dictionaries(st.sampled_from(["l", "m", "a/l", "a/b/m", "c/l"]), TARGETS),
    path=STEPS.map("/".join),
    has_at=st.booleans(),
)
def test_a_place_is_in_the_project_and_where_the_system_finds_it(
    links: dict[str, str], path: str, tmp_path_factory: pytest.TempPathFactory, *, has_at: bool
) -> None:
    tool_module("rye/file-system/read")
    confined = sys.modules["confined"]
    project = tmp_path_factory.mktemp("place") / "project"
    for folder in ("a/b", "c", "../a/b", "../c"):
        (project / folder).mkdir(parents=True)
    for name in ("a/b/c", "c/a", "b", "../b", "../c/a"):
        (project / name).write_text(name, encoding="utf-8")
    for name, target in links.items():
        (project / name).symlink_to(target.format(project=project))
    real = Path(os.path.realpath(project / path))

    try:
        with confined.Folders(str(project), has_at=has_at).readable(path) as place:
            status = place.status()
    except (confined.RefusedError, OSError):
        # It may refuse more than the system: a way that leaves the project and comes back.
        way = [part for text in (path, *links.values()) for part in text.split("/")]
        assert not real.is_relative_to(project) or not real.exists() or ".." in way
        return

    found = project.joinpath(*place.parts)
    assert real.is_relative_to(project)
    assert found == real
    if real.exists():
        assert os.path.samestat(status, real.stat())


def test_without_descriptors_of_folders_the_real_path_decides(project: Path) -> None:
    tool_module("rye/file-system/read")
    confined = sys.modules["confined"]
    folders = confined.Folders(str(project), has_at=False)
    if sys.platform != "win32":
        (project / "link").symlink_to("../secret.txt")

    with folders.readable("src/a.txt") as place:
        data, _ = place.read()

    assert data == b"one\ntwo\n"
    for path in ("../secret.txt", "link", "/etc/passwd"):
        with pytest.raises(confined.RefusedError) as error:
            folders.readable(path)
        assert str(error.value) in (
            outside(path, project),
            "link: there is no such file",
        )
    for path in ("con", "src/LPT1.txt", "a:stream"):
        with pytest.raises(confined.RefusedError) as error:
            folders.writable(path)
        assert "found that of a device or stream" in str(error.value)
    with folders.writable("new/b.txt", create_folders=True) as place:
        place.replace(b"x")
    assert (project / "new/b.txt").read_bytes() == b"x"
