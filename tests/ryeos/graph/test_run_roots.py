import json
from pathlib import Path

import pytest

from ryeos.graph.run_places import RunPlace
from ryeos.graph.run_store import roots_of_runs
from ryeos.items.refs import PROJECT, Space


@pytest.fixture
def place(tmp_path: Path) -> RunPlace:
    """A project without runs."""
    return RunPlace(Space(PROJECT, tmp_path))


def write_run(place: RunPlace, run_id: str, *states: str, filler: str = "") -> None:
    """A transcript that came to these states, then to something else."""
    path = place.runs / run_id / "transcript.jsonl"
    path.parent.mkdir(parents=True)
    lines = [{"payload": {"state_hash": state}} for state in states]
    text = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)
    path.write_text(text + filler, "utf-8")


def test_without_runs_the_list_is_empty(place: RunPlace) -> None:
    assert list(roots_of_runs(place)) == []


def test_each_run_has_its_last_state(place: RunPlace) -> None:
    write_run(place, "a-1-0000", "1" * 64, "2" * 64, filler='{"event_type":"checkpoint"}\n')
    write_run(place, "b-1-0000", "3" * 64)

    assert list(roots_of_runs(place)) == ["2" * 64, "3" * 64]


def test_folders_without_a_run_are_skipped(place: RunPlace) -> None:
    write_run(place, "a-1-0000", "1" * 64)
    (place.runs / ".gitignore").write_text("*\n", "utf-8")
    (place.runs / "empty").mkdir()
    write_run(place, "no-state-1-0000", filler='{"event_type":"graph_started"}\n')

    assert list(roots_of_runs(place)) == ["1" * 64]


def test_of_a_long_transcript_the_end_is_enough(place: RunPlace) -> None:
    write_run(place, "a-1-0000", "1" * 64, filler="x" * 5_000_000)
    write_run(place, "b-1-0000", "1" * 64, filler="x" * 3_000_000)

    assert list(roots_of_runs(place)) == ["1" * 64]
