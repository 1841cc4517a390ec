"""The rules between neighbours of a chain."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ryeos.items.specs import tool_spec
from ryeos.run.chain_validator import ChainValidator
from ryeos.run.model import ChainElement

SPACES = ["project", "user", "system:one", "system:two", "system"]
RANKS = {"project": 3, "user": 2, "system": 1}


def element(item_id: str, space: str = "project", **header: Any) -> ChainElement:  # noqa: ANN401
    spec = tool_spec({"executor_id": None, **header}, ".yaml")
    return ChainElement(item_id=item_id, requested_id=item_id, space=space, spec=spec)


def issues(*links: ChainElement) -> tuple[str, ...]:
    return ChainValidator().validate_chain(links).issues


def rank(space: str) -> int:
    return RANKS[space.partition(":")[0]]


# --- spaces


@given(spaces=st.lists(st.sampled_from(SPACES), min_size=2, max_size=5))
def test_an_element_depends_on_its_own_tier_and_those_below_only(spaces: list[str]) -> None:
    links = [element(f"e{number}", space) for number, space in enumerate(spaces)]

    result = ChainValidator().validate_chain(links)

    ranks = [rank(space) for space in spaces]
    assert result.valid == (ranks == sorted(ranks, reverse=True))
    assert result.validated_pairs == len(spaces) - 1


def test_a_user_tool_cannot_use_a_project_runtime() -> None:
    found = issues(element("hello", "user"), element("mine/py", "project"))

    assert found == (
        "user tool hello depends on project runtime mine/py (user items may use user and system)",
    )


def test_a_system_item_that_delegates_to_a_changeable_one_breaks_two_rules() -> None:
    found = issues(element("rye/x", "system:one"), element("mine/py", "user"))

    assert found == (
        "system tool rye/x depends on user runtime mine/py (system:one items may use system only)",
        "Invalid chain: system item rye/x delegates to user item mine/py",
    )


def test_an_unknown_space_is_an_issue() -> None:
    assert issues(element("a", "project"), element("b", "cloud")) == ("Invalid space 'cloud' of b",)


@pytest.mark.parametrize("links", [[], [element("a", "user")]])
def test_a_chain_without_neighbours_is_valid(links: list[ChainElement]) -> None:
    result = ChainValidator().validate_chain(links)

    assert (result.valid, result.issues, result.validated_pairs) == (True, (), 0)


# --- inputs and outputs


def test_inputs_of_a_parent_must_be_outputs_of_its_child() -> None:
    child = element("child", outputs=["text", "html"])
    parent = element("parent", inputs=["xml", "json", "text"])

    assert issues(child, parent) == (
        "I/O mismatch: parent needs json, xml, child gives html, text",
    )


def test_a_child_without_outputs_is_reported() -> None:
    child, parent = element("child", outputs=[]), element("parent", inputs=["text"])

    assert issues(child, parent) == ("I/O mismatch: parent needs text, child gives nothing",)


@pytest.mark.parametrize(
    ("outputs", "inputs"),
    [
        (None, ["a"]),
        (["a"], None),
        (None, None),
        (["a", "b"], ["a"]),
        ([], []),
        ([{"name": "a"}], ["a"]),
        ({"a": {}}, ["a"]),
    ],
)
def test_missing_declarations_and_enough_outputs_are_compatible(
    outputs: object, inputs: object
) -> None:
    child = element("child", outputs=outputs)
    parent = element("parent", inputs=inputs)

    assert issues(child, parent) == ()


# --- versions


@pytest.mark.parametrize(
    "constraints",
    [
        {"child": {"min_version": "1.2.0", "max_version": "2.0"}},
        {"*": {"min_version": "1.2.0", "max_version": "2.0"}},
        {"min_version": "1.2.0", "max_version": "2.0"},
    ],
)
@pytest.mark.parametrize(
    ("version", "problem"),
    [
        ("1.1.9", "minimum required 1.2.0"),
        ("1.2.0rc1", "minimum required 1.2.0"),
        ("1.2.0", None),
        ("1.10.0", None),
        ("2.0.0", None),
        ("2.0.1", "maximum allowed 2.0"),
        ("10.0", "maximum allowed 2.0"),
    ],
)
def test_versions_compare_as_versions_not_as_text(
    constraints: dict[str, Any], version: str, problem: str | None
) -> None:
    child = element("child", version=version)
    parent = element("parent", child_constraints=constraints)

    failed = f"Version constraint failed: child has version {version}, {problem}"
    assert issues(child, parent) == ((failed,) if problem else ())


def test_the_constraint_for_a_child_comes_before_the_one_for_any() -> None:
    child = element("child", version="1.0.0")
    constraints = {"*": {"min_version": "9"}, "child": {"min_version": "1"}}

    assert issues(child, element("parent", child_constraints=constraints)) == ()


@pytest.mark.parametrize(
    ("header", "constraints", "warning"),
    [
        ({}, {"min_version": "1"}, "child has no version but parent specifies version constraints"),
        (
            {"version": "latest"},
            {"min_version": "1"},
            "child: version constraint not checked: Invalid version: 'latest'",
        ),
        (
            {"version": "1.0"},
            {"max_version": "newest"},
            "child: version constraint not checked: Invalid version: 'newest'",
        ),
    ],
)
def test_versions_that_cannot_be_compared_give_a_warning(
    header: dict[str, str], constraints: dict[str, str], warning: str
) -> None:
    links = [element("child", **header), element("parent", child_constraints=constraints)]

    result = ChainValidator().validate_chain(links)

    assert (result.valid, result.warnings) == (True, (warning,))


@pytest.mark.parametrize("constraints", [{}, {"other": {"min_version": "9"}}, {"child": {}}])
def test_no_constraint_for_a_child_allows_any_version(constraints: dict[str, Any]) -> None:
    result = ChainValidator().validate_chain(
        [element("child"), element("parent", child_constraints=constraints)]
    )

    assert (result.issues, result.warnings) == ((), ())


def test_an_invalid_constraint_is_reported() -> None:
    found = issues(element("child"), element("parent", child_constraints={"child": ">= 2"}))

    problem = "expected a mapping with min_version and max_version, got string"
    assert found == (f"parent: child_constraints of child: {problem}",)


def test_all_violations_are_reported_at_once() -> None:
    found = issues(
        element("a", "user", version="1", outputs=["x"]),
        element("b", "project", inputs=["y"], child_constraints={"min_version": "2"}),
        element("c", "nowhere"),
    )

    assert len(found) == 4
