from pathlib import Path
from typing import Any

import pytest

from lillux.cancellation import Cancellation
from lillux.key_files import save_keypair
from lillux.values import replace
from ryeos.app.progress import CallContext
from ryeos.app.sign import sign
from ryeos.app.verbs import answer
from ryeos.app.workspace import Rye
from ryeos.items.errors import (
    InvalidRefError,
    ItemNotFoundError,
    NoSigningKeyError,
    RyeError,
    SystemImmutableError,
    VerbArgumentError,
)
from ryeos.items.refs import Kind
from tests.support.errors import coded
from tests.support.workspace import Workspace

CONFIG = 'version: "1.0.0"\ncategory: mine\n'


@pytest.fixture
def rye(workspace: Workspace) -> Rye:
    """A user with their key on the disk."""
    rye = workspace.rye()
    save_keypair(rye.context.key_directory, workspace.keypair)
    return rye


def signed(rye: Rye, item_id: str, **arguments: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
    """The answer to a sign."""
    return dict(sign(rye, {"item_id": item_id, **arguments}).envelope)


def test_an_item_is_signed_and_reported(workspace: Workspace, rye: Rye) -> None:
    path = workspace.project.tool("mine/x")

    answered = signed(rye, "tool:mine/x")

    signature = answered.pop("signature")
    assert signature["key_fingerprint"] == workspace.fingerprint
    assert signature["valid"] is True
    assert answered == {
        "status": "signed",
        "item_id": "mine/x",
        "ref": "tool:mine/x",
        "path": str(path),
        "location": "project",
        "unchanged": False,
        "warnings": [],
        "message": f"signed tool:mine/x with {workspace.fingerprint}",
        "project_path": str(workspace.project_path),
    }


def test_an_item_that_is_already_signed_stays_as_it_is(workspace: Workspace, rye: Rye) -> None:
    path = workspace.project.tool("mine/x")
    signed(rye, "mine/x")
    before = path.stat().st_mtime_ns

    answered = signed(rye, "mine/x")

    assert (answered["unchanged"], path.stat().st_mtime_ns) == (True, before)
    assert signed(rye, "mine/x", force=True)["unchanged"] is False


def test_a_text_that_was_replaced_is_named(workspace: Workspace, rye: Rye) -> None:
    path = workspace.project.tool("mine/x")
    before = path.read_text("utf-8")

    answered = signed(rye, "tool:mine/x", content=f"{before}\n# more\n")
    again = signed(rye, "tool:mine/x", content=f"{before}\n# more\n")

    kept = Path(answered["prior_text"])
    assert answered["status"] == "signed"
    assert kept.is_relative_to(workspace.user.space.ai / "state" / "replaced")
    assert kept.read_text("utf-8") == before
    assert list(path.parent.glob("*.bak*")) == []
    assert "prior_text" not in again


_REFUSED = {
    "tool:mine/x": 'version: "new"\ntool_type: bash\ncategory: mine\n',
    "directive:mine/x": "# no header\n",
    "knowledge:mine/x": "```yaml\nname: [\n```\n",
    "config:mine/x": "a: [\n",
}


@pytest.mark.parametrize(("item_id", "text"), _REFUSED.items())
def test_a_text_that_is_refused_is_written_nowhere(rye: Rye, item_id: str, text: str) -> None:
    answered = signed(rye, item_id, content=text)

    assert answered["status"] == "error"
    assert answered["hint"].endswith("nothing was written")
    assert not Path(answered["path"]).exists()


@pytest.mark.parametrize("item_id", _REFUSED)
def test_a_text_that_is_refused_leaves_the_one_that_is_there(
    workspace: Workspace, rye: Rye, item_id: str
) -> None:
    project = workspace.project
    kind = item_id.partition(":")[0]
    path = {
        "tool": lambda: project.yaml_tool("mine/x", "config: {script: 'true'}"),
        "directive": lambda: project.directive("mine/x"),
        "knowledge": lambda: project.knowledge("mine/x"),
        "config": lambda: project.write("config/mine/x.yaml", CONFIG),
    }[kind]()
    project.sign(path)
    before = path.read_bytes()

    answered = signed(rye, item_id, content=_REFUSED[item_id])

    assert (answered["status"], Path(answered["path"])) == ("error", path)
    assert path.read_bytes() == before
    assert "prior_text" not in answered


@pytest.mark.parametrize("prefix", ["", "config:", "./"])
def test_the_path_of_a_file_is_the_item_that_a_text_is_for(
    workspace: Workspace, rye: Rye, prefix: str
) -> None:
    answered = signed(rye, f"{prefix}.ai/config/mine/x.yaml", content=CONFIG)

    assert answered["ref"] == "config:mine/x"
    assert Path(answered["path"]) == workspace.project.space.directory(Kind.CONFIG) / "mine/x.yaml"


def test_without_a_key_no_text_is_written(workspace: Workspace) -> None:
    with pytest.raises(NoSigningKeyError):
        signed(workspace.rye(), "config:mine/x", content=CONFIG)

    assert not workspace.project.space.directory(Kind.CONFIG).exists()


def test_all_problems_of_a_config_are_reported_at_once(rye: Rye) -> None:
    text = "version: 1\ndefaults: {timeout: soon, tme: 3}\nlimits: {a: 1}\ntools: 7\n"

    issues = answer(rye, "sign", {"item_id": "config:execution/execution", "content": text})

    said = issues.envelope["issues"]
    assert [one.partition(":")[0] for one in said] == [
        "Field 'version' must be a string, got integer",
        "Missing required field",
        "/defaults/timeout",
        "/defaults/tme",
        "/limits",
        "/tools",
    ]
    assert '(known: "defaults", "tools")' in said[4]


def test_all_problems_of_the_nodes_of_a_user_are_reported_at_once(
    workspace: Workspace, rye: Rye
) -> None:
    text = 'remotes: {"a b": {url: "ftp://x"}, c: {url: "no", timeout: -1}}\n'
    workspace.user.write("config/remotes/remotes.yaml", CONFIG.replace("mine", "remotes") + text)

    answered = signed(rye, "config:remotes/remotes", source="user")

    assert len(answered["issues"]) == 4


def test_all_problems_of_a_tool_are_reported_at_once(rye: Rye) -> None:
    text = 'version: "new"\ntool_type: bash\nexecutor_id: mine/none\ncategory: other\n'

    issues = signed(rye, "tool:mine/x", content=text)["issues"]

    assert any("version" in one for one in issues)
    assert any("category" in one for one in issues)
    assert any(one.startswith("executor_id: no such item") for one in issues)


def test_a_dry_run_writes_nothing_and_needs_no_key(workspace: Workspace) -> None:
    path = workspace.project.tool("mine/x")
    before = path.read_bytes()

    answered = signed(workspace.rye(), "mine/x", dry_run=True)

    assert (answered["status"], path.read_bytes()) == ("validation_passed", before)
    assert "signature" not in answered


def test_an_item_that_breaks_rules_lists_the_issues(workspace: Workspace, rye: Rye) -> None:
    path = workspace.project.tool("mine/x", version="new")

    refused = answer(rye, "sign", {"item_id": "mine/x"})

    assert refused.exit_status == 6
    assert refused.envelope["code"] == "VALIDATION_FAILED"
    assert refused.envelope["issues"] == [
        "Field 'version' must be semver format (X.Y.Z), got 'new'"
    ]
    assert refused.envelope["path"] == str(path)


def test_without_a_key_no_item_is_signed(workspace: Workspace) -> None:
    workspace.project.tool("mine/x")

    with pytest.raises(NoSigningKeyError) as error:
        signed(workspace.rye(), "mine/x")

    assert error.value.hint == "make one with: rye keys generate"


def test_a_missing_item_is_reported_with_the_searched_places(rye: Rye) -> None:
    with pytest.raises(ItemNotFoundError):
        signed(rye, "mine/x")
    assert answer(rye, "sign", {"item_id": "mine/x"}).envelope["searched_in"] == ["project"]


def test_system_items_are_never_signed(rye: Rye) -> None:
    for item_id in ("tool:rye/bash/bash", "tool:*"):
        with pytest.raises(SystemImmutableError):
            signed(rye, item_id, source="system")


def test_an_item_of_the_system_is_not_reported_as_missing(rye: Rye) -> None:
    refused = answer(rye, "sign", {"item_id": "rye/bash/bash"}).envelope

    assert refused["code"] == "SYSTEM_IMMUTABLE"
    assert refused["hint"] == "copy it first: rye load tool:rye/bash/bash --to project"


def test_without_a_project_its_items_cannot_be_signed(workspace: Workspace) -> None:
    context = workspace.context()

    with pytest.raises(RyeError, check=coded("NO_PROJECT")):
        signed(workspace.rye(spaces=replace(context.spaces, project=None)), "mine/x")


def test_the_older_form_names_the_space_in_the_parameters(workspace: Workspace, rye: Rye) -> None:
    workspace.user.tool("mine/x")

    answered = signed(rye, "mine/x", parameters={"location": "user", "category": "mine"})

    assert answered["location"] == "user"
    with pytest.raises(
        VerbArgumentError, match=r"^parameters.location: expected one of project, user"
    ):
        signed(rye, "mine/x", parameters={"location": "moon"})


def test_a_folder_is_no_item(workspace: Workspace, rye: Rye) -> None:
    workspace.project.tool("mine/x")

    with pytest.raises(InvalidRefError, match=r"for all items in it: tool:mine/\*\*"):
        signed(rye, "tool:mine")


# --- patterns -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "item_type", "labels"),
    [
        ("tool:*", None, ["tool:a", "tool:mine/b", "tool:mine/deep/c"]),
        ("*", "tool", ["tool:a", "tool:mine/b", "tool:mine/deep/c"]),
        ("tool:mine/*", None, ["tool:mine/b"]),
        ("tool:mine/**", None, ["tool:mine/b", "tool:mine/deep/c"]),
        ("directive:*", None, ["directive:d"]),
        ("*", None, ["directive:d", "tool:a", "tool:mine/b", "tool:mine/deep/c"]),
    ],
)
def test_a_pattern_signs_all_that_match(
    workspace: Workspace, rye: Rye, pattern: str, item_type: str | None, labels: list[str]
) -> None:
    for name in ("a", "mine/b", "mine/deep/c"):
        workspace.project.tool(name)
    workspace.project.directive("d")

    answered = signed(rye, pattern, item_type=item_type)

    assert answered["signed"] == labels
    assert answered["summary"] == f"Signed {len(labels)}/{len(labels)} items, 0 failed"
    assert (answered["status"], answered["total"]) == ("completed", len(labels))


def test_a_batch_goes_on_past_failures(workspace: Workspace, rye: Rye) -> None:
    workspace.project.tool("good")
    workspace.project.tool("bad", version="new")

    done = sign(rye, {"item_id": "tool:*"})

    assert (done.envelope["status"], done.exit_status) == ("completed", 1)
    assert done.envelope["signed"] == ["tool:good"]
    assert [failed["item"] for failed in done.envelope["failed"]] == ["tool:bad"]
    assert len(done.envelope["failed"][0]["details"]) <= 2


def test_a_batch_of_failures_only_is_an_error(workspace: Workspace, rye: Rye) -> None:
    workspace.project.tool("bad", version="new")

    done = sign(rye, {"item_id": "tool:*"})

    assert (done.envelope["status"], done.envelope["code"]) == ("error", "VALIDATION_FAILED")


def test_a_pattern_and_another_kind_contradict(rye: Rye) -> None:
    with pytest.raises(InvalidRefError):
        signed(rye, "tool:*", item_type="directive")


def test_each_item_is_reported_and_a_cancelled_batch_keeps_signed_items(
    workspace: Workspace, rye: Rye
) -> None:
    for name in ("a", "b", "c"):
        workspace.project.tool(name)
    reported: list[tuple[int, int, str]] = []
    cancellation = Cancellation()

    def on_progress(done: int, total: int, label: str) -> None:
        reported.append((done, total, label))
        if done == 1:
            cancellation.cancel()

    done = sign(rye, {"item_id": "tool:*"}, on_progress=on_progress, cancellation=cancellation)

    assert reported == [(1, 3, "tool:a")]
    assert done.envelope["signed"] == ["tool:a"]
    assert done.envelope["summary"] == ("Signed 1/3 items, 0 failed, cancelled before the other 2")
    assert "rye:signed" not in Path(workspace.project.space.ai / "tools/c.py").read_text("utf-8")


def test_a_batch_over_mcp_reports_its_last_item(workspace: Workspace, rye: Rye) -> None:
    for name in ("a", "b", "c"):
        workspace.project.tool(name)
    reported: list[tuple[float, float | None, str]] = []
    calling = CallContext(
        cancellation=Cancellation(),
        progress=lambda *said: reported.append(said),
        wants_progress=True,
    )

    answer(rye, "sign", {"item_id": "tool:*"}, calling)

    assert (reported[0], reported[-1]) == ((1, 3, "tool:a"), (3, 3, "tool:c"))


def test_a_summary_counts_the_newly_signed_items(workspace: Workspace, rye: Rye) -> None:
    workspace.project.signed_tool("mine/a")
    workspace.project.tool("mine/b")

    first = signed(rye, "tool:mine/*")["summary"]
    again = signed(rye, "tool:mine/*")["summary"]

    assert first == "Signed 1/2 items, 1 signed already, 0 failed"
    assert again == "Signed 0/2 items, 2 signed already, 0 failed"


@pytest.mark.parametrize(
    ("text", "suffix"),
    [
        ("#!/usr/bin/env python3\n", ".py"),
        ("# About it.\n'One quote.'\n", ".py"),
        ("# /// script\n# ///\n", ".py"),
        ("def main() -> int:\n    return 1\n", ".py"),
        ("#!/usr/bin/env -S node --no-warnings\n", ".js"),
        ("#!/bin/sh\n", ".sh"),
        ("# version: 1.0.0\n", ".sh"),
        ("# About it.\nversion: 1.0.0\n", ".yaml"),
    ],
)
def test_a_new_text_gets_the_suffix_of_its_language(
    rye: Rye, workspace: Workspace, text: str, suffix: str
) -> None:
    answered = signed(rye, "tool:mine/new", content=text)

    path = workspace.project.space.ai / "tools" / "mine" / f"new{suffix}"
    assert Path(answered["path"]) == path
