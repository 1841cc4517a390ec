import json
import os
import stat
from pathlib import Path

import pytest

from ryeos.run.threads.errors import UnknownRunnerError
from ryeos.run.threads.place import ThreadsPlace
from ryeos.run.threads.seals import RunnerSeals, ThreadRunner

ID = "mine/x/x-1"


@pytest.fixture
def seals(tmp_path: Path) -> RunnerSeals:
    return RunnerSeals(tmp_path / "home" / ".ai")


@pytest.fixture
def sealed(place: ThreadsPlace, seals: RunnerSeals) -> Path:
    place.make_thread_folder(ID)
    seals.seal(place, ID, ThreadRunner(42, "123"))
    return place.file(ID, "runner.json")


def test_a_sealed_runner_is_recognised(
    place: ThreadsPlace, seals: RunnerSeals, sealed: Path
) -> None:
    assert seals.runner(place, ID) == ThreadRunner(42, "123")


@pytest.mark.parametrize(
    "change",
    [{"pid": 43}, {"start_token": "124"}, {"seal": ""}, {"seal": "é"}, {"seal": "0" * 64}],
)
def test_a_changed_runner_file_is_refused(
    change: dict[str, object], place: ThreadsPlace, seals: RunnerSeals, sealed: Path
) -> None:
    sealed.write_text(json.dumps(json.loads(sealed.read_text("utf-8")) | change), "utf-8")

    with pytest.raises(UnknownRunnerError) as error:
        seals.runner(place, ID)

    assert error.value.reason == f"{sealed} was not written by you"


def test_the_seal_of_another_thread_is_refused(
    place: ThreadsPlace, seals: RunnerSeals, sealed: Path
) -> None:
    place.make_thread_folder("mine/x/x-2").joinpath("runner.json").write_bytes(sealed.read_bytes())

    with pytest.raises(UnknownRunnerError):
        seals.runner(place, "mine/x/x-2")


def test_the_seal_of_another_user_is_refused(
    place: ThreadsPlace, seals: RunnerSeals, tmp_path: Path
) -> None:
    place.make_thread_folder(ID)
    RunnerSeals(tmp_path / "mallory").seal(place, ID, ThreadRunner(42, "123"))

    with pytest.raises(UnknownRunnerError):
        seals.runner(place, ID)


@pytest.mark.parametrize("text", ["", "{}", "[]", "[" * 4000, '{"pid":1,"start_token":2,"seal":3}'])
def test_an_invalid_runner_file_is_refused(
    text: str, place: ThreadsPlace, seals: RunnerSeals, sealed: Path
) -> None:
    sealed.write_text(text, "utf-8")

    with pytest.raises(UnknownRunnerError) as error:
        seals.runner(place, ID)

    assert error.value.reason == f"{sealed} is not what rye writes"


def test_without_the_key_every_seal_is_refused(
    place: ThreadsPlace, seals: RunnerSeals, sealed: Path, tmp_path: Path
) -> None:
    (tmp_path / "home" / ".ai" / "state" / "runners.key").write_bytes(b"")

    with pytest.raises(UnknownRunnerError):
        seals.runner(place, ID)


@pytest.mark.skipif(os.name == "nt", reason="Windows has no modes")
def test_the_key_is_only_for_its_user(sealed: Path, tmp_path: Path) -> None:
    key = tmp_path / "home" / ".ai" / "state" / "runners.key"

    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert len(key.read_bytes()) == 32
