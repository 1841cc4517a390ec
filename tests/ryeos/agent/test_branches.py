"""``rye threads branch``: a new thread from a turn of an old one, with a purse of its own."""

import json
from pathlib import Path

import pytest

from ryeos.app.thread_workspace import ThreadWish
from ryeos.items.errors import RyeError
from ryeos.items.refs import Kind, Reference
from tests.support.agent_threads import carried_out, directive, threads
from tests.support.model_server import ModelServer, calls, refused, words
from tests.support.workspace import Workspace


def ended(workspace: Workspace, server: ModelServer) -> str:
    """A completed thread of two calls and a last word."""
    one, two = calls(("echo", {"text": "one"})), calls(("echo", {"text": "two"}), sent=150)
    server.replies = [one, two, words("done")]
    return str(carried_out(workspace).envelope["thread_id"])


def test_a_branch_of_a_completed_thread_goes_on_behind_its_turn(
    ready: Workspace, server: ModelServer
) -> None:
    old = ended(ready, server)
    server.replies = [words("done in another way")]

    answer = threads(ready).branch(old, 1)

    new = answer.envelope["thread_id"]
    assert (answer.envelope["state"], answer.envelope["text"]) == (
        "completed",
        "done in another way",
    )
    assert new != old
    asked = server.requests[-1]["messages"]
    assert asked == server.requests[1]["messages"]
    assert answer.envelope["usage"]["turns"] == 1, "the purse is new"
    assert threads(ready).records.read(new).start.previous["previous_thread_id"] == old


def test_the_older_thread_is_not_changed_and_the_branch_holds_without_it(
    ready: Workspace, server: ModelServer
) -> None:
    old = ended(ready, server)
    records = threads(ready).records
    before = (records.folder_of(old) / "journal.jsonl").read_bytes()
    server.replies = [words("again")]
    new = threads(ready).branch(old, 2).envelope["thread_id"]

    assert (records.folder_of(old) / "journal.jsonl").read_bytes() == before
    for path in sorted(records.folder_of(old).rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    thread = records.read(new)
    assert thread.ended is not None
    assert thread.ended.text == "again"


def test_a_branch_of_a_branch_is_one_as_well(ready: Workspace, server: ModelServer) -> None:
    old = ended(ready, server)
    server.replies = [calls(("echo", {"text": "three"}), sent=160), words("second")]
    second = threads(ready).branch(old, 1).envelope["thread_id"]
    server.replies = [words("third")]

    third = threads(ready).branch(second, 1)

    assert third.envelope["text"] == "third"
    assert len(server.requests[-1]["messages"]) == len(server.requests[-2]["messages"])


def test_a_stopped_and_a_failed_thread_can_be_branched(
    ready: Workspace, server: ModelServer
) -> None:
    directive(ready, limits='<limits turns="1"/>')
    server.replies = [calls(("echo", {"text": "one"}))]
    stopped = carried_out(ready).envelope
    server.replies = [words("done")]
    of_stopped = threads(ready).branch(stopped["thread_id"], 1)
    directive(ready)
    server.replies = [calls(("echo", {"text": "one"})), refused(401, {"error": {}})]
    failed = carried_out(ready).envelope
    server.replies = [words("done")]

    of_failed = threads(ready).branch(failed["thread_id"], 1)

    assert (stopped["state"], failed["state"]) == ("stopped", "failed")
    assert of_stopped.envelope["state"] == "completed", "one turn, and its purse has one"
    assert of_failed.envelope["state"] == "completed"


def test_a_person_may_say_something_at_the_beginning_of_a_branch(
    ready: Workspace, server: ModelServer
) -> None:
    old = ended(ready, server)
    server.replies = [words("Brief.")]

    answer = threads(ready).branch(old, 3, "Be brief.")

    assert answer.envelope["text"] == "Brief."
    assert server.requests[-1]["messages"][-1] == {"role": "user", "content": "Be brief."}


def test_a_branch_is_new_money_of_the_day_below_the_present_ceilings(
    ready: Workspace, server: ModelServer
) -> None:
    old = ended(ready, server)
    ready.user.signed(
        "config/agent/agent.yaml",
        'version: "1.0.0"\ncategory: agent\nceilings: {turns: 2}\n',
    )
    server.always = calls(("echo", {"text": "more"}), sent=170)

    answer = threads(ready).branch(old, 1)

    assert answer.envelope["code"] == "LIMIT_TURNS"
    assert answer.envelope["usage"]["turns"] == 2


def test_long_results_are_at_an_address_of_the_branch(
    ready: Workspace, server: ModelServer
) -> None:
    server.replies = [calls(("echo", {"text": "x" * 20_000}), sent=5_000), words("done")]
    old = carried_out(ready).envelope["thread_id"]
    server.replies = [words("done")]

    new = threads(ready).branch(old, 1).envelope["thread_id"]

    said = json.dumps(server.requests[-1]["messages"])
    assert f"rye://thread/{new}/result/1" in said
    assert f"rye://thread/{old}/" not in said
    records = threads(ready).records
    assert records.result(new, 1) == records.result(old, 1)


@pytest.mark.parametrize(("turn", "said"), [(0, "1 to 3"), (4, "1 to 3"), (-1, "1 to 3")])
def test_a_turn_that_is_not_there_is_refused_and_no_thread_begins(
    ready: Workspace, server: ModelServer, turn: int, said: str
) -> None:
    old = ended(ready, server)

    with pytest.raises(RyeError, match=said) as refusal:
        threads(ready).branch(old, turn)

    assert refusal.value.code == "VALIDATION_FAILED"
    assert threads(ready).records.ids() == (old,)


def test_behind_the_last_answer_nothing_is_left_unless_a_person_says_something(
    ready: Workspace, server: ModelServer
) -> None:
    old = ended(ready, server)

    with pytest.raises(RyeError, match="nothing is left to do") as refusal:
        threads(ready).branch(old, 3)

    assert "--say" in refusal.value.hint
    assert threads(ready).records.ids() == (old,)


def test_a_branch_that_was_killed_is_gone_on_with(ready: Workspace, server: ModelServer) -> None:
    old = ended(ready, server)
    server.replies = [refused(400, {"error": {"message": "no"}})]
    new = threads(ready).branch(old, 1).envelope["thread_id"]
    server.replies = [words("done")]

    answer = threads(ready).resume(new)

    assert answer.envelope["text"] == "done"


def test_a_branch_whose_events_were_changed_is_refused(
    ready: Workspace, server: ModelServer
) -> None:
    old = ended(ready, server)
    server.replies = [words("again")]
    new = threads(ready).branch(old, 1).envelope["thread_id"]
    path = threads(ready).records.folder_of(new) / "journal.jsonl"
    path.write_bytes(path.read_bytes().replace(b'\\"one\\"', b'\\"two\\"'))

    with pytest.raises(RyeError) as refusal:
        threads(ready).records.read(new)

    assert refusal.value.code == "INTEGRITY"


def test_a_thread_of_another_project_is_neither_resumed_nor_branched_here(
    ready: Workspace, server: ModelServer, tmp_path: Path
) -> None:
    directive(ready, limits='<limits turns="1"/>')
    server.replies = [calls(("echo", {"text": "one"}))]
    wish = ThreadWish(parameters={})
    begun = threads(ready).start(Reference(Kind.DIRECTIVE, "ops/say"), wish)
    old, first = begun.envelope["thread_id"], ready.project_path
    ready.project_path = tmp_path / "other"
    (ready.project_path / ".ai").mkdir(parents=True)

    for act in (threads(ready).resume, lambda one: threads(ready).branch(one, 1)):
        with pytest.raises(RyeError, match="it is of the project") as refusal:
            act(old)
        assert f"--project {first}" in refusal.value.hint

    assert len(server.requests) == 1
