"""The public API: one object that wires the rest."""

import json
import threading
from pathlib import Path
from typing import Any

import pytest

from lillux.errors import LilluxError
from lillux.signing import KeyPair, generate_keypair
from ryeos.app.workspace import Rye
from ryeos.items.errors import (
    AmbiguousItemError,
    Answer,
    IntegrityError,
    ItemNotFoundError,
    RyeError,
    UsageError,
)
from ryeos.items.refs import Kind, Reference
from ryeos.run.model import ExecutionRequest
from tests.support.errors import coded
from tests.support.replaced import kept_copies
from tests.support.workspace import Workspace, publish


def execute(rye: Rye, text: str, **options: Any) -> Answer:  # noqa: ANN401 - fields of Request
    reference = rye.reference(text)
    parameters = options.pop("params", {})
    request = ExecutionRequest(item_id=reference.id, parameters=parameters, **options)
    return rye.execute(reference, request)


def partly_covered(workspace: Workspace, keypair: KeyPair, body: str = "Do it.") -> Path:
    """A directive as an older signer leaves it: only its XML block is covered."""
    path = workspace.project.directive("mine/old", body)
    workspace.project.sign(path, keypair)
    first, _covers, rest = path.read_text("utf-8").split("\n", 2)
    path.write_text(f"{first}\n{rest}", encoding="utf-8")
    return path


# --- tools


def test_a_tool_that_did_its_work_is_an_answer(workspace: Workspace) -> None:
    workspace.project.signed_tool("mine/t", "print('{\"a\": 1}')")

    answer = execute(workspace.rye(), "tool:mine/t")

    envelope = dict(answer.envelope)
    assert answer.exit_status == 0
    assert (envelope["status"], envelope["type"], envelope["item_id"]) == (
        *("success", "tool", "mine/t"),
    )
    assert envelope["data"] == {"a": 1}
    assert envelope["chain"][0]["item_id"] == "mine/t"
    assert envelope["metadata"]["duration_ms"] > 0
    assert "trace" not in envelope
    json.dumps(envelope)


def test_a_trace_comes_on_request(workspace: Workspace) -> None:
    workspace.project.signed_tool("mine/t", "print(1)")

    answer = execute(workspace.rye(), "mine/t", trace=True)

    assert answer.envelope["trace"][0]["step"] == "resolve"


def test_a_tool_that_failed_is_an_answer_with_its_data(workspace: Workspace) -> None:
    answer = execute(workspace.rye(), "rye/bash", params={"command": "echo out; exit 42"})

    assert answer.exit_status == 1
    assert answer.envelope["status"] == "error"
    assert answer.envelope["code"] == "EXECUTION_FAILED"
    assert answer.envelope["error"] == "Process exited with code 42"
    assert answer.envelope["data"]["stdout"] == "out\n"


def test_a_timeout_has_a_status_of_its_own(workspace: Workspace) -> None:
    answer = execute(workspace.rye(), "rye/bash", params={"command": "sleep 60"}, timeout_s=0.2)

    assert (answer.exit_status, answer.envelope["code"]) == (124, "TIMEOUT")


def test_an_error_of_rye_is_an_answer_with_a_hint(workspace: Workspace) -> None:
    path = workspace.project.tool("mine/t", "print(1)")

    answer = execute(workspace.rye(), "mine/t", trace=True)

    envelope = dict(answer.envelope)
    assert answer.exit_status == 4
    assert envelope.pop("metadata")["error_code"] == "UNSIGNED"
    assert [event["step"] for event in envelope.pop("trace")] == ["resolve", "verify_integrity"]
    assert envelope == {
        "status": "error",
        "error": f"unsigned item, expected a rye:signed line: {path}",
        "code": "UNSIGNED",
        "error_type": "integrity",
        "path": str(path),
        "hint": f"read it, and if you trust it: rye sign {path}",
        "item_id": "mine/t",
        "chain": [],
    }


def test_a_dry_run_says_that_it_would_run(workspace: Workspace) -> None:
    workspace.project.signed_tool("mine/t")

    envelope = execute(workspace.rye(), "mine/t", dry_run=True).envelope

    assert envelope["status"] == "validation_passed"
    assert envelope["message"] == "mine/t would run: every check passed"
    assert envelope["metadata"]["validated_pairs"] == 2
    assert len(envelope["chain"]) == 3
    assert "data" not in envelope


# --- directives and knowledge


def test_a_directive_that_is_covered_in_part_is_marked_and_warned_of(workspace: Workspace) -> None:
    friend = generate_keypair()
    workspace.user.trust(friend)
    partly_covered(workspace, friend)

    answer = workspace.render("directive:mine/old")

    assert answer.envelope["your_directions"] == "Do it."
    assert answer.envelope["metadata"]["coverage"] == "partial"
    assert workspace.warnings == [
        "directive:mine/old: the signature covers only a part of the text"
    ]


@pytest.mark.parametrize("space", ["user", "project"])
def test_full_coverage_can_be_required(workspace: Workspace, space: str) -> None:
    friend = generate_keypair()
    workspace.user.trust(friend)
    path = partly_covered(workspace, friend)
    getattr(workspace, space).signed(
        "config/integrity/integrity.yaml",
        'version: "1.0.0"\ncategory: integrity\nrequire_full_coverage: true\n',
    )

    with pytest.raises(IntegrityError) as error:
        workspace.render("directive:mine/old")

    assert str(error.value) == (
        f"the signature covers only a part of the text, and full coverage is required: {path}"
    )
    assert error.value.hint == "review the text and sign it with your own key"


def test_a_project_cannot_switch_off_requirements_of_the_user(workspace: Workspace) -> None:
    friend = generate_keypair()
    workspace.user.trust(friend)
    partly_covered(workspace, friend)
    for space, required in ((workspace.user, "true"), (workspace.project, "false")):
        space.signed(
            "config/integrity/integrity.yaml",
            f'version: "1.0.0"\ncategory: integrity\nrequire_full_coverage: {required}\n',
        )

    with pytest.raises(IntegrityError):
        workspace.render("directive:mine/old")


def test_in_dev_mode_a_text_is_marked_as_not_verified(workspace: Workspace) -> None:
    workspace.env["RYE_DEV_MODE"] = "1"
    workspace.project.directive("mine/do")

    answer = workspace.render("directive:mine/do")

    assert answer.envelope["metadata"]["verified"] is False
    assert len(workspace.warnings) == 1


def test_a_knowledge_item_can_be_run_too(workspace: Workspace) -> None:
    workspace.project.sign(workspace.project.knowledge("mine/fact", "A fact."))
    rye = workspace.rye()

    assert execute(rye, "knowledge:mine/fact").envelope["content"] == "A fact."
    assert execute(rye, "mine/fact", dry_run=True).envelope["status"] == "validation_passed"


def test_configuration_is_not_run(workspace: Workspace) -> None:
    with pytest.raises(UsageError):
        execute(workspace.rye(), "config:execution/execution")


# --- references


def test_an_id_without_a_kind_means_the_one_item_that_has_it(workspace: Workspace) -> None:
    workspace.project.sign(workspace.project.directive("mine/one"))
    workspace.project.sign(workspace.project.directive("mine/two"))
    workspace.project.sign(workspace.project.knowledge("mine/two"))
    rye = workspace.rye()

    assert execute(rye, "mine/one").envelope["type"] == "directive"
    with pytest.raises(AmbiguousItemError) as error:
        execute(rye, "mine/two")
    assert str(error.value) == (
        "mine/two: more than one item has this id: directive:mine/two, knowledge:mine/two"
    )
    with pytest.raises(ItemNotFoundError):
        execute(rye, "mine/three")


def test_a_path_to_an_item_means_that_item(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = workspace.project.signed_tool("mine/deep/t")
    rye = workspace.rye()
    monkeypatch.chdir(path.parent)

    assert rye.reference(str(path)) == Reference(Kind.TOOL, "mine/deep/t")
    assert rye.reference("t.py") == Reference(Kind.TOOL, "mine/deep/t")
    assert rye.reference("other.py") == Reference(None, "other.py")


def test_aliases_are_data_of_the_bundles_alone(workspace: Workspace) -> None:
    for space in (workspace.project, workspace.user):
        space.write("config/rye/aliases.yaml", "broken: [\n")
    workspace.project.signed_yaml("mine/a", "config: {script: 'echo hi'}", executor="bash_runtime")

    result = workspace.run("mine/a")

    assert (result.error, result.data["stdout"]) == (None, "hi\n")
    assert workspace.warnings == []


def test_a_second_bundle_may_bring_aliases_of_its_own(workspace: Workspace) -> None:
    source = workspace.folder / "source"
    (source / "config/rye").mkdir(parents=True)
    (source / "config/rye/aliases.yaml").write_text(
        'version: "1.0.0"\ncategory: rye\naliases: {my_shell: rye/core/runtimes/bash/bash}\n',
        encoding="utf-8",
    )
    workspace.bundles = (*workspace.bundles, publish(workspace.folder / "more", source, "more"))
    workspace.project.signed_yaml("mine/a", "config: {script: 'echo hi'}", executor="my_shell")

    assert workspace.run("mine/a").data["stdout"] == "hi\n"


def test_a_space_is_found_by_its_label(workspace: Workspace) -> None:
    rye = workspace.rye()
    spaces = type(rye.context.spaces)(project=None, user=workspace.user.space)

    assert rye.space("project") == workspace.project.space
    assert rye.space("user") == workspace.user.space
    with pytest.raises(RyeError, check=coded("NO_PROJECT")):
        workspace.rye(spaces=spaces).space("project")


def test_outside_a_project_tools_run_where_the_caller_is(workspace: Workspace) -> None:
    rye = workspace.rye()
    spaces = type(rye.context.spaces)(
        project=None, user=workspace.user.space, bundles=workspace.bundles
    )

    answer = execute(workspace.rye(spaces=spaces), "rye/bash", params={"command": "pwd"})

    assert answer.envelope["data"]["stdout"] == f"{rye.context.cwd}\n"


# --- copies


def test_a_copy_has_the_very_bytes_and_runs_where_it_is(workspace: Workspace) -> None:
    rye = workspace.rye()
    resolution, item = rye.load(Reference(Kind.TOOL, "rye/bash/bash"))

    path, was_there = rye.copy(resolution, item, workspace.project.space, overwrite=False)
    again = rye.copy(resolution, item, workspace.project.space, overwrite=False)

    assert (path.read_bytes(), was_there, again) == (item.data, False, (path, True))
    result = workspace.run("rye/bash/bash", params={"command": "echo hi"})
    assert (result.error, result.chain[0]["space"]) == (None, "project")


# --- threads


def test_one_object_serves_many_threads(workspace: Workspace) -> None:
    workspace.project.sign(workspace.project.directive("mine/do", "Do {input:n}."))
    rye = workspace.rye()
    found: dict[int, str] = {}

    def run(number: int) -> None:
        kind = number % 2
        if kind:
            answer = execute(rye, "directive:mine/do", params={"n": number})
            found[number] = answer.envelope["your_directions"]
        else:
            answer = execute(rye, "rye/bash", params={"command": f"printf 'Do %s.' {number}"})
            found[number] = answer.envelope["data"]["stdout"]

    threads = [threading.Thread(target=run, args=(number,)) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert found == {number: f"Do {number}." for number in range(20)}


def test_another_file_in_the_place_of_a_copy_is_replaced_only_on_request(
    workspace: Workspace,
) -> None:
    other = workspace.project.write("tools/rye/bash/bash.yaml", "mine: true\n")
    rye = workspace.rye()
    resolution, item = rye.load(Reference(Kind.TOOL, "rye/bash/bash"), source="system")

    with pytest.raises(FileExistsError):
        rye.copy(resolution, item, workspace.project.space, overwrite=False)
    kept: list[Path] = []
    path, was_there = rye.copy(
        resolution, item, workspace.project.space, overwrite=True, on_kept=kept.append
    )

    assert (path, was_there, path.read_bytes()) == (other, False, item.data)
    assert kept_copies(workspace.user.space.ai, other) == kept
    assert kept[0].read_text("utf-8") == "mine: true\n"
    assert [one.name for one in other.parent.iterdir()] == ["bash.yaml"]


def test_a_folder_in_the_place_of_a_copy_is_a_clear_error(workspace: Workspace) -> None:
    rye = workspace.rye()
    resolution, item = rye.load(Reference(Kind.TOOL, "rye/bash/bash"))
    (workspace.project.space.ai / "tools/rye/bash/bash.yaml").mkdir(parents=True)

    with pytest.raises(LilluxError):
        rye.copy(resolution, item, workspace.project.space, overwrite=True)
