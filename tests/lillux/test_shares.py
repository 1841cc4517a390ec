"""Groups of processes with shares of a machine, in folders of the form that the system gives."""

import os
from pathlib import Path

import pytest

from lillux.shares import Shares, open_shares

pytestmark = pytest.mark.skipif(os.name == "nt", reason="control groups of Linux")


def machine(tmp_path: Path, kind: str, *controllers: str) -> dict[str, Path]:
    """The two files that say where groups are: all below ``tmp_path``."""
    mounts, groups = tmp_path / "mountinfo", tmp_path / "cgroup"
    if kind == "cgroup2":
        mounts.write_text(
            f"30 1 0:26 / {tmp_path / 'tree'} rw - cgroup2 cgroup2 rw\n", encoding="utf-8"
        )
        groups.write_text("0::/system.slice/rye-node.service\n", encoding="utf-8")
    else:
        lines = (
            f"3{i} 1 0:2{i} / {tmp_path / one} rw - cgroup cgroup rw,{one}\n"
            for i, one in enumerate(controllers)
        )
        mounts.write_text("".join(lines), encoding="utf-8")
        groups.write_text(
            "".join(f"{i}:{one}:/\n" for i, one in enumerate(controllers)), encoding="utf-8"
        )
    return {"mounts": mounts, "groups": groups}


def delegated(tmp_path: Path, *inside: int) -> Path:
    """A group of version 2 with these processes in it."""
    own = tmp_path / "tree" / "system.slice" / "rye-node.service"
    own.mkdir(parents=True)
    own.joinpath("cgroup.controllers").write_text("cpuset cpu io memory pids\n", encoding="utf-8")
    own.joinpath("cgroup.procs").write_text("".join(f"{one}\n" for one in inside), encoding="utf-8")
    return own


def test_a_delegated_group_of_version_2_gets_one_for_the_server_and_one_for_runs(
    tmp_path: Path,
) -> None:
    own = delegated(tmp_path, os.getpid())

    shares = open_shares(**machine(tmp_path, "cgroup2"))

    assert shares == Shares({"": str(own / "rye-runs")}, ("cpu", "memory", "pids"))
    assert (own / "rye-server" / "cgroup.procs").read_text(encoding="utf-8") == "0"
    for group in (own, own / "rye-runs"):
        assert (group / "cgroup.subtree_control").read_text(
            encoding="utf-8"
        ) == "+cpu +memory +pids"


def test_a_run_has_a_group_below_that_of_its_owner_with_its_limits(tmp_path: Path) -> None:
    own = delegated(tmp_path, os.getpid())
    shares = open_shares(**machine(tmp_path, "cgroup2"))

    shares.join("ada", "one", memory_bytes=1 << 30, processes=0)

    owner = own / "rye-runs" / "ada"
    assert (owner / "cgroup.subtree_control").read_text(encoding="utf-8") == "+cpu +memory +pids"
    assert (owner / "one" / "memory.max").read_text(encoding="utf-8") == str(1 << 30)
    assert not (owner / "one" / "pids.max").exists()
    assert (owner / "one" / "cgroup.procs").read_text(encoding="utf-8") == "0"


def test_a_group_that_holds_other_processes_is_left_as_it_is(tmp_path: Path) -> None:
    own = delegated(tmp_path, os.getpid(), 1)

    shares = open_shares(**machine(tmp_path, "cgroup2"))

    assert (shares.held, shares.missing) == (
        (),
        "the control group of the node holds other processes too",
    )
    assert sorted(path.name for path in own.iterdir()) == ["cgroup.controllers", "cgroup.procs"]


def test_groups_of_version_1_are_a_tree_for_each_controller(tmp_path: Path) -> None:
    for name in ("cpu", "memory", "pids"):
        tmp_path.joinpath(name).mkdir()

    shares = open_shares(**machine(tmp_path, "cgroup", "cpu", "memory", "pids", "freezer"))
    shares.join("ada", "one", memory_bytes=5, processes=7)

    assert shares.held == ("cpu", "memory", "pids")
    run = Path("rye-runs", "ada", "one")
    assert (tmp_path / "memory" / run / "memory.limit_in_bytes").read_text(encoding="utf-8") == "5"
    assert (tmp_path / "pids" / run / "pids.max").read_text(encoding="utf-8") == "7"


@pytest.mark.parametrize("kind", ["cgroup2", "cgroup"])
def test_a_machine_without_groups_says_so(tmp_path: Path, kind: str) -> None:
    shares = open_shares(**machine(tmp_path, kind))

    assert shares.folders == {}
    assert shares.missing
