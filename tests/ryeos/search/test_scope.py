import pytest

from ryeos.items.errors import ArgumentError
from ryeos.items.refs import Kind
from ryeos.search.search import Scope, parse_scope


@pytest.mark.parametrize(
    ("text", "scope"),
    [
        ("", Scope()),
        ("*", Scope()),
        ("tool", Scope(Kind.TOOL)),
        ("tool.*", Scope(Kind.TOOL)),
        ("tool.rye.core.*", Scope(Kind.TOOL, "rye/core")),
        ("tool.rye.core", Scope(Kind.TOOL, "rye/core")),
        ("tool.rye.core*", Scope(Kind.TOOL, "rye/core")),
        ("rye.fetch.tool.rye.core.*", Scope(Kind.TOOL, "rye/core")),
        ("rye.search.directive.*", Scope(Kind.DIRECTIVE)),
        ("rye.load.knowledge.a-b.c_d", Scope(Kind.KNOWLEDGE, "a-b/c_d")),
        ("rye.tool.x", Scope(Kind.TOOL, "x")),
        ("fetch.*.mine", Scope(None, "mine")),
        ("*.mine", Scope(None, "mine")),
        ("tool/rye/core", Scope(Kind.TOOL, "rye/core")),
        ("tool:rye/core", Scope(Kind.TOOL, "rye/core")),
    ],
)
def test_a_scope_names_a_kind_and_a_prefix(text: str, scope: Scope) -> None:
    assert parse_scope(text) == scope


@pytest.mark.parametrize("text", ["rye.core", "tools", "config.x", "fetch.thing"])
def test_a_scope_of_no_kind_is_refused(text: str) -> None:
    with pytest.raises(ArgumentError, match=r"^scope: expected a kind \(tool, directive, know"):
        parse_scope(text)
