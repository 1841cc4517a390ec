import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ryeos.items.errors import error_envelope
from ryeos.items.refs import PROJECT, Space
from ryeos.remote.apply import AppliedChanges
from ryeos.remote.envelopes import open_envelope
from ryeos.remote.errors import RemoteError
from ryeos.remote.run import RemoteRun, execute
from ryeos.remote.run_answers import answer_of, page_signer
from ryeos.remote.transport import NodeReply
from tests.support.memory_node import MemoryNode, Run, reply
from tests.support.remote_project import RemoteProject
from tests.support.workspace import Workspace

RUN = RemoteRun(item_ref="tool:mine/hello", parameters={"name": "Ann"})
PAGE = ".ai/knowledge/state/graphs/demo/run-1.md"


def changing(**changes: bytes) -> Run:
    """A run that writes files of the project; dots in names are slashes."""

    def run(_: MemoryNode, __: Mapping[str, Any], files: dict[str, bytes]) -> Mapping[str, Any]:
        files |= {f"src/{name}.txt": data for name, data in changes.items()}
        return {"status": "success", "data": "done"}

    return run


def test_the_project_is_pushed_and_the_item_run(
    project: RemoteProject, memory_node: MemoryNode
) -> None:
    project.write({"src/a.txt": "a\n"})

    ran = execute(project.link, RUN)

    assert memory_node.files() == project.files()
    assert ran.executed.result["data"] == {"name": "Ann"}
    assert memory_node.bodies[-1]["thread"] == "inline"
    assert ran.warnings == ()


def test_changes_of_the_run_are_applied_locally(
    project: RemoteProject, memory_node: MemoryNode
) -> None:
    memory_node.run = changing(new=b"made\n")

    ran = execute(project.link, RUN)

    assert ran.applied == ("src/new.txt",)
    assert project.read("src/new.txt") == "made\n"
    assert project.files() == memory_node.files()


@pytest.mark.parametrize("applies", [True, False])
def test_changes_of_others_are_merged_before_the_run_and_reported(
    project: RemoteProject, memory_node: MemoryNode, *, applies: bool
) -> None:
    project.write({"src/a.txt": "a\n", "src/b.txt": "b\n"})
    execute(project.link, RUN)
    memory_node.edit({"src/a.txt": b"theirs\n", "src/b.txt": None, "src/c.txt": b"c\n"})

    ran = execute(project.link, RemoteRun(item_ref="tool:mine/hello", applies=applies))

    merged = AppliedChanges(("src/a.txt", "src/c.txt"), ("src/b.txt",), ("src/c.txt",))
    assert project.reported == [("default", merged)]
    answer = answer_of(ran, "default", "tool:mine/hello").envelope
    assert answer["remote"]["merged"] == ["src/a.txt", "src/c.txt", "src/b.txt"]


def test_changes_of_the_run_can_be_left_on_the_node(
    project: RemoteProject, memory_node: MemoryNode
) -> None:
    memory_node.run = changing(new=b"made\n")

    ran = execute(project.link, RemoteRun(item_ref="tool:mine/hello", applies=False))

    assert ran.applied == ()
    assert project.read("src/new.txt") is None
    assert "src/new.txt" in memory_node.files()


def test_a_file_changed_locally_during_the_run_is_kept(
    project: RemoteProject, memory_node: MemoryNode
) -> None:
    project.write({"src/a.txt": "base\n"})

    def run(*given: Any) -> Mapping[str, Any]:  # noqa: ANN401 - as Run
        given[2]["src/a.txt"] = b"theirs\n"
        project.write({"src/a.txt": "mine\n"})
        return {"status": "success", "data": 1}

    memory_node.run = run

    ran = execute(project.link, RUN)

    assert ran.executed.result["data"] == 1
    assert project.read("src/a.txt") == "mine\n"
    assert "src/a.txt" in ran.warnings[0]


def test_a_conflict_on_the_node_is_reported(
    project: RemoteProject, memory_node: MemoryNode
) -> None:
    project.write({"src/a.txt": "base\n"})

    def run(node: MemoryNode, _: Any, files: dict[str, bytes]) -> Mapping[str, Any]:  # noqa: ANN401
        node.edit({"src/a.txt": b"another user's\n"})
        files["src/a.txt"] = b"the run's\n"
        return {"status": "success", "data": 1}

    memory_node.run = run

    ran = execute(project.link, RUN)

    assert "could not merge what the run changed (conflict: src/a.txt)" in ran.warnings[0]
    assert project.read("src/a.txt") == "another user's\n"


def test_a_secret_that_was_masked_is_reported(
    project: RemoteProject, memory_node: MemoryNode
) -> None:
    memory_node.masked = ["src/leak.txt"]

    ran = execute(project.link, RUN)

    assert ran.warnings == ("the run wrote a secret into src/leak.txt: there is *** in its place",)
    answer = answer_of(ran, "default", "tool:mine/hello").envelope
    assert answer["remote"]["masked_paths"] == ["src/leak.txt"]


def test_outputs_are_written(project: RemoteProject, memory_node: MemoryNode) -> None:
    memory_node.outputs = {PAGE: b"page\n", ".ai/tools/evil.py": b"x"}

    ran = execute(project.link, RUN)

    assert ran.outputs.written == (PAGE,)
    assert project.read(PAGE) == "page\n"
    assert ".ai/tools/evil.py" in ran.warnings[0]


def test_pages_are_signed_again_on_request(project: RemoteProject, memory_node: MemoryNode) -> None:
    memory_node.outputs = {PAGE: b"page\n"}
    signed: list[tuple[Path, bytes]] = []

    execute(project.link, RUN, sign_page=lambda *page: signed.append(page))

    assert signed == [(project.root / PAGE, b"page\n")]


def test_a_page_that_was_exchanged_before_it_is_signed_gets_no_signature(
    project: RemoteProject, memory_node: MemoryNode, workspace: Workspace
) -> None:
    text = workspace.project.knowledge("state/graphs/demo/run-1").read_text("utf-8")
    memory_node.outputs = {PAGE: text.encode()}
    place, other = project.root / PAGE, f"{text}exchanged\n"
    sign = page_signer(Space(PROJECT, project.root), workspace.signer())

    def exchange_and_sign(path: Path, data: bytes) -> object:
        path.write_text(other, encoding="utf-8")
        return sign(path, data)

    ran = execute(project.link, RUN, sign_page=exchange_and_sign)

    assert place.read_text("utf-8") == other
    assert [one.partition(":")[0] for one in ran.warnings] == [f"{PAGE} was not signed"]


def test_secrets_are_sealed_for_the_node(project: RemoteProject, memory_node: MemoryNode) -> None:
    run = RemoteRun(item_ref="tool:mine/hello", secrets={"TOKEN": "s3cret"}, vault_keys=("A",))

    execute(project.link, run)

    body = memory_node.bodies[-1]
    assert "s3cret" not in json.dumps(body)
    assert open_envelope(body["secret_envelope"], memory_node.box_private) == {"TOKEN": "s3cret"}
    assert body["vault_keys"] == ["A"]


def test_a_directive_is_forked(project: RemoteProject, memory_node: MemoryNode) -> None:
    execute(project.link, RemoteRun(item_ref="directive:mine/do"))

    assert memory_node.bodies[-1]["thread"] == "fork"


def test_a_run_that_is_not_waited_for_has_a_thread(
    project: RemoteProject, memory_node: MemoryNode
) -> None:
    ran = execute(project.link, RemoteRun(item_ref="tool:mine/hello", is_async=True))

    answer = answer_of(ran, "default", "tool:mine/hello")
    assert answer.exit_status == 0
    assert answer.envelope["thread_id"] == "rye-remote-0"
    assert answer.envelope["state"] == "running"


def test_the_answer_equals_that_of_a_local_run(
    project: RemoteProject, memory_node: MemoryNode
) -> None:
    memory_node.run = lambda *_: {"status": "success", "data": 3, "metadata": {"duration_ms": 1}}

    answer = answer_of(execute(project.link, RUN), "default", "tool:mine/hello")

    envelope = answer.envelope
    assert answer.exit_status == 0
    assert (envelope["status"], envelope["type"], envelope["item_id"], envelope["data"]) == (
        *("success", "tool", "mine/hello"),
        3,
    )
    assert envelope["execution_mode"] == "remote"
    assert envelope["metadata"] == {"duration_ms": 1}
    assert envelope["remote"]["merge_type"] == "no-op"


def test_a_tool_that_failed_on_the_node_is_reported_as_failed(
    project: RemoteProject, memory_node: MemoryNode
) -> None:
    memory_node.run = lambda *_: {"status": "error", "error": "no", "code": "TIMEOUT"}

    answer = answer_of(execute(project.link, RUN), "default", "tool:mine/hello")

    assert answer.exit_status == 124
    assert answer.envelope["error"] == "no"


def test_a_failed_download_of_changes_keeps_the_result(
    project: RemoteProject, memory_node: MemoryNode
) -> None:
    memory_node.run = changing(new=b"made\n")
    memory_node.outputs = {PAGE: b"page\n"}
    broken: NodeReply = reply({"detail": "broken"}, 500)
    memory_node.before = lambda _, path: broken if path == "/objects/get" else None

    ran = execute(project.link, RUN)

    assert ran.executed.result["data"] == "done"
    assert len(ran.warnings) == 3
    assert project.read("src/new.txt") is None


def test_a_run_that_is_refused_is_an_error(project: RemoteProject, memory_node: MemoryNode) -> None:
    memory_node.before = lambda _, path: (
        reply({"detail": "missing vault secret"}, 404) if path == "/execute" else None
    )

    with pytest.raises(RemoteError, match="status 404: missing vault secret"):
        execute(project.link, RUN)


def test_a_refused_run_reports_the_changes_merged_before_it(
    project: RemoteProject, memory_node: MemoryNode
) -> None:
    execute(project.link, RUN)
    memory_node.edit({"src/theirs.txt": b"theirs\n"})
    refusal = reply({"detail": "all places are taken"}, 503)
    memory_node.before = lambda _, path: refusal if path == "/execute" else None

    with pytest.raises(RemoteError) as error:
        execute(project.link, RUN)

    assert error_envelope(error.value)["merged"] == ["src/theirs.txt"]
    assert project.read("src/theirs.txt") == "theirs\n"
