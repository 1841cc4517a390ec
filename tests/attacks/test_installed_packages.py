"""Packages that Rye installed, changed on disk afterwards: nothing of them starts any more."""

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from lillux.process import ProcessManager
from ryeos.items.errors import IntegrityError
from ryeos.run.installed import InstalledTree
from ryeos.run.package_installer import with_own_caches
from ryeos.run.server_packages import ServerInstaller

posix = pytest.mark.skipif(sys.platform == "win32", reason="links, modes and rm")


@pytest.fixture
def tree(tmp_path: Path) -> InstalledTree:
    folder = tmp_path / "environments" / "npm-1234"
    (folder / "node_modules/pkg/dist").mkdir(parents=True)
    (folder / "node_modules/pkg/dist/index.js").write_text("started();\n", "utf-8")
    (folder / "node_modules/pkg/package.json").write_text("{}", "utf-8")
    (folder / "node_modules/pkg/run").write_text("#!/bin/sh\n", "utf-8")
    (folder / "current").symlink_to("node_modules")
    found = InstalledTree(folder)
    found.seal()
    return found


def append(path: Path) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write("evil();\n")


def rewrite(path: Path) -> None:
    """Other bytes of the same length, and the times set back."""
    status = path.stat()
    path.write_bytes(b"x" * status.st_size)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def replace(path: Path) -> None:
    """Another file of the same size and times in its place."""
    other = path.with_name("other")
    shutil.copy2(path, other)
    rewrite(other)
    other.rename(path)


def relink(path: Path) -> None:
    path.unlink()
    path.symlink_to("/etc")


def pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


INDEX = "node_modules/pkg/dist/index.js"


@posix
@pytest.mark.parametrize(
    ("path", "change"),
    [
        (INDEX, append),
        (INDEX, rewrite),
        (INDEX, replace),
        (INDEX, Path.unlink),
        (INDEX, relink),
        (INDEX, pipe),
        ("node_modules/pkg/dist/added.js", Path.touch),
        ("node_modules/added", Path.mkdir),
        ("node_modules/pkg/run", lambda path: path.chmod(0o755)),
        ("current", relink),
    ],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_a_change_of_installed_files_names_the_file_and_the_way_back(
    tree: InstalledTree, path: str, change: Callable[[Path], object]
) -> None:
    tree.require_unchanged()
    change(tree.folder / path)

    with pytest.raises(IntegrityError) as refused:
        tree.require_unchanged()

    assert str(tree.folder / path) in str(refused.value)
    assert "expected" in str(refused.value)
    assert refused.value.code == "INTEGRITY"
    words = shlex.split(refused.value.hint.partition(": ")[2])
    subprocess.run(words, check=True)
    assert not tree.is_made


@posix
def test_a_refused_tree_stays_refused(tree: InstalledTree) -> None:
    append(tree.folder / INDEX)

    for _ in range(2):
        with pytest.raises(IntegrityError):
            tree.require_unchanged()


def test_a_copy_of_the_same_files_holds(tree: InstalledTree) -> None:
    """As a restored backup has them: other times and numbers, the same bytes."""
    moved = tree.folder.with_name("moved")
    shutil.copytree(tree.folder, moved, symlinks=True)
    shutil.rmtree(tree.folder)
    moved.rename(tree.folder)
    before = tree.record.read_bytes()

    tree.require_unchanged()

    assert tree.record.read_bytes() != before  # what the file system says of it now
    tree.require_unchanged()


def test_a_tree_without_a_record_was_not_installed(tree: InstalledTree) -> None:
    tree.record.unlink()

    assert not tree.is_made
    with pytest.raises(IntegrityError):
        tree.require_unchanged()


@posix
def test_the_caches_that_agents_write_decide_about_no_package(tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    npm = tmp_path / "bin/npm"
    npm.parent.mkdir()
    npm.write_text(
        f'#!/bin/sh\necho "$1 $npm_config_cache" >> {seen}\necho {{}} > package-lock.json\n',
        "utf-8",
    )
    npm.chmod(0o755)
    folder = tmp_path / "place/work"
    folder.mkdir(parents=True)
    env = {"PATH": f"{npm.parent}:/usr/bin:/bin", "HOME": str(tmp_path / "home")}
    env["npm_config_cache"] = str(tmp_path / "home/.npm")
    installer = ServerInstaller(ProcessManager(), env, sys.platform)

    installer._npm("install", folder=folder, what="resolve")
    installer._npm("ci", folder=folder, what="install")

    assert seen.read_text("utf-8").split("\n")[:2] == [
        f"install {folder}/downloads/npm",
        f"ci {folder.parent}/downloads/npm",
    ]


def test_a_cache_that_a_variable_names_decides_about_no_package(tmp_path: Path) -> None:
    named = {"NPM_CONFIG_CACHE", "npm_config_cache", "Npm_Config_Cache", "PIP_CACHE_DIR"}
    given = dict.fromkeys({*named, "UV_CACHE_DIR"}, "/home/ada/.npm")

    env = with_own_caches({**given, "npm_config_registry": "https://npm.example"}, tmp_path)

    assert env == {
        "npm_config_registry": "https://npm.example",
        "npm_config_cache": f"{tmp_path}/downloads/npm",
        "PIP_CACHE_DIR": f"{tmp_path}/downloads/pip",
        "UV_CACHE_DIR": f"{tmp_path}/downloads/uv",
    }
