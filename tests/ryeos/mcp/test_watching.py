"""Changes are reported to the clients that listen; without listeners there is no polling."""

from collections.abc import Hashable
from queue import SimpleQueue

import pytest

from ryeos.app.workspace import Rye
from ryeos.mcp.changes import ChangeWatcher
from ryeos.mcp.changes import state_of as state_in
from ryeos.mcp.revisions import Watch, WatchedName
from tests.support.workspace import Workspace

QUICK_S = 0.02
PATIENCE_S = 20.0


def state_of(rye: Rye, name: WatchedName) -> Hashable:
    """The state of a list or a resource."""
    return state_in(lambda: rye, name)


def test_a_list_changes_when_an_item_is_added_changed_or_removed(workspace: Workspace) -> None:
    rye = workspace.rye()
    states = [state_of(rye, "prompts")]
    path = workspace.project.directive("mine/a")
    states.append(state_of(rye, "prompts"))
    workspace.project.directive("mine/a", "Something else.")
    states.append(state_of(rye, "prompts"))
    path.unlink()

    assert states[0] == state_of(rye, "prompts")
    assert len({*states}) == 3


def test_a_resource_changes_with_its_file(workspace: Workspace) -> None:
    rye, uri = workspace.rye(), "rye://knowledge/notes/a"
    missing = state_of(rye, uri)
    workspace.user.knowledge("notes/a")
    first = state_of(rye, uri)
    workspace.project.knowledge("notes/a")

    assert missing is None
    assert len({missing, first, state_of(rye, uri)}) == 3
    assert state_of(rye, uri) == state_of(rye, uri)


@pytest.mark.parametrize("uri", ["rye://help/search", "nonsense", "rye://tool/../x"])
def test_a_constant_resource_never_changes(uri: str, workspace: Workspace) -> None:
    assert state_of(workspace.rye(), uri) is None


def test_a_change_is_reported_and_polling_ends_with_the_last_listener(
    workspace: Workspace,
) -> None:
    rye = workspace.rye()
    changes: SimpleQueue[WatchedName] = SimpleQueue()
    watching = ChangeWatcher(lambda name: state_of(rye, name), look_s=QUICK_S)
    uri = "rye://knowledge/notes/a"
    watching.watch(Watch(frozenset({"prompts", "tools"}), frozenset({uri})), changes.put)
    watching.await_look(PATIENCE_S)

    workspace.project.directive("mine/a")
    first = changes.get(timeout=PATIENCE_S)
    workspace.project.knowledge("notes/a")
    second = changes.get(timeout=PATIENCE_S)
    watching.watch(Watch(), changes.put)

    assert (first, second) == ("prompts", uri)
    assert watching.has_ended(PATIENCE_S)


def test_no_polling_happens_before_a_client_listens() -> None:
    watching = ChangeWatcher(lambda name: name)

    watching.watch(Watch(), lambda _: None)
    watching.watch(Watch(frozenset({"tools"})), lambda _: None)

    assert watching.has_ended(0)


def test_a_new_subscription_is_no_change_and_a_kept_one_is_not_forgotten(
    workspace: Workspace,
) -> None:
    rye = workspace.rye()
    changes: SimpleQueue[WatchedName] = SimpleQueue()
    watching = ChangeWatcher(lambda name: state_of(rye, name), look_s=PATIENCE_S)
    watching.watch(Watch(frozenset({"prompts"})), changes.put)
    watching.await_look(PATIENCE_S)
    workspace.project.directive("mine/a")
    workspace.project.knowledge("notes/a")

    watching.watch(Watch(frozenset({"prompts", "resources"})), changes.put)
    watching.await_look(PATIENCE_S)
    watching.watch(Watch(), changes.put)

    assert watching.has_ended(PATIENCE_S)
    assert changes.get_nowait() == "prompts"
    assert changes.empty()
