import pytest

from ryeos.errors import CopyConflictError, NoProjectError, NoSigningKeyError, SystemImmutableError
from ryeos.mcp.hints import for_callers
from ryeos.mcp.results import tool_result


@pytest.mark.parametrize(
    ("hint", "told"),
    [
        ("leave out --async", "leave out async"),
        (CopyConflictError("/a").hint, "replace it with overwrite; a .bak is kept"),
        (NoProjectError("x").hint, "name one with project_path"),
        (
            SystemImmutableError("tool:a/b").hint,
            "copy it first: load with item_id tool:a/b and destination project",
        ),
        ("i=... is text; give JSON with i:=...", "give i as JSON, not as text"),
        (NoSigningKeyError("/k").hint, NoSigningKeyError("/k").hint),
    ],
)
def test_a_hint_over_mcp_names_the_argument_and_no_flag(hint: str, told: str) -> None:
    result = tool_result({"status": "error", "error": "no", "code": "X", "hint": hint})

    assert result["structuredContent"]["hint"] == told


def test_an_envelope_without_a_hint_stays_as_it_is() -> None:
    assert for_callers({"status": "success"}) == {"status": "success"}
