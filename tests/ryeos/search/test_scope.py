import pytest

from ryeos.items.errors import VerbArgumentError
from ryeos.items.refs import Kind
from ryeos.search.scope import SearchScope, parse_scope


@pytest.mark.parametrize(
    ("text", "scope"),
    [
        ("", SearchScope()),
        ("*", SearchScope()),
        ("tool", SearchScope(Kind.TOOL)),
        ("tool.*", SearchScope(Kind.TOOL)),
        ("tool.rye.core.*", SearchScope(Kind.TOOL, "rye/core")),
        ("tool.rye.core", SearchScope(Kind.TOOL, "rye/core")),
        ("tool.rye.core*", SearchScope(Kind.TOOL, "rye/core")),
        ("rye.fetch.tool.rye.core.*", SearchScope(Kind.TOOL, "rye/core")),
        ("rye.search.directive.*", SearchScope(Kind.DIRECTIVE)),
        ("rye.load.knowledge.a-b.c_d", SearchScope(Kind.KNOWLEDGE, "a-b/c_d")),
        ("rye.tool.x", SearchScope(Kind.TOOL, "x")),
        ("fetch.*.mine", SearchScope(None, "mine")),
        ("*.mine", SearchScope(None, "mine")),
        ("tool/rye/core", SearchScope(Kind.TOOL, "rye/core")),
        ("tool:rye/core", SearchScope(Kind.TOOL, "rye/core")),
    ],
)
def test_a_scope_names_a_kind_and_a_prefix(text: str, scope: SearchScope) -> None:
    assert parse_scope(text) == scope


@pytest.mark.parametrize("text", ["rye.core", "tools", "config.x", "fetch.thing"])
def test_a_scope_without_a_valid_kind_is_refused(text: str) -> None:
    with pytest.raises(VerbArgumentError, match=r"^scope: expected a kind \(tool, directive, know"):
        parse_scope(text)
