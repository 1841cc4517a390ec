import json
import os
import re
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from rye_services.node.runs.execution import MOST_CONFLICTS
from rye_services.operations.cli import main
from ryeos.remote.deliveries import sign_delivery
from tests.support.databases import database_environ
from tests.support.node import Node, Reply
from tests.support.remote_projects import RemoteProject
from tests.support.workspace import Workspace

pytest_plugins = ("tests.support.node",)
pytestmark = pytest.mark.skipif(os.name == "nt", reason="the tools of these tests are for POSIX")


@pytest.fixture
def project(shared_node: Node, workspace: Workspace) -> RemoteProject:
    """A project with tools on a node: ``echo``, ``write``, ``sh``."""
    return RemoteProject.with_tools(workspace, shared_node.user())


def test_an_execution_without_changes_does_not_move_the_head(project: RemoteProject) -> None:
    answer = project.execute("tool:echo", parameters={"text": "hello"})

    assert answer["result"]["data"]["said"] == "hello"
    assert (answer["merge_type"], answer["snapshot_hash"]) == ("no-op", project.head)
    assert [each["_hash"] for each in project.history()] == [project.head]


def test_files_that_a_tool_writes_become_a_snapshot(project: RemoteProject) -> None:
    answer = project.execute("tool:write", parameters={"path": "src/new.txt", "text": "made"})

    assert answer["merge_type"] == "fast-forward"
    newest = project.history()[0]
    assert newest["_hash"] == answer["snapshot_hash"]
    assert newest["parent_hashes"] == [project.head]
    assert (newest["source"], newest["source_detail"]) == ("execution", "tool:write")
    assert newest["metadata"] == {"thread_id": answer["thread_id"]}
    assert project.text("src/new.txt") == "made"
    assert project.text("src/x.txt") == "one\ntwo\nthree\n"


def test_an_execution_sees_the_changes_of_the_previous_one(project: RemoteProject) -> None:
    project.execute("tool:write", parameters={"path": "src/a.txt", "text": "a"})

    project.execute("tool:write", parameters={"path": "src/b.txt", "text": "b"})

    assert {"src/a.txt", "src/b.txt", "src/x.txt"} <= project.manifest().files.keys()


def test_files_outside_of_the_project_are_removed_before_the_next_execution(
    project: RemoteProject,
) -> None:
    project.execute("tool:write", parameters={"path": "scratch/x", "text": "a"})

    answer = project.execute(
        "tool:sh", vault_keys=[], secret_envelope=project.envelope(SCRIPT="ls; ls $HOME $TMPDIR")
    )

    assert "scratch" not in answer["result"]["data"]["stdout"]


def test_a_secret_reaches_only_the_tool(project: RemoteProject) -> None:
    script = (
        "echo value $TOKEN; mkdir -p .ai/state; echo $TOKEN | tee src/leak.txt .ai/state/out.txt"
    )
    secrets = {"TOKEN": "s3cr3t-t0ken", "SCRIPT": script}

    answer = project.execute("tool:sh", secret_envelope=project.envelope(**secrets))

    assert answer["result"]["data"]["stdout"] == "value ***\n***\n"
    assert answer["masked_paths"] == ["src/leak.txt"]
    assert project.text("src/leak.txt") == "***\n"
    bundle = project.object(answer["runtime_outputs_bundle_hash"])
    blob = bundle["files"][".ai/state/out.txt"]
    assert project.objects([blob])[blob] == b"***\n"
    stores = list((project.user.node.data / "cas").rglob("*"))
    assert not [path for path in stores if path.is_file() and b"s3cr3t" in path.read_bytes()]


def test_a_tool_gets_all_vault_secrets_unless_some_are_named(
    project: RemoteProject,
) -> None:
    sent = [{"name": "SCRIPT", "value": "echo here"}]
    assert project.user.ask("POST", "/secrets", {"secrets": sent}).status == 200

    answer = project.execute("tool:sh")
    named = project.execute("tool:sh", vault_keys=["SCRIPT"])
    refused = project.ask("tool:sh", vault_keys=["OTHER"])

    assert answer["result"]["data"]["stdout"] == "here\n"
    assert named["result"]["data"]["stdout"] == "here\n"
    assert (refused.status, "OTHER" in refused.json["detail"]) == (404, True)


def test_changes_on_both_sides_are_merged(project: RemoteProject) -> None:
    thread = project.begun("sed -i s/three/THREE/ src/x.txt")
    project.write("src/x.txt", "ONE\ntwo\nthree\n")
    pushed = project.push()
    project.release()

    row = project.ended(thread)

    assert (row["state"], row["merge_type"], row["merge_conflicts"]) == ("completed", "merge", None)
    newest = project.history()[0]
    assert newest["source"] == "merge"
    assert newest["parent_hashes"][0] == pushed
    assert project.text("src/x.txt") == "ONE\ntwo\nTHREE\n"


def test_a_row_lists_the_first_conflicts_and_counts_all(
    project: RemoteProject,
) -> None:
    paths = [f"data/{number:04}.txt" for number in range(MOST_CONFLICTS + 3)]
    for path in paths:
        project.write(path, "base\n")
    project.push()
    thread = project.begun("for one in data/*; do echo theirs > $one; done")
    for path in paths:
        project.write(path, "ours\n")
    project.push()
    project.release()

    row = project.ended(thread)

    assert row["merge_type"] == "conflict"
    assert [*row["merge_conflicts"]] == paths[:MOST_CONFLICTS]
    assert row["merge_conflict_count"] == len(paths)
    assert project.text(paths[-1], row["unmerged_snapshot_hash"]) == "theirs\n"


def test_changes_that_cannot_be_merged_are_a_recorded_conflict(project: RemoteProject) -> None:
    thread = project.begun("echo theirs > src/x.txt")
    project.write("src/x.txt", "ours\n")
    pushed = project.push()
    project.release()

    row = project.ended(thread)

    assert (row["state"], row["merge_type"], row["snapshot_hash"]) == (
        "completed",
        "conflict",
        pushed,
    )
    assert row["merge_conflicts"].keys() == {"src/x.txt"}
    assert row["merge_conflicts"]["src/x.txt"]["type"] == "content"
    assert row["merge_conflict_count"] == 1
    assert project.text("src/x.txt", row["unmerged_snapshot_hash"]) == "theirs\n"
    assert project.text("src/x.txt") == "ours\n"


def test_an_accepted_execution_is_carried_out_and_its_answer_kept(project: RemoteProject) -> None:
    reply = project.ask("tool:echo", parameters={"text": "later"}, **{"async": True})

    row = project.ended(reply.json["thread_id"])

    assert row["state"] == "completed", row
    assert row["result"]["data"]["said"] == "later"
    assert row["execution_status"] == "success"


def test_the_answer_of_an_awaited_execution_is_given_once(project: RemoteProject) -> None:
    body = {"parameters": {"text": "later"}, "async": True, "awaited": True}
    thread_id = project.ask("tool:echo", **body).json["thread_id"]
    project.ended(thread_id)

    first = project.user.ask("POST", f"/threads/{thread_id}/answer")
    second = project.user.ask("POST", f"/threads/{thread_id}/answer")

    assert (first.status, first.json["result"]["data"]["said"]) == (200, "later"), first.json
    assert first.json.keys() == project.ask("tool:echo", parameters={"text": "now"}).json.keys()
    assert second.status == 404
    assert second.json["detail"]["error"] == f"no answer is kept of {thread_id}"


def test_a_tool_that_fails_is_answered_with_200(project: RemoteProject) -> None:
    reply = project.ask("tool:sh", secret_envelope=project.envelope(SCRIPT="exit 3"))

    assert (reply.status, reply.json["status"]) == (200, "error")
    row = project.thread(reply.json["thread_id"])
    assert (row["state"], row["error_phase"], row["execution_status"]) == (
        "error",
        "execution",
        "error",
    )


@pytest.mark.parametrize(
    ("body", "status", "detail"),
    [
        ({"item_id": "echo"}, 400, "item_id: expected a kind before it, like tool:echo"),
        ({"item_id": ""}, 400, "item_id: expected a text"),
        ({"item_id": "config:x/y"}, 400, "item_id: config items cannot be executed"),
        (
            {"item_id": "directive:x", "thread": "inline"},
            400,
            "thread: expected fork for a directive, found inline",
        ),
        ({"item_id": "tool:echo", "parameters": [1]}, 400, "parameters: expected a JSON object"),
        ({"item_id": "tool:echo", "vault_keys": "A"}, 400, "vault_keys: expected a list of names"),
        ({"item_id": "tool:echo", "project_path": ""}, 400, "project_path: expected a text"),
        ({"item_id": "tool:echo", "async": "yes"}, 400, "async: expected true or false"),
        (
            {"item_id": "tool:echo", "awaited": True},
            400,
            "awaited: expected async beside it: this request is answered itself",
        ),
        (
            {"item_id": "tool:echo", "paramaters": {}},
            400,
            "'paramaters': no such key of /execute; did you mean parameters?",
        ),
        (
            {"item_id": "tool:echo", "params": {}, "parameters": {}},
            400,
            "params: expected parameters alone, found both",
        ),
        (
            {"item_id": "tool:echo", "project_path": "other"},
            404,
            "no project 'other' was pushed yet",
        ),
    ],
)
def test_a_request_that_cannot_be_executed_is_refused_with_a_reason(
    project: RemoteProject, body: dict[str, Any], status: int, detail: str
) -> None:
    reply = project.user.ask("POST", "/execute", {"project_path": "project", **body})

    assert reply.answer == (status, {"detail": detail})


def test_params_is_short_for_parameters(project: RemoteProject) -> None:
    answer = project.execute("echo", item_type="tool", params={"text": "short"})

    assert answer["result"]["data"]["said"] == "short"


def test_the_split_form_of_an_item_is_taken_too(project: RemoteProject) -> None:
    answer = project.execute("echo", item_type="tool", parameters={"text": "split"})

    assert answer["result"]["data"]["said"] == "split"


def test_an_answer_shows_no_path_of_the_server(project: RemoteProject) -> None:
    script = "pwd; echo $HOME $TMPDIR"

    answer = project.execute("tool:sh", secret_envelope=project.envelope(SCRIPT=script))

    assert str(project.user.node.data) not in json.dumps(answer)
    shown = answer["result"]["data"]["stdout"]
    assert re.fullmatch(r"/project\n/home /tmp/rye-\d+/[0-9a-f]+\n", shown), shown


def test_fetch_loads_an_item(project: RemoteProject) -> None:
    body = {"project_path": project.name, "item_id": "tool:echo"}

    reply = project.user.ask("POST", "/fetch", body)

    assert reply.status == 200
    assert reply.json["result"]["status"] == "success", reply.json
    assert "said" in json.dumps(reply.json["result"])


def test_sign_makes_a_snapshot_with_the_signature_for_items(project: RemoteProject) -> None:
    project.workspace.project.tool("unsigned", "print(1)")
    project.push()
    body = {"project_path": project.name, "item_id": "tool:unsigned"}

    reply = project.user.ask("POST", "/sign", body)

    assert (reply.status, reply.json["result"]["status"]) == (200, "signed"), reply.json
    assert reply.json["merge_type"] == "fast-forward"
    item = project.object(project.manifest().items[".ai/tools/unsigned.py"])
    assert item["signature_info"]["pubkey_fp"] == project.user.node.keys.items.fingerprint


def test_another_user_does_not_see_an_execution(project: RemoteProject) -> None:
    answer = project.execute("tool:echo")
    stranger = project.user.node.user()

    assert stranger.ask("GET", f"/threads/{answer['thread_id']}").status == 404
    assert stranger.ask("GET", "/threads").json["threads"] == []


def test_threads_are_listed_newest_first(project: RemoteProject) -> None:
    first, second = (project.execute("tool:echo")["thread_id"] for _ in range(2))

    reply = project.user.ask("GET", f"/threads?limit=5&project_path={project.name}")

    assert [row["thread_id"] for row in reply.json["threads"]] == [second, first]
    assert reply.json["threads"][0]["state"] == "completed"


@pytest.mark.heavy
def test_simultaneous_executions_and_pushes_lose_no_update(project: RemoteProject) -> None:
    """Each writes another file: in the end each file is present, or its run reports a conflict."""

    def write(number: int) -> dict[str, Any]:
        parameters = {"path": f"src/n{number}.txt", "text": str(number)}
        return project.execute("tool:write", parameters=parameters)

    with ThreadPoolExecutor(6) as pool:
        answers = list(pool.map(write, range(6)))

    exhausted = [one["merge_type"] == "retry_exhausted" for one in answers]
    known = {one["_hash"] for one in project.history()}
    files = project.manifest().files
    for number, (answer, is_out) in enumerate(zip(answers, exhausted, strict=True)):
        assert (f"src/n{number}.txt" in files) is not is_out
        assert answer["snapshot_hash"] in known
        assert ("unmerged_snapshot" in answer) is is_out


def test_a_graph_leaves_its_page_signed_by_the_node_and_its_objects(
    project: RemoteProject,
) -> None:
    project.workspace.project.signed("tools/g.yaml", GRAPH)
    project.push()

    answer = project.execute("tool:g")

    data = answer["result"]["data"]
    assert data["success"] is True, data
    snapshot = project.object(answer["execution_snapshot_hash"])
    assert (snapshot["kind"], snapshot["step"]) == ("execution_snapshot", 1)
    assert snapshot["state_hash"] in project.objects([snapshot["state_hash"]])
    bundle = project.object(answer["runtime_outputs_bundle_hash"])
    pages = [path for path in bundle["files"] if path.startswith(".ai/knowledge/state/")]
    assert len(pages) == 1
    page = project.objects([bundle["files"][pages[0]]])[bundle["files"][pages[0]]].decode()
    assert f":{project.user.node.keys.items.fingerprint} -->" in page
    refs = [path for path in bundle["files"] if path.startswith(".ai/state/objects/refs/graphs/")]
    assert len(refs) == 1
    assert bundle["files"].keys() >= {*pages, *refs}
    assert set(bundle["files"].values()) <= set(answer["new_object_hashes"])


@pytest.mark.heavy
def test_sweeps_and_fsck_accept_all_objects_of_executions(
    project: RemoteProject,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in database_environ(project.user.node.data).items():
        monkeypatch.setenv(name, value)
    project.workspace.project.signed("tools/g.yaml", GRAPH)
    project.push()
    project.execute("tool:g")
    project.execute("tool:write", parameters={"path": "src/new.txt", "text": "made"})
    project.push_user_space()
    project.script("echo $TOKEN > src/leak.txt; exit 3", TOKEN="s3cr3t-t0ken")
    project.head = project.history()[0]["_hash"]
    project.push()
    thread = project.begun("sed -i s/two/TWO/ src/x.txt; echo > .ai/state/out.txt")
    project.write("src/x.txt", "one\n2\nthree\n")
    project.push()
    project.release()
    assert project.ended(thread)["merge_type"] == "conflict"
    user, node = project.user.user_id, project.user.node

    status = main(["fsck", "--json", "--user", user, "--data", str(node.data)])
    swept = node.owner.ask("POST", "/gc")

    found = capsys.readouterr().out
    assert status == 0, found
    (state,) = (one["state"] for one in swept.json["users"] if one["user_id"] == user)
    assert state in {"done", "uploading"}


GRAPH = """\
version: "1.0.0"
tool_type: graph
executor_id: rye/core/runtimes/state-graph/runtime
category: ""
description: test graph
permissions: ["rye.*"]
config:
  start: say
  nodes:
    say:
      action: {item_id: "tool:echo", params: {text: hello}}
      assign: {said: "${result.said}"}
"""


def bound(project: RemoteProject) -> tuple[str, str]:
    """A hook that executes ``echo``, and its secret."""
    body = {"item_id": "tool:echo", "project_path": project.name}
    reply = project.user.ask("POST", "/webhook-bindings", body)
    assert reply.status == 200, reply.json
    return reply.json["hook_id"], reply.json["hmac_secret"]


def delivered(project: RemoteProject, hook: tuple[str, str], delivery_id: str) -> Reply:
    """Send a delivery that is signed now."""
    hook_id, secret = hook
    body = json.dumps({"hook_id": hook_id, "parameters": {"text": "from outside"}}).encode()
    timestamp = str(int(time.time()))
    headers = {
        "X-Webhook-Timestamp": timestamp,
        "X-Webhook-Signature": sign_delivery(secret, timestamp, body),
        "X-Webhook-Delivery-Id": delivery_id,
    }
    return project.user.node.ask("POST", "/execute", body, headers=headers)


def test_a_webhook_delivery_executes_its_item_once(project: RemoteProject) -> None:
    hook = bound(project)

    first, second = delivered(project, hook, "d-1"), delivered(project, hook, "d-1")

    assert first.status == 200
    assert first.json["result"]["data"]["said"] == "from outside"
    assert second.answer == (200, {"detail": "Already processed"})
    rows = project.user.ask("GET", "/threads").json["threads"]
    assert [row["hook_id"] for row in rows] == [hook[0]]


def test_of_simultaneous_deliveries_one_is_executed(project: RemoteProject) -> None:
    hook = bound(project)

    with ThreadPoolExecutor(4) as pool:
        replies = list(pool.map(lambda _: delivered(project, hook, "d-1"), range(4)))

    executed = [reply for reply in replies if "result" in reply.json]
    assert len(executed) == 1
    assert all(
        reply.json == {"detail": "Already processed"}
        for reply in replies
        if reply is not executed[0]
    )


def test_missing_content_of_the_store_is_reported(project: RemoteProject) -> None:
    lost = project.manifest().files["src/x.txt"]
    stored = project.user.node.data / "cas" / project.user.user_id / ".ai/state/objects/blobs"
    next(stored.rglob(lost)).unlink()

    reply = project.ask("tool:echo")

    words = f"blob {lost} is not in your store: push the project again"
    detail = reply.json["detail"]
    assert (reply.status, detail["error"], detail["phase"]) == (404, words, "materialization")
    row = project.thread(detail["thread_id"])
    assert (row["state"], row["error_message"], row["error_phase"]) == (
        "error",
        words,
        "materialization",
    )


def test_a_key_with_other_scopes_cannot_execute(project: RemoteProject) -> None:
    stranger = project.user.node.user(scopes=("remote:objects",))

    reply = stranger.ask("POST", "/execute", {"item_id": "tool:echo", "project_path": "project"})

    assert reply.answer == (403, {"detail": "this key lacks the scope remote:execute"})


@pytest.mark.parametrize("raw", [b"", b"[]", b"{", b'"x"', b"\xff", b"[" * 100_000])
def test_a_body_that_is_not_a_json_object_is_refused(project: RemoteProject, raw: bytes) -> None:
    for route in ("/execute", "/fetch", "/sign"):
        assert project.user.ask("POST", route, raw).answer == (
            400,
            {"detail": "expected a JSON object"},
        )


def test_files_that_a_run_writes_and_sync_leaves_out_are_named(project: RemoteProject) -> None:
    answer = project.script(
        "mkdir -p build/deep __pycache__ node_modules; echo x > build/deep/out.txt;"
        " echo y > out.bin; echo z > src/kept.txt; touch __pycache__/a.pyc node_modules/b.js .env"
    ).json

    (warning,) = answer["warnings"]
    paths = "'out.bin', 'build/deep/out.txt'"
    assert warning.startswith(f"written, and not kept: {paths}; sync.include")
    assert project.text("src/kept.txt") == "z\n"
    assert project.thread(answer["thread_id"])["warnings"] == [warning]


def test_a_run_that_writes_only_synced_files_gets_no_warning(project: RemoteProject) -> None:
    answer = project.script("echo z > src/kept.txt").json

    assert "warnings" not in answer
    assert project.thread(answer["thread_id"])["warnings"] is None
