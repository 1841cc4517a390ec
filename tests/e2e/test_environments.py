"""Invalid homes, full disks, users without an entry in the system: ``rye.pyz`` works."""

import json
import os
import stat
from pathlib import Path

import pytest

from tests.support.built import Machine
from tests.support.environments import SharedFile, mounted, without_room

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(os.name == "nt", reason="Windows has no modes, mounts and user numbers"),
]

ECHO = ("run", "rye/bash/bash", "command=echo hi")
KEY = ("keys", "generate", "--json")


@pytest.fixture
def machine(new_machine: Machine) -> Machine:
    return new_machine


def natives(machine: Machine, **environ: str) -> dict[str, dict[str, str]]:
    """From where each compiled module was loaded, or why it was not."""
    report = json.loads(machine.ask("self", "where", "--json", environ=machine.environ(**environ)))
    found: dict[str, dict[str, str]] = report["natives"]
    return found


def loaded(machine: Machine, **environ: str) -> set[str]:
    """The folders that compiled modules were loaded from."""
    return {str(Path(native["loaded"]).parent) for native in natives(machine, **environ).values()}


# --- homes ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("home", ["", "/", "/dev/null", "/no such folder", "relative"])
def test_an_invalid_home_is_no_obstacle(home: str, machine: Machine) -> None:
    environ = machine.environ(HOME=home)

    assert machine.ask(*ECHO, environ=environ) == "hi\n"
    assert loaded(machine, HOME=home) == {"/proc/self/fd"}
    assert list(machine.temporary.iterdir()) == []


def test_a_home_below_a_file_is_no_obstacle(machine: Machine, built_pyz: Path) -> None:
    answer = machine.ask(*ECHO, environ=machine.environ(HOME=str(built_pyz / "home")))

    assert answer == "hi\n"


def test_a_home_that_cannot_be_written_is_no_obstacle(shared: SharedFile) -> None:
    home = shared.make("home", 0o555)

    ended = shared.run(*ECHO, HOME=str(home))

    assert (ended.stdout, ended.stderr, ended.returncode) == ("hi\n", "", 0)
    assert list(home.iterdir()) == list(shared.temporary.iterdir()) == []


def test_a_home_on_a_read_only_file_system_is_no_obstacle(machine: Machine) -> None:
    with mounted(machine.home / "read-only", "ro,size=1m") as home:
        environ = machine.environ(HOME=str(home))

        assert machine.ask(*ECHO, environ=environ) == "hi\n"
        assert loaded(machine, HOME=str(home)) == {"/proc/self/fd"}


def test_an_unknown_user_is_no_obstacle(shared: SharedFile) -> None:
    ran = shared.run(*ECHO)
    made_a_key = shared.run(*KEY, USER_SPACE=str(shared.make("space", 0o777)))

    assert (ran.stdout, ran.stderr, ran.returncode) == ("hi\n", "", 0)
    assert json.loads(made_a_key.stdout)["status"] == "success"
    assert list(shared.temporary.iterdir()) == []


@pytest.mark.parametrize("command", [("init",), ("doctor",), ("keys", "generate")])
def test_a_home_that_may_not_be_entered_is_reported_and_is_no_bug(
    shared: SharedFile, command: tuple[str, ...]
) -> None:
    home = shared.make("locked", 0)

    done = shared.run(*command, HOME=str(home))

    assert "internal error" not in done.stdout + done.stderr
    assert str(home) in done.stdout + done.stderr


def test_rye_of_root_leaves_no_file_in_the_home_of_a_user(machine: Machine) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can start something in the home of another user")
    os.chown(machine.home, 12345, 12345)

    answer = machine.ask(*ECHO)

    assert answer == "hi\n"
    assert list(machine.home.iterdir()) == []


# --- caches ---------------------------------------------------------------------------------------


def test_the_cache_can_be_put_elsewhere(machine: Machine) -> None:
    elsewhere = machine.home / "else where"

    machine.ask(*ECHO, environ=machine.environ(RYE_CACHE_DIR=str(elsewhere)))

    assert {path.name for path in elsewhere.iterdir()} == {"bundle", "programs"}
    assert not machine.cache.exists()


def test_the_version_needs_no_cache(machine: Machine) -> None:
    machine.ask("version")

    assert list(machine.home.iterdir()) == []


def test_no_other_user_can_enter_the_cache_for_any_umask(machine: Machine) -> None:
    shown = machine.ask("run", "rye/bash/bash", "command=umask", umask=0)
    machine.run("self", "where", umask=0)

    kept = [machine.home / ".cache", *(machine.home / ".cache").rglob("*")]
    modes = {stat.S_IMODE(path.stat().st_mode) for path in kept}
    assert modes == {0o700, 0o600, 0o500}
    assert shown == "0000\n"  # the umask of the user is the umask of the tool


@pytest.mark.parametrize("kind", ["bundle", "native"])
def test_a_cache_that_others_can_write_is_left_alone(kind: str, machine: Machine) -> None:
    folder = machine.cache / kind
    folder.mkdir(parents=True)
    folder.chmod(0o777)

    machine.ask(*ECHO)
    machine.ask("self", "where")

    assert list(folder.iterdir()) == []


def test_a_link_in_place_of_the_cache_is_left_alone(machine: Machine) -> None:
    elsewhere = machine.home / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    machine.cache.mkdir(parents=True, mode=0o700)
    for kind in ("bundle", "native"):
        (machine.cache / kind).symlink_to(elsewhere)

    machine.ask(*ECHO)

    assert loaded(machine) == {"/proc/self/fd"}
    assert list(elsewhere.iterdir()) == []


def test_a_cache_where_nothing_may_be_executed_is_no_obstacle(machine: Machine) -> None:
    with mounted(machine.home / "noexec", "noexec,size=64m") as home:
        environ = machine.environ(HOME=str(home))

        assert machine.ask(*ECHO, environ=environ) == "hi\n"
        assert loaded(machine, HOME=str(home)) == {"/proc/self/fd"}


# --- disks ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", ["8k", "20k", "300k"])
def test_a_full_disk_is_no_obstacle_and_no_half_written_file_stays(
    size: str, machine: Machine
) -> None:
    with mounted(machine.home / "full", f"size={size}") as home:
        environ = machine.environ(HOME=str(home))

        assert machine.ask(*ECHO, environ=environ) == "hi\n"
        assert "/proc/self/fd" in loaded(machine, HOME=str(home))
        assert list(home.rglob("*.tmp")) == []
    assert list(machine.temporary.iterdir()) == []


def test_with_no_room_anywhere_it_says_so_and_prints_its_version(machine: Machine) -> None:
    without_room(machine)

    version, ran = machine.run("version"), machine.run(*ECHO)

    assert (version.stdout, version.stderr, version.returncode) == ("rye 0.1.0\n", "", 0)
    assert (ran.stdout, ran.returncode) == ("", 1)
    assert ran.stderr.startswith("error: the bundle: no usable temporary directory found in ")
    assert list(machine.home.rglob("*.tmp")) == []


@pytest.mark.parametrize(
    ("command", "status", "message"),
    [
        (ECHO, 1, "error: standard output: no space left on device\n"),
        (("run", "mine/nothing"), 3, "error: no project here: "),
    ],
)
def test_an_answer_that_cannot_be_written_is_reported_without_it(
    machine: Machine, command: tuple[str, ...], status: int, message: str
) -> None:
    machine.rye = ("sh", "-c", 'exec "$@" > /dev/full', "sh", *machine.rye)

    done = machine.run(*command, "--json")

    assert done.returncode == status
    assert done.stderr.startswith(message)
    assert "Traceback" not in done.stderr


def test_an_endless_file_of_parameters_is_refused(machine: Machine) -> None:
    done = machine.run("run", "rye/bash/bash", "--params", "@/dev/zero")

    assert (done.returncode, done.stderr) == (1, "error: /dev/zero: expected a regular file\n")
