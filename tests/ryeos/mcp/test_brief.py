import json
from typing import Any

import pytest

from ryeos.mcp.brief import brief, text_of
from ryeos.mcp.results import tool_result

FACTS = {
    "type": "tool",
    "chain": [{"item_id": "mine/x", "integrity": "0" * 64}],
    "metadata": {"duration_ms": 3.5, "resolved_env_keys": ["PATH"]},
    "project_path": "/project",
}


def executed(**fields: object) -> dict[str, Any]:
    """The envelope of a run."""
    return {"status": "success", "item_id": "mine/x", **FACTS, **fields}


def test_a_run_is_its_status_its_item_and_its_data() -> None:
    assert brief("execute", executed(data={"sum": 4.75})) == {
        "status": "success",
        "item_id": "mine/x",
        "data": {"sum": 4.75},
    }


@pytest.mark.parametrize("name", ["verbose", "trace"])
def test_a_caller_who_requests_everything_gets_everything(name: str) -> None:
    envelope = executed(data=1)

    assert tool_result(envelope, arguments={name: True})["structuredContent"] == envelope


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ("as it is\n", "as it is\n"),
        ({"sum": 4.75}, '{"sum":4.75}'),
        ([1, "ü"], '[1,"ü"]'),
        (0, "0"),
        (None, "null"),
        ({"stdout": "hi\n", "stderr": "", "return_code": 0}, "hi\n"),
        ({"stdout": "hi", "stderr": "no", "return_code": 3}, "return_code 3\nhi\nstderr:\nno"),
        ({"stdout": "", "stderr": "", "return_code": 0}, "success"),
    ],
)
def test_the_text_is_the_output_of_the_tool(data: object, text: str) -> None:
    assert text_of(brief("execute", executed(data=data))) == text


def test_an_error_says_its_cause_first_then_the_hint_and_the_output() -> None:
    data = {"stdout": "out\n", "stderr": "bad\n", "return_code": 3}
    failed = executed(status="error", error="bad", code="EXECUTION_FAILED", hint="look", data=data)

    text = text_of(brief("execute", failed))

    assert text == "EXECUTION_FAILED: bad\nhint: look\nreturn_code 3\nout\n"
    more = executed(status="error", error="bad", code="X", data={**data, "stderr": "a\nbad\n"})
    assert text_of(brief("execute", more)).endswith("\n\nstderr:\na\nbad\n")


def test_a_failure_repeats_no_text_and_has_its_hint_at_the_top() -> None:
    data = {"success": False, "error": "gone", "hint": "look", "path": "a.txt"}
    failed = executed(status="error", error="gone", code="EXECUTION_FAILED", data=data)

    short = brief("execute", failed)

    assert (short["hint"], short["data"]) == ("look", {"path": "a.txt"})
    only = {"success": False, "error": "gone"}
    assert "data" not in brief("execute", {**failed, "data": only})


@pytest.mark.parametrize(
    ("answer", "data"),
    [
        (
            {"content": [{"type": "text", "text": '{"n":1}'}], "structuredContent": {"n": 1}},
            {"n": 1},
        ),
        ({"content": [{"type": "text", "text": "[1]"}], "parsed": [1]}, [1]),
        ({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}, "a\nb"),
        ({"content": []}, ""),
    ],
)
def test_the_answer_of_another_server_is_given_once(answer: dict[str, Any], data: object) -> None:
    whole = {"success": True, "tool": "t", "isError": False, **answer}

    assert brief("execute", executed(data=whole))["data"] == data


GRAPH = {"success": True, "status": "completed", "graph_run_id": "a-b-1795460342220-0334"}


def test_the_run_of_a_graph_is_its_output() -> None:
    assert brief("execute", executed(data={**GRAPH, "output": {"n": 1}}))["data"] == {"n": 1}
    state = {"inputs": {}, "_last_error": {}, "n": 1}
    assert brief("execute", executed(data={**GRAPH, "state": state}))["data"] == {"n": 1}


def test_a_graph_that_failed_names_the_call_that_resumes_it() -> None:
    data = {**GRAPH, "success": False, "status": "error", "state": {"inputs": {}}, "error": "x"}
    failed = executed(status="error", error="a[1]: x", code="EXECUTION_FAILED", data=data)

    short = brief("execute", failed)

    resumed = {"resume_thread_id": "run-0334", "parameters": {"force": True}}
    arguments = {"item_id": "mine/x", **resumed}
    assert short["next"] == [{"name": "execute", "arguments": arguments}]
    assert short["hint"] == "repair what failed, sign it, then resume: the run keeps its inputs"
    assert "data" not in short


def test_a_failed_call_in_the_state_of_a_graph_is_its_error() -> None:
    call = {"status": "error", "error": "x", "code": "VALIDATION_FAILED", "hint": "rye run a"}
    state = {"totals": [{"sum": 3}, call], "own": {"status": "error", "error": "y"}}
    data = {**GRAPH, "success": False, "status": "error", "state": state, "error": "x"}

    short = brief("execute", executed(status="error", error="a[1]: x", data=data))

    assert short["state"] == {
        "totals": [{"sum": 3}, {"error": "x"}],
        "own": {"status": "error", "error": "y"},
    }


def test_a_failed_trial_is_read_like_a_failed_run() -> None:
    failed = {"status": "error", "error": "/a: expected b", "code": "VALIDATION_FAILED"}
    signed = {"status": "signed", "ref": "tool:mine/x", "tried": {**failed, "hint": "look"}}

    lines = text_of(signed).splitlines()

    assert lines == [
        "status: signed",
        "tried: VALIDATION_FAILED: /a: expected b",
        "hint: look",
        "ref: tool:mine/x",
    ]
    assert text_of({"status": "signed", "tried": {"status": "success", "data": {"n": 1}}}) == (
        'status: signed\ntried: {"n":1}'
    )


def test_a_replaced_query_stands_before_the_hits() -> None:
    short = found("a or (b", hit(), warnings=["query: searched for the words instead: a b"])

    assert text_of(short).splitlines()[0] == (
        'warnings: ["query: searched for the words instead: a b"]'
    )


def test_items_that_a_search_could_not_read_are_named_with_a_way_to_the_reason() -> None:
    short = found("x", skipped_items=[{"ref": "tool:mine/broken", "path": "/p/broken.py"}])

    assert short["skipped_items"] == ["tool:mine/broken"]
    assert short["hint"] == "sign with the ref of a skipped item says what is wrong with it"


def test_an_unknown_topic_is_named_first() -> None:
    short = brief("help", {"status": "success", "content": "Topics\n\n  search", "asked": "flurb"})

    assert short["content"] == "No topic 'flurb'.\n\nTopics\n\n  search"


def test_a_graph_that_went_on_after_failures_says_so() -> None:
    errors = [{"node": "a", "error": "x"}]
    data = {**GRAPH, "status": "completed_with_errors", "output": 1, "errors": errors}

    short = brief("execute", executed(data=data))

    assert (short["data"], short["state"], short["errors"]) == (1, "completed_with_errors", errors)


def test_warnings_of_a_run_are_kept() -> None:
    envelope = executed(data=1, metadata={"warnings": ["w"], "duration_ms": 1})

    assert brief("execute", envelope)["warnings"] == ["w"]


def test_a_background_run_has_a_short_id_and_the_calls_that_ask_for_it_and_end_it() -> None:
    thread_id = "mine/x/x-1795457199777-5027-bb60"
    kept = brief(
        "execute", executed(thread_id=thread_id, state="running", pid=7, **{"async": True})
    )

    assert kept == {
        "status": "running",
        "thread_id": "run-bb60",
        "next": [
            {
                "name": "execute",
                "arguments": {"item_id": "run-bb60", "options": {"wait_s": 60}},
            },
            {
                "name": "execute",
                "arguments": {
                    "item_id": "rye/core/processes/cancel",
                    "parameters": {"thread_id": "run-bb60"},
                },
            },
        ],
    }


def test_the_text_of_the_error_is_not_listed_again() -> None:
    envelope = {
        "status": "error",
        "code": "VALIDATION_FAILED",
        "error": "/p/x.py: version: expected X.Y.Z, found '1'",
        "issues": ["version: expected X.Y.Z, found '1'"],
        "details": ["version: expected X.Y.Z, found '1'", "and more"],
        "path": "/p/x.py",
        "error_type": "x",
        "item_id": "mine/x",
        "hint": "fix it",
    }

    assert brief("sign", envelope).keys() == {"status", "code", "error", "hint", "details"}


def hit(**fields: object) -> dict[str, Any]:
    """A hit as the search answers it."""
    usual = {"id": "mine/x", "ref": "tool:mine/x", "type": "tool", "name": "x", "title": "x"}
    rest = {
        "description": "Adds numbers",
        "score": 0.9,
        "path": "/p",
        "preview": "def total(): ...",
    }
    return {**usual, **rest, "signed": True, "metadata": {"version": "1"}, **fields}


def found(query: str, *hits: dict[str, Any], **fields: object) -> dict[str, Any]:
    """The envelope of a search, as a model gets it."""
    envelope = {"status": "success", "mode": "query", "results": list(hits), "query": query}
    return brief("search", {**envelope, "total": len(hits), **fields}, {"query": query})


def test_a_hit_is_its_id_kind_and_description() -> None:
    assert found("numbers", hit())["results"] == [
        {"id": "mine/x", "kind": "tool", "description": "Adds numbers"}
    ]


def test_a_preview_is_for_a_word_of_the_text_and_short() -> None:
    (one,) = found("total", hit(preview=f"def total(): {'x' * 500}"))["results"]

    assert (len(one["preview"]), one["preview"][:9]) == (120, "def total")


def test_a_score_is_for_hits_that_do_not_have_all_words() -> None:
    (one,) = found("numbers", hit(), relaxed="any of the words")["results"]

    assert one["score"] == 0.9


def test_an_item_that_does_not_verify_is_marked() -> None:
    (one,) = found("x", hit(description="", preview="", signed=False, integrity="UNSIGNED"))[
        "results"
    ]

    assert one == {"id": "mine/x", "kind": "tool", "signed": False, "integrity": "UNSIGNED"}


def test_a_list_names_the_call_for_its_next_page() -> None:
    short = found("numbers", hit(), next_offset=10)

    assert short["next"] == [{"name": "search", "arguments": {"query": "numbers", "offset": 10}}]


def test_hits_are_lines_of_text() -> None:
    assert text_of(found("numbers", hit())) == "tool:mine/x - Adds numbers\ntotal: 1"


def test_a_hit_without_a_description_has_its_title() -> None:
    (page,) = found("x", hit(description="", title="Names of branches"))["results"]

    assert page["description"] == "Names of branches"


LOADED = {
    "status": "success",
    "mode": "id",
    "ref": "tool:mine/x",
    "item_id": "mine/x",
    "path": "/p",
    "content": "# rye:signed:a:b:c:d\n# rye:item:tool:mine/x:py:1.0.0\nprint(1)\n",
    "metadata": {"description": "Adds numbers", "version": "1.0.0"},
    "input_schema": {"type": "object"},
    "total_chars": 63,
}


def test_a_tool_is_described_before_its_text() -> None:
    assert brief("load", LOADED, {"item_id": "mine/x"}) == {
        "status": "success",
        "ref": "tool:mine/x",
        "description": "Adds numbers",
        "input_schema": {"type": "object"},
    }


def test_a_text_comes_on_request_without_its_signature_and_without_a_second_schema() -> None:
    short = brief("load", LOADED, {"item_id": "mine/x", "text": True})

    assert (short["content"], "input_schema" in short) == ("print(1)\n", False)


def test_a_cut_text_names_the_call_for_the_rest() -> None:
    short = brief("fetch", LOADED | {"next_offset": 20}, {"item_id": "mine/x", "text": True})

    call = {"item_id": "tool:mine/x", "text": True, "offset": 20}
    assert short["next"] == [{"name": "fetch", "arguments": call}]


def test_a_cut_is_reported_first_with_the_call_that_reads_on() -> None:
    call = {"name": "load", "arguments": {"item_id": "rye://output/a", "offset": 4000}}
    short = {"status": "success", "data": "a...z", "truncated": {"bytes": 118_000}, "next": [call]}

    first, rest = text_of(short).split("\n", 1)

    assert (
        first
        == f"[cut: 118000 bytes in all; read on with {json.dumps(call, separators=(',', ':'))}]"
    )
    assert rest == "a...z"
