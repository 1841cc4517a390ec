"""What a thread leaves is signed: receipts of its calls, its journal, the ledger of the day."""

import json
import re
from pathlib import Path

import pytest

from ryeos.agent.ledger import FOLDER, LEDGER, Ledger
from ryeos.app.thread_log import Following
from ryeos.app.thread_workspace import ThreadWish
from ryeos.items.errors import Answer, RyeError
from ryeos.items.refs import Kind, Reference
from ryeos.run.receipt_log import Receipt
from ryeos.run.receipt_statements import MODEL_CALL_TYPE, START_TYPE, THREAD_TYPE
from tests.support.agent_threads import carried_out, directive, echo, provider, threads
from tests.support.command_line import CommandLine
from tests.support.model_server import ModelServer, calls, refused, words
from tests.support.workspace import Workspace

PRICED = "{prices: {input: 1000, output: 5000}, context: 8000, max_output: 1000, features: [tools]}"


class KilledError(BaseException):
    """As a kill: nothing of ours runs after it."""


@pytest.fixture
def ready(workspace: Workspace, server: ModelServer) -> Workspace:
    """A workspace with a provider that costs money, a tool and a directive."""
    provider(workspace, server.url, model=PRICED)
    echo(workspace)
    directive(workspace)
    return workspace


def receipts_of(workspace: Workspace, predicate_type: str) -> list[Receipt]:
    found = workspace.rye().receipts.log.receipts()
    return [one for one in found if one.statement["predicateType"] == predicate_type]


def journal_of(workspace: Workspace, answer: Answer) -> Path:
    folder = threads(workspace).records.folder_of(answer.envelope["thread_id"])
    return folder / "journal.jsonl"


def test_each_call_of_the_model_has_a_receipt_with_what_it_used_and_cost(
    ready: Workspace, server: ModelServer
) -> None:
    server.replies = [calls(("echo", {"text": "hi"})), words("done")]

    answer = carried_out(ready)

    thread_id = answer.envelope["thread_id"]
    events = threads(ready).records.events(thread_id)
    digests = [one.payload["digest"] for one in events if one.event_type == "asked"]
    first, second = (one.predicate for one in receipts_of(ready, MODEL_CALL_TYPE))
    assert first["item"] == second["item"] == "model:local/small"
    assert [first["parameters"]["sha256"], second["parameters"]["sha256"]] == digests
    assert first["caller"] == {"kind": "thread", "run": thread_id, "step": "turn 1"}
    assert second["usage"] == {"input_tokens": 100, "output_tokens": 10}
    assert second["cost"] == {"nanoDollars": 150_000, "dollars": "0.00015"}
    assert second["prices"]["input"]
    assert second["status"] == "success"


def test_a_thread_has_a_receipt_that_names_those_of_all_that_it_called(
    ready: Workspace, server: ModelServer
) -> None:
    server.replies = [calls(("echo", {"text": "hi"})), words("done")]

    answer = carried_out(ready)

    (thread,) = receipts_of(ready, THREAD_TYPE)
    found = {one.id: one.predicate for one in ready.rye().receipts.log.receipts()}
    assert answer.envelope["metadata"]["receipt"] == thread.id
    steps = [found[one]["item"] for one in thread.predicate["steps"]]
    assert steps == ["model:local/small", "tool:ops/echo", "model:local/small"]
    tool = next(one for one in found.values() if one["item"] == "tool:ops/echo")
    assert tool["caller"]["run"] == answer.envelope["thread_id"]
    assert thread.predicate["item"] == "directive:ops/say"
    assert thread.predicate["usage"] == answer.envelope["usage"]


def test_the_receipt_of_a_call_is_reserved_before_it_is_sent(
    ready: Workspace, server: ModelServer
) -> None:
    def die(kind: str, _facts: object) -> None:
        if kind == "asked":
            raise KilledError

    with pytest.raises(KilledError):
        threads(ready).start(
            Reference(Kind.DIRECTIVE, "ops/say"), ThreadWish(parameters={}), Following(event=die)
        )

    started = [one.predicate for one in receipts_of(ready, START_TYPE)]
    assert [one["item"] for one in started] == ["directive:ops/say", "model:local/small"]
    assert not receipts_of(ready, MODEL_CALL_TYPE)
    assert not server.requests


def test_a_request_that_a_kill_cut_off_gets_its_receipt_when_the_thread_goes_on(
    ready: Workspace, server: ModelServer
) -> None:
    def die(kind: str, _facts: object) -> None:
        if kind == "asked":
            raise KilledError

    server.always = words("done")
    wish = ThreadWish(parameters={})
    with pytest.raises(KilledError):
        threads(ready).start(Reference(Kind.DIRECTIVE, "ops/say"), wish, Following(event=die))
    (thread_id,) = threads(ready).records.ids()

    threads(ready).resume(thread_id)

    cut, _ = (one.predicate for one in receipts_of(ready, MODEL_CALL_TYPE))
    starts = {one.digest: one.predicate["item"] for one in receipts_of(ready, START_TYPE)}
    assert (cut["error"], cut["charged"]) == ("INTERRUPTED", True)
    assert cut["cost"]["nanoDollars"] > 150_000
    assert starts[cut["start"]] == "model:local/small"


def test_nothing_is_sent_where_no_receipt_can_be_written(
    ready: Workspace, server: ModelServer
) -> None:
    (ready.home / ".ai/state/receipts").parent.mkdir(parents=True, exist_ok=True)
    (ready.home / ".ai/state/receipts").write_text("in the way", "utf-8")
    server.always = words("done")

    answer = carried_out(ready)

    assert answer.envelope["state"] == "failed"
    assert "receipt" in answer.envelope["error"]
    assert not server.requests
    assert Ledger(ready.home / ".ai", daily=1000).left() == 1000


def test_receipts_hold_no_text_of_the_directive_of_the_model_or_of_a_tool_and_no_key(
    ready: Workspace, server: ModelServer
) -> None:
    ready.env["LAB_KEY"] = "very-secret-key"
    host = server.url.removeprefix("http://")
    ready.user.signed(
        "config/credentials/lab.yaml",
        f'version: "1.0.0"\ncategory: credentials\nhosts: ["{host}"]\n'
        "source: {variable: LAB_KEY}\n",
    )
    provider(ready, server.url, model=PRICED, extra="credential: lab\n")
    server.replies = [calls(("echo", {"text": "of-the-tool"})), words("of-the-model")]

    carried_out(ready, what="of-the-input")

    said = json.dumps([dict(one.statement) for one in ready.rye().receipts.log.receipts()])
    for text in ("of-the-tool", "of-the-model", "of-the-input", "very-secret-key", "with the tool"):
        assert text not in said


def test_a_refused_call_has_a_receipt_that_says_it_cost_nothing(
    ready: Workspace, server: ModelServer
) -> None:
    server.always = refused(401, {"error": {"message": "wrong key"}})

    carried_out(ready)

    (call,) = (one.predicate for one in receipts_of(ready, MODEL_CALL_TYPE))
    assert (call["status"], call["error"]) == ("error", "CREDENTIAL_REFUSED")
    assert (call["charged"], call["cost"]["nanoDollars"]) == (False, 0)


def test_a_child_names_its_parent_as_its_caller(ready: Workspace, server: ModelServer) -> None:
    directive(ready, "ops/inner", body="Say one.")
    directive(ready, permissions="<execute><directive>ops.inner</directive></execute>")
    server.replies = [calls(("inner", {})), words("inner done"), words("outer done")]

    answer = carried_out(ready)

    inner, outer = (one.predicate for one in receipts_of(ready, THREAD_TYPE))
    assert inner["caller"]["run"] == answer.envelope["thread_id"]
    assert len(outer["steps"]) == 3


def test_the_receipt_of_a_summary_names_the_model_that_made_it(
    ready: Workspace, server: ModelServer
) -> None:
    full = refused(400, {"error": {"code": "context_length_exceeded", "message": "too many"}})
    turns = [calls(("echo", {"text": f"number {n}"})) for n in range(5)]
    server.replies = [*turns, full, words("done")]
    with ModelServer(words("five were said", sent=700, answered=50)) as other:
        provider(ready, other.url, name="other", model=PRICED)
        text = 'version: "1.0.0"\ncategory: agent\ncompact: other/small\n'
        ready.user.signed("config/agent/agent.yaml", text)

        carried_out(ready)

    asked = [one.predicate for one in receipts_of(ready, MODEL_CALL_TYPE)]
    (summary,) = [one for one in asked if one["item"] == "model:other/small"]
    assert summary["cost"]["nanoDollars"] == 950_000


def test_the_commands_of_receipts_know_those_of_threads(
    ready: Workspace, server: ModelServer
) -> None:
    server.replies = [calls(("echo", {"text": "hi"})), words("done")]
    thread_id = carried_out(ready).envelope["thread_id"]

    cli = CommandLine(ready.folder, ready.bundles[0])
    listed = cli.json("receipts", "list", "--thread", thread_id)["receipts"]
    assert [one["item"] for one in reversed(listed)] == [
        *("model:local/small", "tool:ops/echo", "model:local/small", "directive:ops/say"),
    ]
    call = cli.json("receipts", "list", "--item", "model:local/small")["receipts"][0]
    shown = cli("receipts", "show", call["id"]).stdout
    assert "cost     0.00015 dollars" in shown
    assert cli.json("receipts", "verify")["problems"] == []
    refusal = cli("receipts", "export", call["id"], "--format", "slsa")
    assert "provenance is of what a tool made" in refusal.stderr


# --- what is signed -------------------------------------------------------------------------------


def test_a_byte_of_a_journal_that_was_changed_is_found_wherever_it_is(
    ready: Workspace, server: ModelServer
) -> None:
    server.replies = [calls(("echo", {"text": "hi"})), words("done")]
    answer = carried_out(ready)
    thread_id, path = answer.envelope["thread_id"], journal_of(ready, answer)
    whole = path.read_bytes()
    # Behind the last signature stands only when it was made, which nothing reads.
    signed = whole.rindex(b'","ts":"')

    for place in (*range(0, signed, 97), *range(signed - 20, signed)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with pytest.raises(RyeError) as refusal:
            threads(ready).records.read(thread_id)
        assert refusal.value.code == "INTEGRITY", place


def test_a_line_that_the_receipt_key_did_not_sign_counts_for_nothing(
    ready: Workspace, server: ModelServer
) -> None:
    directive(ready, limits='<limits turns="1"/>')
    server.always = calls(("echo", {"text": "hi"}))
    answer = carried_out(ready)
    path = journal_of(ready, answer)
    more = json.dumps(
        {
            "event_type": "raised",
            "payload": {"limits": {"turns": 99}},
            "thread_id": answer.envelope["thread_id"],
            "timestamp": 1,
        }
    )
    path.write_bytes(path.read_bytes() + more.encode() + b"\n")

    with pytest.raises(RyeError) as refusal:
        threads(ready).resume(answer.envelope["thread_id"])

    assert refusal.value.code == "INTEGRITY"
    assert len(server.requests) == 1


def test_a_write_that_a_kill_cut_short_is_left_out(ready: Workspace, server: ModelServer) -> None:
    server.always = words("done")
    answer = carried_out(ready)
    path = journal_of(ready, answer)
    whole = path.read_bytes()
    last_write = whole.index(b'"event_type":"ended"')
    line = whole.rindex(b"\n", 0, last_write) + 1

    for cut in (line + 10, len(whole) - 40):  # in the event, and in its signature
        path.write_bytes(whole[:cut])
        thread = threads(ready).records.read(answer.envelope["thread_id"])
        assert thread.ended is None
        assert thread.calls == 1

    assert threads(ready).resume(answer.envelope["thread_id"]).envelope["state"] == "completed"


def test_a_journal_of_another_key_is_refused_by_show_raise_and_resume(
    ready: Workspace, server: ModelServer
) -> None:
    server.always = words("done")
    thread_id = carried_out(ready).envelope["thread_id"]
    cli = CommandLine(ready.folder, ready.bundles[0])
    for half in (ready.home / ".ai/config/keys/receipts").iterdir():
        half.unlink()

    for command in (("show",), ("resume",), ("raise", "spend=2")):
        done = cli("threads", command[0], thread_id, *command[1:])
        assert done.status != 0, command
        assert "another key than the receipt key" in done.stderr, command


def test_a_line_of_the_ledger_that_another_program_wrote_pays_nothing(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / ".ai", daily=1000)
    ledger.reserve(600)
    path = tmp_path / ".ai" / FOLDER / LEDGER
    for changed in (
        re.sub(rb'"amount":600|"open":\{("1-[0-9a-f]+"):600', b'"open":{\\1:6', path.read_bytes()),
        path.read_bytes().replace(b":600", b":1"),
    ):
        path.write_bytes(changed)
        with pytest.raises(RyeError) as refusal:
            ledger.reserve(900)
        assert refusal.value.code == "INTEGRITY"
