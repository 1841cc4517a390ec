"""A backup or a restore is killed at any time: the files from before are whole."""

import os
import random
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from rye_services.node.services import open_services
from rye_services.node.store.objects import UserStores
from rye_services.node.store.push import ProjectPush
from rye_services.settings import read_settings
from tests.support.pushed_trees import folder_stores, put_project
from tests.support.workspace import PLAIN_ENV, ROOT

USER, FILES = "3d4c030534b1c1c6", 800
pytestmark = [pytest.mark.skipif(os.name == "nt", reason="kills as POSIX does"), pytest.mark.heavy]

Command = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """The environment of commands."""
    return {**PLAIN_ENV, "HOME": str(tmp_path)}


@pytest.fixture
def command(environ: dict[str, str]) -> Command:
    """`rye-node.pyz` as a process of its own, killed after a time if one is given."""

    def run(
        *words: str | Path, killed_after_s: float | None = None
    ) -> "subprocess.CompletedProcess[str]":
        argv = [sys.executable, str(ROOT / "rye_node.py"), *map(str, words)]
        with subprocess.Popen(
            argv, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8"
        ) as process:
            try:
                out, err = process.communicate(timeout=killed_after_s)
            except subprocess.TimeoutExpired:
                process.kill()
                out, err = process.communicate()
        return subprocess.CompletedProcess(argv, process.returncode, out, err)

    return run


@pytest.fixture
def data(tmp_path: Path, command: Command) -> Path:
    """The data of a node with a project of many files."""
    folder = tmp_path / "data"
    assert command("init", "--data", folder).returncode == 0
    push(folder, "first", None)
    return folder


def push(folder: Path, name: str, expected: str | None) -> str:
    """Push many files that differ from those of any other name; the snapshot."""
    settings = read_settings({"data_dir": str(folder)}, {}, folder)
    services = open_services(settings, folder)
    store = folder_stores(services).of(USER)
    contents = {f"{name}/{number}": f"{name} {number}".encode() for number in range(FILES)}
    wanted = ProjectPush(
        project_path="ada/p",
        project_manifest_hash=put_project(store, contents),
        expected_snapshot_hash=expected,
    )
    try:
        services.sync.usage.read(USER, store=store)
        return services.sync.pushing.push_project(USER, store, wanted).snapshot_hash
    finally:
        services.database.close()


def test_a_backup_that_is_killed_leaves_the_one_before_whole(
    data: Path, command: Command, tmp_path: Path
) -> None:
    target, rng = tmp_path / "backup", random.Random(18)  # noqa: S311 - when to kill is no secret
    began_s = time.monotonic()
    assert command("backup", target, "--data", data).returncode == 0
    takes_s = time.monotonic() - began_s

    for number in range(4):
        command("backup", target, "--data", data, killed_after_s=takes_s * rng.uniform(0.3, 1.0))
        place = tmp_path / f"restored{number}"
        restored = command("restore", target, "--data", place)
        assert restored.returncode == 0, restored.stderr
        settings = read_settings({"data_dir": str(data)}, {}, data)
        services = open_services(settings, data)
        (_, _, present), *_ = services.sync.heads.of(USER)
        services.database.close()
        push(data, f"n{number}", present.snapshot_hash)

    made = command("backup", target, "--data", data)
    assert made.returncode == 0, made.stderr
    assert {path.name.partition("-")[0] for path in target.iterdir()} == {
        "backup.lock",
        "cas",
        "state",
    }


def test_a_restore_that_is_killed_leaves_no_half_of_a_node(
    data: Path, command: Command, tmp_path: Path
) -> None:
    target, rng = tmp_path / "backup", random.Random(18)  # noqa: S311 - when to kill is no secret
    assert command("backup", target, "--data", data).returncode == 0
    began_s = time.monotonic()
    assert command("restore", target, "--data", tmp_path / "whole").returncode == 0
    takes_s = time.monotonic() - began_s

    for number in range(4):
        place = tmp_path / f"killed{number}"
        command("restore", target, "--data", place, killed_after_s=takes_s * rng.uniform(0.3, 1.0))
        if not place.exists():
            assert command("restore", target, "--data", place).returncode == 0
        checked = command("fsck", "--data", place)
        assert checked.returncode == 0, checked.stdout
        assert UserStores(place / "cas").users() == (USER,)
