from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lillux.values import replace
from ryeos.graph.errors import RunIdError, RunPlaceError
from ryeos.graph.run_pages import (
    HistoryStep,
    RunPage,
    history_of,
    node_states,
    page_path,
    render_page,
    write_page,
)
from ryeos.graph.run_places import RunPlace
from ryeos.items.errors import InvalidRefError
from ryeos.items.refs import USER, Kind, Space
from ryeos.items.yaml import parse_yaml
from ryeos.trust.verify import Target
from tests.support.workspace import Workspace

HISTORY = (
    HistoryStep(step=1, node="fetch", status="completed", elapsed_s=0.5),
    HistoryStep(step=2, node="check", status="error", elapsed_s=0.25, error="no | way"),
)
PAGE = RunPage(
    graph_id="mine/build",
    run_id="mine-build-1-00ff",
    version="1.0.0",
    status="error",
    started=0,
    updated=60,
    nodes=node_states(["fetch", "check", "done"], HISTORY),
    history=HISTORY,
)


def header(text: str) -> dict[str, object]:
    return parse_yaml(text.split("```")[1].removeprefix("yaml\n"), "page")


def test_a_page_shows_the_nodes_and_the_history() -> None:
    text = render_page(PAGE)

    assert "| ✅ | fetch | 1 | 0.50 |\n| ❌ | check | 1 | 0.25 |\n| ⏳ | done | 0 | 0.00 |" in text
    assert "1. ✅ fetch, 0.50 s\n2. ❌ check, 0.25 s: no \\| way" in text
    assert header(text)["category"] == "state/graphs/mine/build"


def test_the_node_that_runs_has_its_own_mark() -> None:
    states = node_states(["fetch", "check"], HISTORY, current="check")

    assert [state.status for state in states] == ["completed", "running"]


def test_the_history_is_that_of_the_transcript() -> None:
    payload = {"step": 1, "node": "fetch", "status": "completed", "elapsed_s": 0.5, "error": None}

    assert history_of([(0, "step_started", {}), (1, "step_completed", payload)]) == [HISTORY[0]]


@pytest.mark.property
@given(st.text(max_size=80))
def test_no_name_ends_the_fence_or_a_row(name: str) -> None:
    clean = render_page(PAGE)
    history = (HistoryStep(step=1, node=name, status=name, error=name),)
    page = replace(PAGE, status=name, nodes=node_states([name], history), history=history)

    text = render_page(page)

    assert text.count("```") == clean.count("```") == 2
    assert "<!--" not in text
    assert len(text.split("\n")) == len(clean.split("\n")) - 3
    if name.isprintable():
        assert header(text)["status"] == name


def test_a_page_is_a_signed_knowledge_item(workspace: Workspace) -> None:
    place = RunPlace(workspace.user.space)

    path = write_page(place, PAGE, workspace.signer())

    target = Target(path=path, kind=Kind.KNOWLEDGE, space=place.space)
    assert path == place.ai / "knowledge/state/graphs/mine/build/mine-build-1-00ff.md"
    assert workspace.rye().verifier.verify(target).verified


def test_a_page_is_replaced_by_the_next_one(workspace: Workspace) -> None:
    place = RunPlace(workspace.user.space)
    write_page(place, PAGE, workspace.signer())

    path = write_page(place, replace(PAGE, status="completed"), workspace.signer())

    assert 'status: "completed"' in path.read_text("utf-8")


def test_a_page_without_a_key_is_unsigned(tmp_path: Path) -> None:
    path = write_page(RunPlace(Space(USER, tmp_path)), PAGE, None)

    assert path.read_text("utf-8") == render_page(PAGE)


def test_a_page_is_below_the_knowledge_only(tmp_path: Path) -> None:
    place = RunPlace(Space(USER, tmp_path))

    with pytest.raises(InvalidRefError):
        page_path(place, "../../x", PAGE.run_id)
    with pytest.raises(RunIdError):
        page_path(place, "mine/build", "../x")


def test_no_page_is_written_through_a_planted_link(tmp_path: Path) -> None:
    place = RunPlace(Space(USER, tmp_path / "base"))
    (tmp_path / "outside").mkdir()
    place.ai.mkdir(parents=True)
    (place.ai / "knowledge").symlink_to(tmp_path / "outside")

    with pytest.raises(RunPlaceError):
        write_page(place, PAGE, None)
