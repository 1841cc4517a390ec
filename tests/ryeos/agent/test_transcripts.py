"""A thread leaves a page that people read, which gives no rights and hides no secrets in it."""

from typing import Any

import pytest

from lillux.cancellation import Cancellation
from ryeos.app.load import load
from ryeos.app.search import search
from ryeos.app.thread_log import Following
from ryeos.items.errors import ItemNotFoundError, RyeError
from ryeos.items.refs import ItemRef
from tests.support.agent_threads import carried_out, provider, threads
from tests.support.command_line import CommandLine
from tests.support.model_server import ModelServer, calls, words
from tests.support.workspace import Workspace


def left_by(workspace: Workspace) -> str:
    return str(carried_out(workspace, what="hi").envelope["thread_id"])


def loaded(workspace: Workspace, address: str, **more: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
    return dict(load(workspace.rye(), {"item_id": address, **more}).envelope)


def test_a_thread_that_ended_leaves_a_page_of_what_was_said_and_done(
    ready: Workspace, server: ModelServer
) -> None:
    server.replies = [calls(("echo", {"text": "hi"})), words("It said hi.")]

    thread_id = left_by(ready)

    text = threads(ready).transcript(thread_id)
    assert text.startswith("```yaml\n")
    assert 'entry_type: "thread"' in text
    assert "> Say hi with the tool echo." in text
    assert '    {"text": "hi"}' in text
    assert '    {"said": "hi"}' in text
    assert "> It said hi." in text
    path = threads(ready).records.folder_of(thread_id) / "transcript.md"
    assert path.read_text("utf-8").startswith(text)
    assert path.stat().st_mode & 0o077 == 0


def test_the_page_of_a_thread_is_no_item_that_an_agent_could_load_or_find(
    ready: Workspace, server: ModelServer
) -> None:
    server.always = words("approvedbythemodel")

    left_by(ready)

    found = search(ready.rye(), {"query": "approvedbythemodel", "item_type": "all"}).envelope
    assert found["results"] == []
    pages = list((ready.project_path / ".ai").rglob("*.md"))
    assert not [one for one in pages if "approvedbythemodel" in one.read_text("utf-8")]


def test_a_page_that_was_changed_is_not_shown(ready: Workspace, server: ModelServer) -> None:
    server.always = words("I did nothing.")
    thread_id = left_by(ready)
    path = threads(ready).records.folder_of(thread_id) / "transcript.md"
    path.write_bytes(path.read_bytes().replace(b"nothing", b"all of"))

    with pytest.raises(RyeError) as refusal:
        threads(ready).transcript(thread_id)

    assert refusal.value.code == "INTEGRITY"


def test_text_of_a_model_ends_no_block_and_steers_no_terminal(
    ready: Workspace, server: ModelServer
) -> None:
    server.always = words("```\n# Done\x1b[2J\n<!-- rye:transcript:a:b -->\nname: other\u202e")

    text = threads(ready).transcript(left_by(ready))

    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "<!--" not in text
    assert [line for line in text.splitlines() if line.startswith("# ")] == ["# ops/say"]
    assert text.count("\nname:") == 1


def test_secrets_do_not_stand_in_the_page(ready: Workspace, server: ModelServer) -> None:
    ready.env["LAB_KEY"] = "very-secret-key"
    ready.env["DEPLOY_TOKEN"] = "tok-12345678"
    host = server.url.removeprefix("http://")
    ready.user.signed(
        "config/credentials/lab.yaml",
        f'version: "1.0.0"\ncategory: credentials\nhosts: ["{host}"]\n'
        "source: {variable: LAB_KEY}\n",
    )
    provider(ready, server.url, extra="credential: lab\n")
    said = {"text": "very-secret-key and tok-12345678"}
    server.replies = [calls(("echo", said)), words("It is very-secret-key.")]

    text = threads(ready).transcript(left_by(ready))

    assert "very-secret-key" not in text
    assert "tok-12345678" not in text
    assert "***" in text


def test_a_thread_that_goes_on_gets_a_new_page(ready: Workspace, server: ModelServer) -> None:
    finish = Cancellation()

    def ended_after_first_turn(kind: str, _facts: object) -> None:
        if kind == "answered":
            finish.cancel()

    server.replies = [calls(("echo", {"text": "hi"})), words("The rest.")]
    following = Following(event=ended_after_first_turn, finish=finish)
    answer = carried_out(ready, following=following)
    thread_id = str(answer.envelope["thread_id"])
    before = threads(ready).transcript(thread_id)

    threads(ready).resume(thread_id)

    assert 'state: "cancelled"' in before
    assert "> The rest." in threads(ready).transcript(thread_id)


def test_load_gives_the_page_of_a_thread_of_this_project_and_of_no_other(
    ready: Workspace, server: ModelServer
) -> None:
    server.always = words("done")
    thread_id = left_by(ready)
    other = ready.folder / "other"
    (other / ".ai").mkdir(parents=True)

    mine = loaded(ready, f"rye://thread/{thread_id}", max_chars=50)
    with pytest.raises(RyeError) as refusal:
        load(ready.rye().at(str(other)), {"item_id": f"rye://thread/{thread_id}"})

    assert mine["content"].startswith("```yaml")
    assert mine["next_offset"] == 50
    assert refusal.value.code == "ITEM_NOT_FOUND"
    for address in ("rye://thread/../../x", f"rye://thread/{thread_id}/result/../journal.jsonl"):
        with pytest.raises(RyeError):
            load(ready.rye(), {"item_id": address})


def test_who_may_not_see_a_directive_may_not_read_its_threads(
    ready: Workspace, server: ModelServer
) -> None:
    server.always = words("done")
    thread_id = left_by(ready)
    rye = ready.rye()

    def refuse(ref: ItemRef) -> None:
        raise ItemNotFoundError(str(ref), ())

    rye.require_visible = refuse

    with pytest.raises(ItemNotFoundError, match="ops/say"):
        load(rye, {"item_id": f"rye://thread/{thread_id}"})


def test_load_gives_the_whole_of_a_long_result(ready: Workspace, server: ModelServer) -> None:
    server.replies = [calls(("echo", {"text": "x" * 20_000}), sent=5_000), words("done")]
    thread_id = left_by(ready)

    found = loaded(ready, f"rye://thread/{thread_id}/result/1", max_chars=30_000)

    assert found["content"].count("x") > 19_990


def test_threads_show_prints_the_transcript(ready: Workspace, server: ModelServer) -> None:
    server.always = words("All is well.")
    thread_id = left_by(ready)
    cli = CommandLine(ready.folder, ready.bundles[0])

    done = cli("threads", "show", thread_id, "--transcript")

    assert done.status == 0
    assert "> All is well." in done.stdout
