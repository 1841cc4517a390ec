"""The time of a thread: it is the limit that is named, and a kill gives none of it again."""

import json
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler
from threading import Event
from time import monotonic

import pytest

from lillux.values import replace
from ryeos.app.thread_workspace import ThreadWish
from ryeos.items.refs import Kind, Reference
from ryeos.run.model import ExecutionRequest, ThreadRequest
from tests.support.agent_threads import ECHO, carried_out, directive, echo, provider, threads
from tests.support.model_server import ModelServer, Reply, calls, events, refused, words
from tests.support.workspace import Workspace

BEGUN = json.dumps({"id": "c", "choices": [{"index": 0, "delta": {"content": "Half a"}}]})
SLOW = ECHO.replace("return {", "import time; time.sleep(60); return {")


@pytest.fixture
def over() -> Iterator[Event]:
    found = Event()
    yield found
    found.set()


@pytest.fixture
def server(over: Event) -> Iterator[ModelServer]:
    with ModelServer(always=words("done")) as running:
        yield running
        over.set()


def held(over: Event) -> Reply:
    """Half a sentence, and then nothing until the test is over."""

    def hold(_: BaseHTTPRequestHandler) -> None:
        over.wait(60)

    return events([BEGUN], then=hold)


def silent(over: Event) -> Reply:
    """Not even a status."""

    def reply(_: BaseHTTPRequestHandler, _body: object) -> None:
        over.wait(60)

    return reply


@pytest.mark.parametrize("reply", [held, silent])
@pytest.mark.parametrize("tries", [1, 3])
def test_a_request_that_the_time_of_the_thread_cuts_is_stopped_by_that_limit(
    ready: Workspace, server: ModelServer, over: Event, reply: Callable[[Event], Reply], tries: int
) -> None:
    provider(ready, server.url, extra=f"retry: {{tries: {tries}}}\n")
    server.always = reply(over)

    envelope = carried_out(ready, limits={"duration_s": 1}).envelope

    assert (envelope["state"], envelope["code"]) == ("stopped", "LIMIT_DURATION_S")
    assert "duration_s: " in envelope["error"]
    assert envelope["usage"]["duration_s"] == 1


def test_the_last_try_of_a_stream_that_is_cut_is_stopped_by_the_limit_if_the_time_is_over(
    ready: Workspace, server: ModelServer, over: Event
) -> None:
    provider(ready, server.url, extra="retry: {tries: 2}\n")
    server.replies = [events([BEGUN])]
    server.always = held(over)

    envelope = carried_out(ready, limits={"duration_s": 2}).envelope

    assert envelope["code"] == "LIMIT_DURATION_S"


@pytest.mark.parametrize("status", [429, 503])
def test_a_provider_that_is_busy_for_longer_than_the_thread_lasts_stops_it_by_that_limit(
    ready: Workspace, server: ModelServer, status: int
) -> None:
    busy = {"error": {"message": "come back later"}}
    server.replies = [refused(status, busy, retry_after="3600")]

    stopped = carried_out(ready, limits={"duration_s": 100})

    envelope, thread_id = stopped.envelope, stopped.envelope["thread_id"]
    assert (envelope["state"], envelope["code"]) == ("stopped", "LIMIT_DURATION_S")
    assert "duration_s: 3600 needed, " in envelope["error"]
    assert "come back later" in envelope["error"]
    way = f"go on in 3600 seconds, or later, with: rye threads resume {thread_id}"
    assert envelope["hint"] == way
    assert envelope["usage"]["duration_s"] < 50  # it did not wait
    assert envelope["usage"]["input_tokens"] == 0
    assert threads(ready).resume(thread_id).envelope["state"] == "completed"


def test_another_model_of_the_list_is_asked_before_one_that_is_busy_for_too_long(
    ready: Workspace, server: ModelServer
) -> None:
    server.replies = [refused(429, {"error": {"message": "later"}}, retry_after="3600")]
    provider(ready, server.url, name="other")
    tiers = "tiers: {general: [local/small, other/small]}"
    ready.user.signed("config/agent/agent.yaml", f'version: "1.0.0"\ncategory: agent\n{tiers}\n')
    directive(ready, model='<model tier="general"/>')

    envelope = carried_out(ready, limits={"duration_s": 100}).envelope

    assert envelope["state"] == "completed"
    assert len(server.requests) == 2


def test_a_call_of_a_tool_gets_no_more_time_than_the_thread_has_left(
    ready: Workspace, server: ModelServer
) -> None:
    echo(ready, body=SLOW)
    server.replies = [calls(("echo", {"text": "hi"}))]
    began = monotonic()

    envelope = carried_out(ready, limits={"duration_s": 2}).envelope

    assert monotonic() - began < 30
    assert envelope["code"] == "LIMIT_DURATION_S"
    assert len(server.requests) == 1


ASKED = ExecutionRequest(item_id="ops/say", thread=ThreadRequest())


@pytest.mark.parametrize("wanted", [replace(ASKED, timeout_s=1.0), replace(ASKED, at_most_s=1.0)])
def test_a_time_that_the_caller_gives_is_a_limit_of_the_thread(
    ready: Workspace, server: ModelServer, over: Event, wanted: ExecutionRequest
) -> None:
    server.always = held(over)

    envelope = ready.rye().execute(Reference(Kind.DIRECTIVE, "ops/say"), wanted).envelope

    assert (envelope["state"], envelope["code"]) == ("stopped", "LIMIT_DURATION_S")
    assert "left of 1" in envelope["error"]


def test_the_smaller_one_of_the_time_of_a_caller_and_of_the_directive_counts(
    ready: Workspace,
) -> None:
    directive(ready, limits='<limits duration_s="7"/>')
    request = ExecutionRequest(
        item_id="ops/say",
        thread=ThreadRequest(limits={"duration_s": 9}),
        timeout_s=8.0,
        dry_run=True,
    )

    envelope = ready.rye().execute(Reference(Kind.DIRECTIVE, "ops/say"), request).envelope

    assert envelope["thread"]["limits"]["duration_s"] == 7
    assert "not 8" in str(envelope["metadata"]["warnings"])


def test_time_that_passes_while_a_request_lasts_is_in_the_journal_before_it_ends(
    ready: Workspace, server: ModelServer
) -> None:
    found = threads(ready)
    seen: list[int] = []

    def until_two_seconds_are_written(_: BaseHTTPRequestHandler) -> None:
        waiting = Event()
        for _look in range(300):
            (thread_id,) = found.records.ids()
            seen.append(found.records.read(thread_id).purse.elapsed_s)
            if seen[-1] >= 2 or waiting.wait(0.1):
                break

    server.replies = [events([BEGUN], then=until_two_seconds_are_written)]

    found.start(Reference(Kind.DIRECTIVE, "ops/say"), ThreadWish(parameters={}))

    assert seen[-1] >= 2


def test_a_thread_that_goes_on_after_a_kill_has_the_time_that_it_had_used_before(
    ready: Workspace, server: ModelServer
) -> None:
    found = threads(ready)
    wish = ThreadWish(parameters={}, limits={"duration_s": 100})
    journal = found.begin(Reference(Kind.DIRECTIVE, "ops/say"), wish)
    journal.write(("active", {"elapsed_s": 70}), force=True)
    journal.close()  # as a kill

    envelope = threads(ready).resume(journal.folder.name).envelope

    assert envelope["state"] == "completed"
    assert 70 <= envelope["usage"]["duration_s"] < 90


def test_a_thread_whose_time_was_used_before_a_kill_does_not_ask_again(
    ready: Workspace, server: ModelServer
) -> None:
    found = threads(ready)
    wish = ThreadWish(parameters={}, limits={"duration_s": 70})
    journal = found.begin(Reference(Kind.DIRECTIVE, "ops/say"), wish)
    journal.write(("active", {"elapsed_s": 70}), force=True)
    journal.close()  # as a kill

    envelope = threads(ready).resume(journal.folder.name).envelope

    assert (envelope["state"], envelope["code"]) == ("stopped", "LIMIT_DURATION_S")
    assert not server.requests
