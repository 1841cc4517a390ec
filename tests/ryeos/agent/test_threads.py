"""A directive is carried out by a model that a server of the test plays."""

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from lillux.cancellation import Cancellation
from ryeos.agent.messages import Results
from ryeos.agent.thread_state import ACTIVE
from ryeos.app.agent_threads import AgentThreads
from ryeos.app.execute import execute
from ryeos.app.progress import CallContext
from ryeos.app.thread_log import Following
from ryeos.app.thread_workspace import ThreadWish
from ryeos.items.errors import Answer, RyeError
from ryeos.items.refs import Kind, Reference
from tests.support.agent_threads import carried_out, directive, echo, provider, threads
from tests.support.model_server import ModelServer, calls, events, refused, words
from tests.support.workspace import Workspace

OUTPUTS = '<outputs><output name="sum" type="integer" required="true">Sum</output></outputs>'


def journal_of(workspace: Workspace, answer: Answer) -> list[tuple[str, dict[str, Any]]]:
    found = threads(workspace).records.events(answer.envelope["thread_id"])
    return [(one.event_type, one.payload) for one in found]


def test_a_model_calls_a_tool_and_its_last_words_are_the_result(
    ready: Workspace, server: ModelServer
) -> None:
    server.replies = [calls(("echo", {"text": "hi"})), words("It said hi.")]

    answer = carried_out(ready, what="hi")

    envelope = answer.envelope
    assert (answer.exit_status, envelope["state"], envelope["text"]) == (
        0,
        "completed",
        "It said hi.",
    )
    assert envelope["usage"]["turns"] == 2
    assert envelope["usage"]["tool_calls"] == 1
    assert envelope["usage"]["input_tokens"] == 200
    first, second = server.requests
    assert "Say hi with the tool echo." in json.dumps(first["messages"])
    assert '{\\"said\\": \\"hi\\"}' in json.dumps(second["messages"][-1])
    assert "[left: 19 of 20 turns" in second["messages"][-1]["content"]


def test_every_request_begins_with_the_bytes_of_the_one_before(
    ready: Workspace, server: ModelServer
) -> None:
    turns = [calls(("echo", {"text": str(n)}), sent=100 + n) for n in range(4)]
    server.replies = [*turns, words("done")]

    carried_out(ready)

    for before, after in zip(server.requests, server.requests[1:], strict=False):
        assert after["messages"][: len(before["messages"])] == before["messages"]
        assert after["tools"] == before["tools"]


def test_what_was_intended_stands_in_the_journal_before_what_came_of_it(
    ready: Workspace, server: ModelServer
) -> None:
    server.replies = [calls(("echo", {"text": "hi"})), words("done")]

    answer = carried_out(ready)

    # (On a loaded machine a call takes so long that the time is written in between.)
    kinds = [kind for kind, _ in journal_of(ready, answer) if kind != ACTIVE]
    assert kinds == [
        *("thread", "asked", "answered", "called", "returned", "asked", "answered", "ended"),
    ]


def test_declared_outputs_are_given_with_directive_return(
    ready: Workspace, server: ModelServer
) -> None:
    directive(ready, outputs=OUTPUTS)
    server.replies = [
        words("It is 3."),
        calls(("directive_return", {"sum": "three"})),
        calls(("directive_return", {"sum": 3})),
    ]

    answer = carried_out(ready)

    assert answer.envelope["state"] == "completed"
    assert answer.envelope["outputs"] == {"sum": 3}
    assert "directive_return" in json.dumps(server.requests[1]["messages"][-1])
    assert "arguments do not fit" in json.dumps(server.requests[2]["messages"][-1])


def test_a_model_that_never_gives_the_declared_outputs_fails(
    ready: Workspace, server: ModelServer
) -> None:
    directive(ready, outputs=OUTPUTS)
    server.always = words("I would rather talk.")

    answer = carried_out(ready)

    assert (answer.envelope["state"], answer.envelope["code"]) == ("failed", "OUTPUT_INVALID")
    assert len(server.requests) == 3


@pytest.mark.parametrize(
    ("name", "arguments", "told"),
    [
        ("ecco", {"text": "hi"}, "did you mean echo?"),
        ("echo", {"text": 5}, "arguments do not fit"),
        ("echo", '{"text": "hi"', "expected a JSON object"),
        ("echo", "[1]", "expected a JSON object"),
        ("load", {"item_id": "rye://thread/another/result/1"}, "of this thread"),
        ("load", {"item_id": "tool:rye/bash/bash"}, "Permission denied"),
    ],
)
def test_a_call_that_means_nothing_allowed_is_an_error_for_the_model_and_nothing_runs(
    ready: Workspace, server: ModelServer, name: str, arguments: Mapping[str, Any] | str, told: str
) -> None:
    server.replies = [calls((name, arguments)), words("done")]

    answer = carried_out(ready)

    assert answer.envelope["state"] == "completed"
    assert told in server.requests[1]["messages"][-1]["content"]
    assert answer.envelope["usage"]["tool_calls"] == 0


def test_a_tool_that_is_not_there_is_named_with_those_that_are(
    ready: Workspace, server: ModelServer
) -> None:
    server.replies = [calls(("ecco", {"text": "hi"})), words("done")]

    carried_out(ready)

    told = server.requests[1]["messages"][-1]["content"].splitlines()[0]
    assert told == "Error: no tool 'ecco' (did you mean echo?); there are: echo, load"


def test_without_any_tool_a_call_hears_that_there_is_none(
    ready: Workspace, server: ModelServer
) -> None:
    directive(ready, permissions="", body="Say {input:what?}.")
    server.replies = [calls(("execute", {"item_id": "tool:ops/echo"})), words("done")]

    carried_out(ready)

    told = server.requests[1]["messages"][-1]["content"].splitlines()[0]
    assert told == "Error: no tool 'execute': there are no tools here, so answer without one"


def test_a_model_reads_what_a_program_wrote_before_it_failed(
    ready: Workspace, server: ModelServer
) -> None:
    ready.project.signed_yaml("ops/check", "config: {script: 'echo wrong total; exit 1'}\n")
    server.replies = [calls(("check", {})), words("done")]

    carried_out(ready)

    told = server.requests[1]["messages"][-1]["content"]
    assert "code 1" in told
    assert "wrong total" in told


def test_an_answer_that_was_cut_by_its_limit_runs_no_call(
    ready: Workspace, server: ModelServer
) -> None:
    whole = calls(("echo", {"text": "hi"}))
    data = [
        json.dumps(
            {
                "id": "c",
                "choices": [
                    {
                        "index": 0,
                        "delta": {
                            "tool_calls": [
                                {
                                    "index": 0,
                                    "id": "one",
                                    "function": {"name": "echo", "arguments": '{"text": "hi"}'},
                                }
                            ]
                        },
                        "finish_reason": "length",
                    }
                ],
                "usage": {"prompt_tokens": 5, "completion_tokens": 5},
            }
        ),
        "[DONE]",
    ]
    server.replies = [events(data), whole, words("done")]

    answer = carried_out(ready)

    assert answer.envelope["usage"]["tool_calls"] == 1
    assert "not run" in server.requests[1]["messages"][-1]["content"]


def test_the_calls_of_an_answer_that_refuses_do_not_run(
    ready: Workspace, server: ModelServer
) -> None:
    call = {"index": 0, "id": "one", "function": {"name": "echo", "arguments": '{"text": "hi"}'}}
    delta = {"tool_calls": [call], "refusal": "I will not."}
    choice = {"index": 0, "delta": delta, "finish_reason": "tool_calls"}
    usage = {"prompt_tokens": 5, "completion_tokens": 5}
    server.replies = [events([json.dumps({"choices": [choice], "usage": usage}), "[DONE]"])]

    answer = carried_out(ready)

    assert (answer.envelope["state"], answer.envelope["text"]) == ("refused", "I will not.")
    assert answer.envelope["usage"]["tool_calls"] == 0
    assert len(server.requests) == 1


def test_a_limit_of_turns_stops_before_the_call_that_would_break_it(
    ready: Workspace, server: ModelServer
) -> None:
    directive(ready, limits='<limits turns="2"/>')
    server.always = calls(("echo", {"text": "hi"}))

    answer = carried_out(ready)

    assert (answer.exit_status, answer.envelope["state"]) == (1, "stopped")
    assert answer.envelope["code"] == "LIMIT_TURNS"
    assert len(server.requests) == 2


def test_no_call_starts_that_the_money_does_not_cover(
    ready: Workspace, server: ModelServer
) -> None:
    priced = "{prices: {input: 1000, output: 5000}, context: 8000, max_output: 1000}"
    provider(ready, server.url, model=priced)
    directive(ready, limits='<limits spend="0.01"/>')
    server.always = calls(("echo", {"text": "hi"}), sent=3000, answered=200)

    answer = carried_out(ready)

    assert answer.envelope["code"] == "LIMIT_SPEND"
    assert float(answer.envelope["usage"]["spend"]) <= 0.01
    assert all(request["max_tokens"] <= 1000 for request in server.requests)


def test_a_model_without_a_price_is_refused(ready: Workspace, server: ModelServer) -> None:
    provider(ready, server.url, model="{context: 8000}")

    with pytest.raises(Exception, match="price") as refusal:
        carried_out(ready)

    assert getattr(refusal.value, "code", "") == "PRICE_UNKNOWN"
    assert not server.requests


def test_a_provider_that_is_busy_is_asked_again_and_the_turn_is_counted_once(
    ready: Workspace, server: ModelServer
) -> None:
    busy = refused(429, {"error": {"message": "slow down"}}, retry_after="0")
    server.replies = [busy, busy, words("done")]

    answer = carried_out(ready)

    assert answer.envelope["state"] == "completed"
    assert answer.envelope["usage"]["turns"] == 1


def test_a_refused_credential_is_not_tried_again(ready: Workspace, server: ModelServer) -> None:
    server.always = refused(401, {"error": {"message": "wrong key"}})

    answer = carried_out(ready)

    assert (answer.envelope["state"], answer.envelope["code"]) == ("failed", "CREDENTIAL_REFUSED")
    assert len(server.requests) == 1
    assert answer.envelope["usage"]["spend"] == "0.00"


def test_a_stream_that_is_cut_is_charged_in_full_and_asked_again(
    ready: Workspace, server: ModelServer
) -> None:
    begun = json.dumps({"id": "c", "choices": [{"index": 0, "delta": {"content": "Hel"}}]})
    server.replies = [events([begun]), words("Hello.")]

    answer = carried_out(ready)

    said = dict(journal_of(ready, answer))
    assert answer.envelope["text"] == "Hello."
    assert (said["unanswered"]["charged"], said["unanswered"]["partial"]) == (True, "Hel")
    assert answer.envelope["usage"]["input_tokens"] > 1000, "the reservation, not 100"
    assert "Hel" not in json.dumps(server.requests[1]["messages"][1:])


def test_the_same_call_with_the_same_result_five_times_stops_the_thread(
    ready: Workspace, server: ModelServer
) -> None:
    server.always = calls(("echo", {"text": "again"}))

    answer = carried_out(ready)

    assert (answer.envelope["state"], answer.envelope["code"]) == ("stopped", "LOOPING")
    assert len(server.requests) == 5
    assert "3 times" in server.requests[3]["messages"][-1]["content"]


def test_a_refusal_of_the_model_is_no_error_that_is_tried_again(
    ready: Workspace, server: ModelServer
) -> None:
    refusal = {"id": "c", "choices": [{"index": 0, "delta": {"refusal": "I will not."}}]}
    stop = {"id": "c", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
    server.always = events([json.dumps(refusal), json.dumps(stop), "[DONE]"])

    answer = carried_out(ready)

    assert (answer.envelope["state"], answer.exit_status) == ("refused", 1)
    assert len(server.requests) == 1


def test_a_long_result_is_bounded_and_its_rest_can_be_read(
    ready: Workspace, server: ModelServer
) -> None:
    server.replies = [calls(("echo", {"text": "x" * 20_000}), sent=5_000), words("done")]

    answer = carried_out(ready)

    given = server.requests[1]["messages"][-1]["content"]
    address = f"rye://thread/{answer.envelope['thread_id']}/result/1"
    assert len(given) < 8_500
    assert address in given
    assert len(threads(ready).records.result(answer.envelope["thread_id"], 1)) > 20_000


def test_a_thread_that_was_killed_after_its_intent_pays_for_it_and_goes_on(
    ready: Workspace, server: ModelServer
) -> None:
    class KilledError(BaseException):
        """As a kill: nothing of ours runs after it."""

    server.always = words("done")
    killed = threads(ready)

    def die(kind: str, _facts: object) -> None:
        if kind == "asked":
            raise KilledError

    with pytest.raises(KilledError):
        _start(killed, die)
    (thread_id,) = killed.records.ids()

    answer = threads(ready).resume(thread_id)

    assert answer.envelope["state"] == "completed"
    assert answer.envelope["usage"]["turns"] == 2
    assert len(server.requests) == 1


def test_a_tool_that_a_kill_interrupted_is_not_run_again(
    ready: Workspace, server: ModelServer
) -> None:
    class KilledError(BaseException):
        """As a kill."""

    server.replies = [calls(("echo", {"text": "hi"})), words("done")]

    def die(kind: str, _facts: object) -> None:
        if kind == "called":
            raise KilledError

    killed = threads(ready)
    with pytest.raises(KilledError):
        _start(killed, die)
    (thread_id,) = killed.records.ids()

    threads(ready).resume(thread_id)

    thread = threads(ready).records.read(thread_id)
    (results,) = [one for one in thread.history if isinstance(one, Results)]
    assert "outcome unknown" in results.results[0].text


def _start(found: AgentThreads, event: Callable[[str, Mapping[str, Any]], None]) -> None:
    wish = ThreadWish(parameters={})
    found.start(Reference(Kind.DIRECTIVE, "ops/say"), wish, Following(event=event))


def test_a_thread_has_what_another_process_of_it_may_not_have_at_the_same_time(
    ready: Workspace, server: ModelServer
) -> None:
    begun = threads(ready).begin(Reference(Kind.DIRECTIVE, "ops/say"), ThreadWish(parameters={}))
    with begun as journal, pytest.raises(RyeError) as refusal:
        threads(ready).resume(journal.folder.name)

    assert refusal.value.code == "CONFLICT"


def test_a_child_pays_from_the_purse_of_its_parent(ready: Workspace, server: ModelServer) -> None:
    directive(ready, "ops/inner", body="Say one.")
    directive(
        ready,
        permissions="<execute><directive>ops.inner</directive></execute>",
        limits='<limits turns="4"/>',
    )
    server.replies = [calls(("inner", {})), words("inner done"), words("outer done")]

    answer = carried_out(ready)

    assert answer.envelope["text"] == "outer done"
    assert answer.envelope["usage"]["turns"] == 3
    assert answer.envelope["usage"]["spawns"] == 1
    assert "inner done" in server.requests[2]["messages"][-1]["content"]


def test_a_file_of_the_project_chooses_no_provider(ready: Workspace, server: ModelServer) -> None:
    ready.project.signed(
        "config/agent/providers/local.yaml",
        'version: "1.0.0"\ncategory: agent/providers\ndialect: openai-chat\n'
        "base_url: http://127.0.0.1:9\nmodels:\n  small: {free: true}\n",
    )
    server.always = words("done")

    answer = carried_out(ready)

    assert answer.envelope["state"] == "completed"
    assert any("does not count" in one for one in ready.warnings)


def test_a_journal_that_was_changed_is_refused(ready: Workspace, server: ModelServer) -> None:
    server.always = words("done")
    thread_id = carried_out(ready).envelope["thread_id"]
    path = threads(ready).records.folder_of(thread_id) / "journal.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"turns":20', b'"turns":99'))

    with pytest.raises(RyeError) as refusal:
        threads(ready).records.read(thread_id)

    assert refusal.value.code == "INTEGRITY"


def test_a_client_has_a_directive_carried_out_with_thread_fork(
    ready: Workspace, server: ModelServer
) -> None:
    server.replies = [calls(("echo", {"text": "hi"})), words("done")]
    calling = CallContext(cancellation=Cancellation(), progress=lambda *_: None)
    given = {"item_id": "directive:ops/say", "parameters": {"what": "hi"}, "thread": "fork"}

    answer = execute(ready.rye(), given, calling, _no_program)

    assert (answer.envelope["type"], answer.envelope["state"]) == ("thread", "completed")


def test_a_client_hears_how_far_a_thread_is(ready: Workspace, server: ModelServer) -> None:
    server.replies = [calls(("echo", {"text": "hi"})), words("all done")]
    heard: list[tuple[float, float | None, str]] = []
    calling = CallContext(
        cancellation=Cancellation(),
        progress=lambda *said: heard.append(said),
        wants_progress=True,
    )
    given = {"item_id": "directive:ops/say", "parameters": {"what": "hi"}, "thread": "fork"}

    execute(ready.rye(), given, calling, _no_program)

    done = [one[0] for one in heard]
    assert done == sorted(set(done))
    assert heard[-1] == (2.0, None, "turn 2 is answered")


def test_limit_overrides_of_a_client_only_lower(ready: Workspace, server: ModelServer) -> None:
    server.always = calls(("echo", {"text": "hi"}))
    calling = CallContext(cancellation=Cancellation(), progress=lambda *_: None)
    given = {
        "item_id": "directive:ops/say",
        "thread": "fork",
        "limit_overrides": {"turns": 1, "tokens": 10**9},
    }

    answer = execute(ready.rye(), given, calling, _no_program)

    thread = threads(ready).records.read(answer.envelope["thread_id"])
    assert answer.envelope["code"] == "LIMIT_TURNS"
    assert thread.purse.limits.tokens == 200_000


@pytest.mark.parametrize("given", [{"model": "fast"}, {"limit_overrides": {"turns": 1}}])
def test_what_only_a_fork_heeds_is_refused_of_a_client_that_asks_for_none(
    ready: Workspace, server: ModelServer, given: dict[str, Any]
) -> None:
    calling = CallContext(cancellation=Cancellation(), progress=lambda *_: None)

    with pytest.raises(RyeError, match="expected with a fork, found thread inline") as refusal:
        execute(ready.rye(), {"item_id": "directive:ops/say", **given}, calling, _no_program)

    assert refusal.value.code == "INVALID_PARAMS"
    assert '"thread": "fork"' in refusal.value.hint
    assert not server.requests


def _no_program(_: object) -> Any:  # noqa: ANN401 - it is not asked for
    raise AssertionError("nothing runs in the background")


def test_the_tool_of_the_bundle_carries_a_directive_out(
    ready: Workspace, server: ModelServer
) -> None:
    server.replies = [calls(("echo", {"text": "hi"})), words("done")]
    given = {"directive_id": "ops/say", "inputs": {"what": "hi"}}

    result = ready.run("rye/agent/threads/thread_directive", params=given)

    assert result.success, result.error
    assert result.data["text"] == "done"


def test_a_cancelled_thread_ends_and_can_be_gone_on_with(
    ready: Workspace, server: ModelServer
) -> None:
    finish = Cancellation()

    def ended_after_first_turn(kind: str, _facts: object) -> None:
        if kind == "answered":
            finish.cancel()

    server.replies = [calls(("echo", {"text": "hi"})), words("done")]
    following = Following(event=ended_after_first_turn, finish=finish)

    answer = carried_out(ready, following=following)
    resumed = threads(ready).resume(answer.envelope["thread_id"])

    assert (answer.exit_status, answer.envelope["state"]) == (130, "cancelled")
    assert (resumed.envelope["state"], resumed.envelope["text"]) == ("completed", "done")


def test_a_person_raises_a_limit_and_the_thread_goes_on(
    ready: Workspace, server: ModelServer
) -> None:
    directive(ready, limits='<limits turns="1"/>')
    server.replies = [calls(("echo", {"text": "hi"})), words("done")]

    stopped = carried_out(ready)
    thread_id = stopped.envelope["thread_id"]
    with threads(ready).records.reopen(thread_id) as journal:
        journal.write(("raised", {"limits": {"turns": 3}}), force=True)
    resumed = threads(ready).resume(thread_id)

    assert stopped.envelope["code"] == "LIMIT_TURNS"
    assert resumed.envelope["state"] == "completed"


def test_what_a_person_says_is_heard_at_the_next_turn(
    ready: Workspace, server: ModelServer
) -> None:
    found = threads(ready)

    def say(kind: str, _facts: object) -> None:
        if kind == "called":
            found.records.order(found.records.ids()[0], "steer", "Be brief.")

    server.replies = [calls(("echo", {"text": "hi"})), words("done")]

    _start(found, say)

    assert server.requests[1]["messages"][-1] == {"role": "user", "content": "Be brief."}


def test_a_variable_of_a_credential_reaches_no_tool(ready: Workspace, server: ModelServer) -> None:
    ready.env["LAB_KEY"] = "secret-value"
    host = server.url.removeprefix("http://")
    ready.user.signed(
        "config/credentials/lab.yaml",
        f'version: "1.0.0"\ncategory: credentials\nhosts: ["{host}"]\n'
        "source: {variable: LAB_KEY}\n",
    )
    provider(ready, server.url, extra="credential: lab\n")
    body = """
        import os

        CONFIG_SCHEMA = {"type": "object", "properties": {}}


        def execute(params, project_path):
            return {"seen": os.environ.get("LAB_KEY", "nothing")}
    """
    echo(ready, "ops/look", body=body)
    server.replies = [calls(("look", {})), words("done")]

    answer = carried_out(ready)

    kept = threads(ready).records.folder_of(answer.envelope["thread_id"]) / "journal.jsonl"
    assert server.headers[0]["authorization"] == "Bearer secret-value"
    assert '"seen": "nothing"' in server.requests[1]["messages"][-1]["content"]
    assert b"secret-value" not in kept.read_bytes()


def test_a_text_that_its_caller_does_not_know_is_not_carried_out(
    ready: Workspace, server: ModelServer
) -> None:
    wish = ThreadWish(parameters={}, known_texts={"directive:ops/say": "0" * 64})

    with pytest.raises(RyeError):
        threads(ready).start(Reference(Kind.DIRECTIVE, "ops/say"), wish)

    assert not server.requests


def test_a_new_thread_does_not_go_on_from_another_one(
    ready: Workspace, server: ModelServer
) -> None:
    with pytest.raises(RyeError, match="previous_thread_id") as refusal:
        carried_out(ready, previous_thread_id="ops-say-1-00aa")

    assert "rye threads branch ID --turn N" in refusal.value.hint
    assert not server.requests


def test_where_many_items_are_permitted_the_model_gets_three_verbs(
    ready: Workspace, server: ModelServer
) -> None:
    directive(ready, permissions="*")
    found = calls(("execute", {"item_id": "tool:ops/echo", "parameters": {"text": "hi"}}))
    server.replies = [found, words("done")]

    answer = carried_out(ready)

    offered = [one["function"]["name"] for one in server.requests[0]["tools"]]
    assert (offered, answer.envelope["state"]) == (["execute", "load", "search"], "completed")
    assert '{\\"said\\": \\"hi\\"}' in json.dumps(server.requests[1]["messages"][-1])


@pytest.mark.parametrize("status", [200, 401, 500])
def test_a_key_that_a_provider_says_again_is_kept_nowhere(
    ready: Workspace, server: ModelServer, status: int
) -> None:
    key = "sk-good-SECRETKEY123"
    host = server.url.removeprefix("http://")
    ready.user.signed(
        "config/credentials/lab.yaml",
        f'version: "1.0.0"\ncategory: credentials\nhosts: ["{host}"]\n'
        "source: {variable: LAB_KEY}\n",
    )
    provider(ready, server.url, extra="credential: lab\nretry: {tries: 1}\n")
    said = {"error": {"message": f"quota of key Bearer {key}"}}
    server.always = words(f"Your key is {key}.") if status == 200 else refused(status, said)
    ready.env["LAB_KEY"] = key

    answer = carried_out(ready)

    kept = [
        path.read_bytes()
        for space in (ready.user, ready.project)
        for path in space.space.base.rglob("*")
        if path.is_file()
    ]
    assert server.headers[0]["authorization"] == f"Bearer {key}"
    assert key not in json.dumps(answer.envelope)
    assert not [data for data in kept if key.encode() in data]


def test_a_provider_that_cuts_every_stream_is_given_up_with_its_fault(
    ready: Workspace, server: ModelServer
) -> None:
    begun = json.dumps({"id": "c", "choices": [{"index": 0, "delta": {"content": "Hel"}}]})
    provider(ready, server.url, extra="retry: {tries: 2}\n")
    server.always = events([begun])

    answer = carried_out(ready)

    assert (answer.envelope["state"], answer.envelope["code"]) == ("failed", "STREAM_CUT")
    assert len(server.requests) == 2
