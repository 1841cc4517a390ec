"""``search`` and ``load`` with source ``registry``, against a real one."""

from typing import Any

import pytest

from ryeos.app.load import load
from ryeos.app.search import search
from ryeos.items.errors import VerbArgumentError
from ryeos.remote.registry_errors import LocalEditError
from tests.support.registry import Account, Registry
from tests.support.workspace import Workspace


@pytest.fixture
def account(workspace: Workspace, shared_registry: Registry) -> Account:
    """A publisher of a tool, and a user who named that registry."""
    made = shared_registry.account()
    made.push(f"{made.name}/text/upper")
    workspace.user.write(
        "config/registry/registry.yaml",
        f"registry:\n  default:\n    url: {shared_registry.url}\n",
    )
    return made


def loaded(workspace: Workspace, account: Account, **more: Any) -> dict[str, Any]:  # noqa: ANN401
    """The answer of ``load`` for the published tool."""
    arguments = {"item_id": f"tool:{account.name}/text/upper", "source": "registry", **more}
    return dict(load(workspace.rye(), arguments).envelope)


def test_published_items_are_found_on_request(workspace: Workspace, account: Account) -> None:
    here = {"query": "hello", "scope": f"tool.{account.name}.text"}

    [row] = search(workspace.rye(), {**here, "source": "registry"}).envelope["results"]
    local = search(workspace.rye(), here).envelope

    assert (row["ref"], row["source"]) == (f"tool:{account.name}/text/upper", "registry")
    assert row["metadata"] == {"version": "1.0.0"}
    assert local["results"] == []


def test_options_that_only_local_searches_have_are_refused(
    workspace: Workspace, account: Account
) -> None:
    assert account.name
    with pytest.raises(VerbArgumentError):
        search(workspace.rye(), {"source": "registry", "fuzzy": {"enabled": True}})


def test_a_published_item_is_read_without_a_trace(workspace: Workspace, account: Account) -> None:
    answer = loaded(workspace, account, version="1.0.0", max_chars=20)

    assert answer["content"].startswith("# rye:signed:")
    assert (answer["next_offset"], answer["metadata"]["author"]) == (20, account.name)
    assert not (workspace.project.space.ai / "tools").exists()


def test_a_published_item_is_copied_and_does_not_run_yet(
    workspace: Workspace, account: Account
) -> None:
    copied = loaded(workspace, account, destination="project")

    assert (copied["placed"], copied["copied_to"]) == ("written", "project")
    assert copied["warnings"] == ["it does not run yet: read it, then sign it with the tool sign"]
    path = workspace.project.space.ai / "tools" / account.name / "text" / "upper.py"
    path.write_text("mine\n", "utf-8")
    with pytest.raises(LocalEditError):
        loaded(workspace, account, destination="project")
    assert loaded(workspace, account, destination="project", overwrite=True)["placed"] == "replaced"
