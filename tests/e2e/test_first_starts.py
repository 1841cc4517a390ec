"""First starts that run at once, are killed, or find a damaged cache."""

import json
import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.support.built import Machine

pytestmark = pytest.mark.e2e

ECHO = ("run", "rye/bash/bash", "command=echo hi")
WHERE = ("self", "where", "--json")
KILLS = 60


@pytest.fixture
def machine(new_machine: Machine) -> Machine:
    return new_machine


def contents(folder: Path) -> dict[str, bytes]:
    """Every file below a folder."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


@pytest.fixture
def whole(machine: Machine) -> dict[str, bytes]:
    """The contents of the cache after undisturbed starts."""
    machine.ask(*ECHO)
    machine.ask(*WHERE)
    return contents(machine.cache)


def test_the_second_start_uses_the_files_of_the_first_one(
    machine: Machine, whole: dict[str, bytes]
) -> None:
    before = _times(machine.cache)

    machine.ask(*ECHO)
    machine.ask(*WHERE)

    assert _times(machine.cache) == before
    assert {name.partition("/")[0] for name in whole} == {"bundle", "native", "programs"}
    left = [one.name for one in machine.temporary.iterdir()]
    assert [name for name in left if not name.startswith("rye-")] == []


def _times(cache: Path) -> dict[Path, int]:
    """When each entry was changed. The folder ``.ai`` has a note of the boot there, made by the
    first start that is long enough after the one that wrote the files (`zipboot.layout`).
    """
    return {path: path.stat().st_mtime_ns for path in cache.rglob("*") if path.name != ".ai"}


def test_eight_first_starts_at_once_all_work(machine: Machine) -> None:
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda command: machine.ask(*command), [ECHO, WHERE] * 4))

    assert answers[::2] == ["hi\n"] * 4
    places = [json.loads(answer) for answer in answers[1::2]]
    assert len({(place["bundle"], *map(str, place["natives"].values())) for place in places}) == 1
    assert [name for name in contents(machine.cache) if name.endswith(".tmp")] == []


@pytest.mark.heavy
def test_starts_that_were_killed_at_any_time_do_not_disturb_the_next_one(
    machine: Machine, whole: dict[str, bytes]
) -> None:
    for name in whole:
        (machine.cache / name).unlink()

    for number in range(KILLS):
        _start_and_kill(machine, after_s=number / 1000, command=(ECHO, WHERE)[number % 2])
    answer, report = machine.ask(*ECHO), json.loads(machine.ask(*WHERE))

    assert answer == "hi\n"
    assert {"problem" in native for native in report["natives"].values()} == {False}
    assert {
        name: data for name, data in contents(machine.cache).items() if not name.endswith(".tmp")
    } == whole


def _start_and_kill(machine: Machine, *, after_s: float, command: tuple[str, ...]) -> None:
    process = subprocess.Popen(
        [*machine.rye, *command],
        env=machine.environ(),
        cwd=machine.project,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    )
    try:
        process.wait(timeout=after_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


# --- damage ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("damage", ["cut", "emptied", "changed"])
def test_a_cache_that_was_damaged_is_fixed_before_it_is_used(
    damage: str, machine: Machine, whole: dict[str, bytes]
) -> None:
    for name, data in whole.items():
        path = machine.cache / name
        path.chmod(0o600)
        half = len(data) // 2
        changed = data[:half] + bytes([data[half] ^ 1]) + data[half + 1 :]
        path.write_bytes({"cut": data[:half], "emptied": b"", "changed": changed}[damage])

    answer, report = machine.ask(*ECHO), json.loads(machine.ask(*WHERE))

    fixed = contents(machine.cache)
    unused = {name for name in whole if fixed[name] != whole[name]}
    assert answer == "hi\n"
    assert {"problem" in native for native in report["natives"].values()} == {False}
    assert {name for name in unused if name.startswith("native/")} == set()
    assert unused == set() or damage == "changed"  # of that size, and checked when it is used


def test_a_changed_tool_of_the_bundle_does_not_run_as_it_is(
    machine: Machine, whole: dict[str, bytes]
) -> None:
    (name,) = (name for name in whole if name.endswith("/rye/bash/bash.yaml"))
    tool = machine.cache / name
    tool.write_bytes(whole[name].replace(b"command", b"COMMAND"))

    answer = machine.ask(*ECHO)

    assert answer == "hi\n"
    assert tool.read_bytes() == whole[name]


def test_a_file_laid_beside_the_tools_of_the_bundle_does_not_run(
    machine: Machine, whole: dict[str, bytes]
) -> None:
    (name,) = (name for name in whole if name.endswith("/rye/bash/bash.yaml"))
    stranger = (machine.cache / name).with_name("stranger.yaml")
    stranger.write_bytes(whole[name])

    ended = machine.run("run", "rye/bash/stranger", "command=echo hi")

    assert (ended.stdout, ended.returncode) == ("", 4)


def test_unused_layouts_and_modules_go_when_a_new_one_is_made(machine: Machine) -> None:
    old = [machine.cache / "bundle" / "0123456789abcdef", machine.cache / "native" / ("ab" * 20)]
    for path in old:
        path.mkdir(parents=True, mode=0o700)
        path.parent.chmod(0o700)
        os.utime(path, (1_000_000_000, 1_000_000_000))

    machine.ask(*ECHO)
    machine.ask(*WHERE)

    assert [path for path in old if path.exists()] == []
