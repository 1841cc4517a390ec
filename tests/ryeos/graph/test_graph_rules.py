"""Rules of graphs that need no walk: capabilities, results, steering, elements, answers."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ryeos.graph.call_results import classified, failed, unwrapped
from ryeos.graph.capabilities import denial, required_capability
from ryeos.graph.commands import WalkOutcome
from ryeos.graph.failures import Control, control_of
from ryeos.graph.node_calls import collected, elements_of
from ryeos.graph.run_result import mapped, timed_out
from ryeos.graph.storable_values import storage_problem
from tests.support.graph_walks import gate, nodes

# ---------------------------------------------------------------------------- capabilities


@pytest.mark.parametrize(
    ("call", "required"),
    [
        (("execute", "tool", "demo/add"), "rye.execute.tool.demo.add"),
        (("execute", None, "add"), "rye.execute.tool.add"),
        (("fetch", "knowledge", "a/b/c"), "rye.fetch.knowledge.a.b.c"),
        (("fetch", None, ""), "rye.fetch.search"),
        (("sign", "directive", "demo/plan"), "rye.sign.directive.demo.plan"),
    ],
)
def test_a_call_requires_a_capability(call: tuple[str, str | None, str], required: str) -> None:
    assert required_capability(*call) == required
    assert denial(*call, [(required,)]) is None


@pytest.mark.parametrize(
    ("capability", "grants"),
    [
        ("rye.execute.tool.demo.add", True),
        ("rye.*", True),
        ("*", True),
        ("rye.execute.*", True),
        ("rye.execute.tool.demo.a??", True),
        ("rye.execute.tool.demo.[a]dd", True),
        ("rye.execute.tool.demo", False),
        ("rye.execute.tool.demo.", False),
        ("rye.execute.directive.demo.*", False),
        ("RYE.*", False),
        ("", False),
    ],
)
def test_a_capability_grants_exactly_the_calls_it_names(capability: str, grants: bool) -> None:  # noqa: FBT001
    assert (denial("execute", "tool", "demo/add", [(capability,)]) is None) is grants


@pytest.mark.parametrize("grants", [[], [()], [("*",), ()], [(), ()]])
def test_calls_without_a_grant_are_denied(grants: list[tuple[str, ...]]) -> None:
    assert denial("execute", "tool", "x", grants) == "Permission denied: no capabilities"


@pytest.mark.parametrize(
    ("granted", "is_read", "is_searched"),
    [
        ("rye.search.* rye.fetch.*", False, True),
        ("rye.load.knowledge.a.* rye.fetch.knowledge.a.*", True, False),
        ("rye.search.* rye.fetch.* rye.load.knowledge.a.* rye.fetch.knowledge.a.*", True, True),
        ("rye.search.* rye.fetch.* rye.load.knowledge.b.* rye.fetch.knowledge.b.*", False, True),
        ("rye.search.* rye.fetch.* rye.load.*", True, True),
        ("rye.fetch.*", True, True),
        ("rye.*", True, True),
    ],
)
def test_search_finds_items_and_load_reads_them(
    granted: str,
    is_read: bool,  # noqa: FBT001
    is_searched: bool,  # noqa: FBT001
) -> None:
    grants = [tuple(granted.split())]

    assert (denial("fetch", "knowledge", "a/b", grants) is None) is is_read
    assert (denial("fetch", None, "", grants) is None) is is_searched


@given(st.lists(st.lists(st.sampled_from(["*", "rye.execute.tool.a", "rye.sign.*"])), max_size=4))
def test_a_further_list_never_allows_more(lists: list[list[str]]) -> None:
    grants = [tuple(one) for one in lists]
    if grants and denial("execute", "tool", "a", grants) is not None:
        assert denial("execute", "tool", "a", [*grants, ("*",)]) is not None


def test_calls_that_steer_their_own_run_are_always_allowed() -> None:
    assert denial("execute", "tool", "rye/agent/threads/internal/control", []) is None
    assert denial("execute", "tool", "rye/agent/threads/internals", []) is not None


# ---------------------------------------------------------------------------- results


@pytest.mark.parametrize(
    ("envelope", "result"),
    [
        (None, {}),
        (5, {"result": 5}),
        ([1], {"result": [1]}),
        ({"status": "success", "data": {"n": 1}, "chain": [1], "metadata": {}}, {"n": 1}),
        ({"status": "success", "data": [1, 2]}, {"result": [1, 2]}),
        ({"status": "success", "data": None}, {}),
        ({"status": "success", "data": ""}, {"result": ""}),
        (
            {"status": "success", "ref": "tool:x", "path": "/x"},
            {"status": "success", "ref": "tool:x"},
        ),
        (
            {"status": "error", "error": "no luck", "code": "X", "data": {"n": 1}},
            {"n": 1, "status": "error", "error": "no luck", "code": "X"},
        ),
        (
            {"status": "success", "data": {"success": False, "error": "inner"}},
            {"success": False, "status": "error", "error": "inner"},
        ),
        (
            {"status": "error", "error": "outer", "data": {"error": "inner"}},
            {"status": "error", "error": "inner"},
        ),
        ({"status": "error"}, {"status": "error", "error": "the call failed and gave no reason"}),
        (
            {"status": "error", "data": {"error": {"code": 5}}},
            {"status": "error", "error": "{'code': 5}"},
        ),
    ],
)
def test_an_envelope_is_unwrapped(envelope: object, result: dict[str, Any]) -> None:
    assert unwrapped(envelope) == result


@pytest.mark.parametrize("success", [True, None, 0, "false", []])
def test_only_an_explicit_false_is_a_failure(success: object) -> None:
    assert unwrapped({"data": {"success": success}}) == {"success": success}


@pytest.mark.parametrize(
    ("result", "category"),
    [
        (failed("it took too long", "TIMEOUT"), "timeout"),
        (failed("no way there", "HTTP_UNREACHABLE"), "connection"),
        ({"error": "x", "status_code": 429}, "rate_limit"),
        ({"error": "x", "status_code": 503}, "server"),
        ({"error": "x", "status_code": 404}, "permanent"),
        ({"error": "HTTP 502 Bad Gateway"}, "server"),
        ({"error": "status code: 429"}, "rate_limit"),
        ({"error": "Connection refused"}, "connection"),
        ({"error": "the request timed out"}, "connection"),
        ({"error": "flag missing"}, "permanent"),
        ({"error": "line 503 is wrong"}, "permanent"),
        ({"error": "x", "status_code": True}, "permanent"),
        ({}, "permanent"),
        (failed("ended", "CANCELLED"), "cancelled"),
    ],
)
def test_failures_are_of_kinds(result: dict[str, Any], category: str) -> None:
    found = classified(result)

    assert found["category"] == category
    assert found["retryable"] is (category not in {"permanent", "cancelled"})


# ---------------------------------------------------------------------------- controls, elements


@pytest.mark.parametrize(
    ("values", "control"),
    [
        ({}, Control("")),
        ({"action": "retry", "max_retries": 7}, Control("retry", 7)),
        ({"action": "retry", "max_retries": 101}, Control("retry", 100)),
        ({"action": "fail", "error": "x"}, Control("fail", error="x")),
        ({"action": None, "error": 5, "max_retries": None}, Control("None")),
    ],
)
def test_an_answer_of_a_hook_is_read(values: dict[str, Any], control: Control) -> None:
    assert control_of(values) == control


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(),
        lambda x: st.lists(x) | st.dictionaries(st.text(), x),
    )
)
def test_any_value_has_elements(over: object) -> None:
    warnings: list[str] = []

    elements = elements_of(over, "a", warnings.append)

    assert isinstance(elements, list)
    assert not (elements and warnings)


@pytest.mark.parametrize("text", ["[" * 100_000, "[1", "nonsense", '"text"', "5"])
def test_a_text_that_is_no_list_has_no_elements(text: str) -> None:
    warnings: list[str] = []

    assert elements_of(text, "a", warnings.append) == []
    assert len(warnings) == 1
    assert len(warnings[0]) < 200


def test_of_a_failed_call_the_failure_is_collected_even_where_it_started_a_thread() -> None:
    error = {"status": "error", "error": "x", "thread_id": "t-1"}

    assert collected([error, {"thread_id": "t-2", "n": 1}, {"n": 1}]) == [error, "t-2", {"n": 1}]


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ({"a": [1, "x", None, True, 1.5]}, None),
        (float("inf"), "expected a finite number, found Infinity"),
        ({"a": {1: 2}}, "expected keys that are text, found one of type int"),
        ({"a": object()}, "expected "),
    ],
)
def test_values_can_be_recorded_or_not(value: object, problem: str | None) -> None:
    found = storage_problem(value)

    assert found == problem if problem is None else str(found).startswith(problem)


# ---------------------------------------------------------------------------- answers


def test_an_outcome_becomes_an_answer() -> None:
    outcome = WalkOutcome(
        status="completed_with_errors",
        state={"n": 1},
        steps=3,
        output={"x": 1},
        has_output=True,
        errors=({"step": 1, "node": "a", "error": "x"},),
        warnings=("odd",),
    )

    result = mapped(nodes(a=gate()), outcome, "r-1")

    assert (result.success, result.error, result.code) == (True, None, "")
    assert result.data == {
        "success": True,
        "status": "completed_with_errors",
        "output": {"x": 1},
        "steps": 3,
        "graph_run_id": "r-1",
        "errors_suppressed": 1,
        "errors": [{"step": 1, "node": "a", "error": "x"}],
        "warnings": ["odd"],
    }


def test_a_run_out_of_time_says_so() -> None:
    outcome = WalkOutcome(
        status="cancelled",
        state={},
        steps=1,
        error="the run was cancelled",
        node="a",
        next_node="a",
        code="cancelled",
    )

    ended = timed_out(outcome, 2.0)
    result = mapped(nodes(a=gate()), ended, "r-1")

    assert (ended.status, ended.next_node) == ("error", "a")
    assert (result.success, result.code) == (False, "TIMEOUT")
    assert result.error == "the graph timed out after 2 seconds"
