import os
import stat
from pathlib import Path
from typing import Any

import pytest

from lillux.errors import UnsafePathError
from lillux.signing import generate_keypair
from lillux.values import replace
from ryeos.app.load import load
from ryeos.app.search import fetch
from ryeos.app.verbs import answer
from ryeos.items.errors import (
    IntegrityError,
    ItemNotFoundError,
    RyeError,
    UnsignedError,
    UntrustedKeyError,
    VerbArgumentError,
)
from ryeos.items.refs import Kind
from ryeos.trust.known_texts import text_digest
from tests.support.errors import coded
from tests.support.workspace import Workspace

BASH = "tool:rye/bash/bash"


def loaded(workspace: Workspace, item_id: str, **arguments: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
    """The answer to a load."""
    return dict(load(workspace.rye(), {"item_id": item_id, **arguments}).envelope)


def test_an_item_is_its_text_its_metadata_and_its_inputs(workspace: Workspace) -> None:
    schema = 'CONFIG_SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}}\n'
    path = workspace.project.signed_tool("mine/x", extra=schema)
    text = path.read_text("utf-8")

    assert loaded(workspace, "tool:mine/x") == {
        "status": "success",
        "mode": "id",
        "ref": "tool:mine/x",
        "item_id": "mine/x",
        "path": str(path),
        "source": "project",
        "content": text,
        "metadata": {
            "name": "x",
            "category": "mine",
            "extension": ".py",
            "path": str(path),
            "version": "1.0.0",
            "description": "test tool",
            "tool_type": "python",
        },
        "total_chars": len(text),
        "text_sha256": text_digest(Kind.TOOL, path, text.encode()),
        "project_path": str(workspace.project_path),
        "input_schema": {"type": "object", "properties": {"n": {"type": "integer"}}},
    }


def test_the_inputs_of_a_directive_are_a_schema(workspace: Workspace) -> None:
    inputs = (
        '<inputs><input name="path" type="string" required="true">Where</input>'
        '<input name="depth" type="integer" default="2"/></inputs>'
    )
    workspace.project.sign(workspace.project.directive("mine/review", inputs=inputs))

    assert loaded(workspace, "directive:mine/review")["input_schema"] == {
        "type": "object",
        "properties": {
            "path": {"type": "string", "description": "Where"},
            "depth": {"type": "integer", "default": 2},
        },
        "required": ["path"],
    }


def test_a_long_text_comes_in_windows(workspace: Workspace) -> None:
    workspace.project.sign(workspace.project.knowledge("long", "word " * 100))

    first = loaded(workspace, "long", max_chars=100)
    rest = loaded(workspace, "long", offset=first["next_offset"])

    assert (first["next_offset"], len(first["content"])) == (100, 100)
    assert len(first["content"] + rest["content"]) == rest["total_chars"]
    assert "next_offset" not in rest


def test_an_item_without_a_valid_signature_is_refused_with_a_hint(workspace: Workspace) -> None:
    unsigned = workspace.project.tool("unsigned")
    changed = workspace.project.signed_tool("changed")
    changed.write_bytes(changed.read_bytes() + b"\n")
    foreign = workspace.project.tool("foreign")
    workspace.project.sign_unchecked(foreign, generate_keypair())

    with pytest.raises(UnsignedError, match=r"^unsigned item") as error:
        loaded(workspace, "unsigned")
    assert error.value.hint.endswith(f"rye sign {unsigned}")
    with pytest.raises(IntegrityError, match=r"^content modified"):
        loaded(workspace, "changed")
    with pytest.raises(UntrustedKeyError):
        loaded(workspace, "foreign")


def test_in_dev_mode_an_unsigned_text_comes_with_a_warning(workspace: Workspace) -> None:
    workspace.project.tool("unsigned")

    answered = load(workspace.rye(dev_mode=True), {"item_id": "unsigned"}).envelope

    assert answered["warnings"] == ["RYE_DEV_MODE: this text is not what a trusted key signed"]


def test_a_missing_item_gets_suggestions(workspace: Workspace) -> None:
    refused = answer(workspace.rye(), "load", {"item_id": "tool:rye/bash/bahs"})

    assert refused.exit_status == 3
    assert refused.envelope["code"] == "ITEM_NOT_FOUND"
    assert refused.envelope["item_id"] == "tool:rye/bash/bahs"
    assert refused.envelope["suggestions"][0] == BASH
    assert refused.envelope["searched_in"] == ["project", "user", "system:ryeos"]


def test_a_source_is_the_space_where_the_search_starts(workspace: Workspace) -> None:
    workspace.project.signed_tool("rye/bash/bash")

    assert loaded(workspace, BASH)["source"] == "project"
    assert loaded(workspace, BASH, source="user")["source"] == "system:ryeos"
    with pytest.raises(ItemNotFoundError):
        loaded(workspace, "tool:mine", source="system")


def test_options_that_only_a_registry_has_are_refused(workspace: Workspace) -> None:
    with pytest.raises(RyeError, check=coded("REGISTRY_NOT_CONFIGURED")):
        loaded(workspace, "tool:ada/text/upper", source="registry")
    with pytest.raises(VerbArgumentError, match=r"^version: expected only with source registry$"):
        loaded(workspace, BASH, version="1.0.0")


# --- copies ---------------------------------------------------------------------------------------


def test_a_copy_is_byte_for_byte_and_names_the_item_that_it_hides(workspace: Workspace) -> None:
    answered = loaded(workspace, BASH, destination="project")

    target = workspace.project_path / ".ai/tools/rye/bash/bash.yaml"
    source = workspace.bundles[0].base / ".ai/tools/rye/bash/bash.yaml"
    copied = {
        key: answered[key] for key in ("copied_to", "destination_path", "now_shadows", "warnings")
    }
    assert copied == {
        "copied_to": "project",
        "destination_path": str(target),
        "now_shadows": [{"source": "system:ryeos"}],
        "warnings": ["sign it again after you change it"],
    }
    assert target.read_bytes() == source.read_bytes()


def test_a_second_copy_changes_nothing(workspace: Workspace) -> None:
    loaded(workspace, BASH, destination="project")

    again = loaded(workspace, BASH, source="user", destination="project")

    assert again["unchanged"] is True
    assert "warnings" not in again


def test_a_copy_to_where_the_item_is_only_reads(workspace: Workspace) -> None:
    path = workspace.project.signed_tool("mine")

    answered = loaded(workspace, "mine", destination="project")

    assert (answered["unchanged"], answered["destination_path"]) == (True, str(path))


@pytest.mark.skipif(os.name == "nt", reason="Windows has no executable bit")
def test_an_executable_stays_executable(workspace: Workspace) -> None:
    path = workspace.user.signed_tool("mine/x")
    path.chmod(0o755)

    answered = loaded(workspace, "tool:mine/x", destination="project")

    assert stat.S_IMODE(os.stat(answered["destination_path"]).st_mode) == 0o755  # noqa: PTH116


def test_another_file_is_replaced_only_on_request_and_kept_once(workspace: Workspace) -> None:
    target = workspace.project.write("tools/rye/bash/bash.yaml", "mine")
    request = {"source": "system", "destination": "project"}

    with pytest.raises(RyeError, check=coded("CONFLICT")):
        loaded(workspace, BASH, **request)
    answered = loaded(workspace, BASH, **request, overwrite=True)

    assert Path(answered["prior_text"]).read_text("utf-8") == "mine"
    assert target.read_text("utf-8") != "mine"


def test_a_copy_never_leaves_the_space_through_a_link(workspace: Workspace) -> None:
    outside = workspace.folder / "outside"
    outside.mkdir()
    folder = workspace.project_path / ".ai/tools"
    folder.mkdir()
    (folder / "rye").symlink_to(outside)

    with pytest.raises(UnsafePathError):
        loaded(workspace, BASH, destination="project")

    assert list(outside.iterdir()) == []


def test_without_a_project_no_item_is_copied_to_one(workspace: Workspace) -> None:
    rye = workspace.rye(spaces=replace(workspace.context().spaces, project=None))

    with pytest.raises(RyeError, check=coded("NO_PROJECT")):
        load(rye, {"item_id": BASH, "destination": "project"})


ANCHORED = """\
env_config:
  interpreter: {type: system_binary, binary: python3, var: RYE_PYTHON}
anchor: {enabled: true, mode: auto, markers_any: [__init__.py]}
"""


@pytest.fixture
def anchored(workspace: Workspace) -> Workspace:
    """A user's tool of several files, on a runtime with an anchor."""
    user = workspace.user
    user.sign(user.runtime("mine/py", extra=ANCHORED.partition("\n")[2].partition("\n")[2]))
    user.signed_tool("pack/main", executor="mine/py")
    for name in ("__init__.py", "words.py", "deep/more.py"):
        user.signed(f"tools/pack/{name}", "X = 1\n")
    return workspace


def test_files_that_a_tool_imports_are_named_when_they_are_left_behind(
    anchored: Workspace,
) -> None:
    answered = loaded(anchored, "tool:pack/main", destination="project")

    assert answered["warnings"][0] == (
        "the tool's other files were not copied (include_siblings):"
        " pack/__init__.py, pack/words.py, pack/deep/more.py"
    )


def test_files_that_a_tool_imports_are_copied_on_request(anchored: Workspace) -> None:
    answered = loaded(anchored, "tool:pack/main", destination="project", include_siblings=True)

    folder = anchored.project_path / ".ai/tools/pack"
    assert answered["siblings"] == [
        str(folder / name) for name in ("__init__.py", "words.py", "deep/more.py")
    ]
    assert all(os.path.isfile(path) for path in answered["siblings"])  # noqa: PTH113


# --- fetch ----------------------------------------------------------------------------------------


def test_fetch_loads_or_searches(workspace: Workspace) -> None:
    rye = workspace.rye()

    assert fetch(rye, {"item_id": BASH}).envelope == load(rye, {"item_id": BASH}).envelope
    assert fetch(rye, {"query": "bash"}).envelope["mode"] == "query"
    assert fetch(rye, {"scope": "tool.rye.bash"}).envelope["total"] >= 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"item_id": "a", "query": "b"}, "item_id: item_id or query, not both"),
        (
            {},
            (
                "item_id: expected item_id to load an item, or query or scope to search,"
                " found none of them"
            ),
        ),
        (
            {"item_id": "a", "limit": 5},
            "limit: not an argument of id mode, expected only with query",
        ),
        (
            {"query": "a", "overwrite": True},
            "overwrite: not an argument of query mode, expected only with item_id",
        ),
        (
            {"item_id": "a", "source": "local"},
            "source: expected one of project, user, system, registry, found 'local'",
        ),
        (
            {"item_id": "a", "item_type": "all"},
            "item_type: expected one of directive, tool, knowledge, found 'all'",
        ),
    ],
)
def test_fetch_names_arguments_that_do_not_belong_to_the_mode(
    workspace: Workspace, arguments: dict[str, object], message: str
) -> None:
    with pytest.raises(VerbArgumentError) as error:
        fetch(workspace.rye(), arguments)

    assert str(error.value) == message
