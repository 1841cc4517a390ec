"""The stored grants of a run: only this user's Rye can have written them."""

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ryeos.items.context import log_warning
from ryeos.run.threads.grants import Grants, read_grants, write_grants
from ryeos.run.threads.place import ThreadsPlace
from ryeos.run.threads.seals import RunnerSeals

ID = "demo-x-1-abcd"


@pytest.fixture
def seals(tmp_path: Path) -> RunnerSeals:
    return RunnerSeals(tmp_path / "home" / ".ai")


@given(
    lists=st.lists(st.lists(st.text(max_size=9), max_size=3).map(tuple), max_size=3).map(tuple),
    own=st.none() | st.lists(st.text(max_size=9), max_size=3).map(tuple),
    depth=st.none() | st.integers(-1, 99),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_written_grants_are_read_back(
    lists: tuple[tuple[str, ...], ...],
    own: tuple[str, ...] | None,
    depth: int | None,
    place: ThreadsPlace,
    seals: RunnerSeals,
) -> None:
    write_grants(place, seals, ID, Grants(lists, own, depth), log_warning)

    assert read_grants(place, seals, ID) == Grants(lists, own, depth)


def test_a_missing_file_means_no_grants(place: ThreadsPlace, seals: RunnerSeals) -> None:
    assert read_grants(place, seals, ID) is None


def test_grants_of_another_user_are_refused(
    place: ThreadsPlace, seals: RunnerSeals, tmp_path: Path
) -> None:
    write_grants(place, RunnerSeals(tmp_path / "other" / ".ai"), ID, Grants((("*",),)), log_warning)

    with pytest.raises(ValueError, match="was not written by you"):
        read_grants(place, seals, ID)


def test_the_seal_of_a_runner_is_refused_for_grants(
    place: ThreadsPlace, seals: RunnerSeals
) -> None:
    write_grants(place, seals, ID, Grants((("*",),), None, 3), log_warning)
    path = place.file(ID, "grants.json")
    code = seals.code("rye runner 1", ID, [["*"]], None, 3)
    path.write_text(json.dumps(json.loads(path.read_text("utf-8")) | {"seal": code}), "utf-8")

    with pytest.raises(ValueError, match="was not written by you"):
        read_grants(place, seals, ID)
