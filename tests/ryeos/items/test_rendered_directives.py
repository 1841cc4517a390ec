"""Directives: inputs checked, then written into the text once."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ryeos.items.directives import DirectiveInput
from ryeos.items.errors import DirectiveInputError
from ryeos.items.header_values import MetadataError
from ryeos.items.refs import ItemRef, Kind
from ryeos.items.rendering import (
    DIRECTIVE_INSTRUCTIONS,
    interpolate,
    render_directive,
    valid_inputs,
)
from tests.support.workspace import Workspace

REF = ItemRef(Kind.DIRECTIVE, "mine/do")
ENV = {
    "HOME": "/home/me",
    "RYE_MODE": "quiet",
    "SECRET_TOKEN": "s3cret",
    "RYE_REMOTE_API_KEY": "s3cret",
    "RYE_secret_word": "s3cret",
    "PATH": "/bin",
}
HEADER = """```xml
<directive name="do" version="1.2.3">
  <metadata>
    <description>Do it</description>
    <category>mine</category>
    <author>me</author>
    <model tier="high"/>
    <limits turns="5"/>
    <permissions><execute><tool>x.*</tool></execute></permissions>
  </metadata>
  <inputs>
    <input name="page" type="string" required="true">which page</input>
    <input name="depth" type="integer" default="2"/>
    <input name="tone"/>
  </inputs>
  <outputs><output name="summary" type="string" required="true">what</output></outputs>
  <process>
    <step name="one"><execute item_id="tool:x"><param name="a" value="1"/></execute></step>
  </process>
</directive>
```
"""


def entry(name: str, kind: str | None = None, default: str | None = None) -> DirectiveInput:
    return DirectiveInput(name=name, type=kind, required=False, default=default, description="")


def required(name: str, default: str | None = None) -> DirectiveInput:
    return DirectiveInput(name=name, type=None, required=True, default=default, description="")


def filled(text: str, **inputs: object) -> str:
    return interpolate(text, inputs, ENV, [])


def render(body: str, **parameters: object) -> dict[str, Any]:
    return render_directive(f"# Title\n\n{HEADER}\n{body}\n", REF, parameters, ENV)


# --- references


@pytest.mark.parametrize(
    ("text", "with_it", "without"),
    [
        ("{input:k}", "v", "{input:k}"),
        ("{input:k?}", "v", ""),
        ("{input:k:some default}", "v", "some default"),
        ("{input:k|some: default}", "v", "some: default"),
        ("{input:k:}", "v", ""),
        ("${inputs.k}", "v", "${inputs.k}"),
        ("a{input:k}b{input:k}", "avbv", "a{input:k}b{input:k}"),
    ],
)
def test_a_reference_stands_for_the_input_or_its_default(
    text: str, with_it: str, without: str
) -> None:
    assert filled(text, k="v") == with_it
    assert filled(text) == without


@pytest.mark.parametrize(
    "text",
    [
        *("{k}", "{input: k}", "{input:}", "${input.k}", "{inputs.k}", "{input:k", "input:k"),
        *('{"a": {"b": 1}}', "${k}", "function() { return {input }; }", "{}", "}{", "{input:1}"),
    ],
)
def test_braces_that_are_no_reference_stay(text: str) -> None:
    assert filled(text, k="v") == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (True, "true"),
        (None, "null"),
        (3, "3"),
        ([1, "ü"], '[1, "ü"]'),
        ({"a": 1}, '{"a": 1}'),
        ("", ""),
    ],
)
def test_values_stand_as_json_and_strings_as_they_are(value: object, text: str) -> None:
    assert filled("<{input:k}>", k=value) == f"<{text}>"


@given(value=st.text() | st.text(alphabet="{}$input:env.HOMEk?|", max_size=40))
def test_inserted_values_are_never_read_again(value: str) -> None:
    assert filled("<{input:k}|${inputs.k}>", k=value, inner="x") == f"<{value}|{value}>"


def test_a_caller_reaches_no_variable_and_no_other_input() -> None:
    text = filled("{input:a} {input:b}", a="{env:HOME} {input:b} ${inputs.b}", b="{input:a}")

    assert text == "{env:HOME} {input:b} ${inputs.b} {input:a}"


@given(text=st.text(alphabet="{}input:env.k?|$ \nHOME", max_size=80))
def test_any_text_can_be_filled(text: str) -> None:
    assert isinstance(filled(text, k="v"), str)


def test_an_unclosed_reference_takes_time_in_proportion() -> None:
    text = "{input:k:" * 50_000 + "{env:HOME:" * 50_000

    assert filled(text, k="v") == text


# --- variables


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{env:HOME}", "/home/me"),
        ("{env:RYE_MODE}", "quiet"),
        ("{env:LANG:none}", "none"),
        ("{env:LANG}", "{env:LANG}"),
        ("{env:HOME:other}", "/home/me"),
    ],
)
def test_a_few_variables_can_be_read(text: str, expected: str) -> None:
    assert filled(text) == expected


@pytest.mark.parametrize(
    "name",
    [
        *("SECRET_TOKEN", "PATH", "RYE_REMOTE_API_KEY", "RYE_secret_word", "RYE_PASSWORD", "home"),
        *("AWS_ACCESS_KEY_ID", "HOMEX"),
    ],
)
def test_no_other_variable_can_be_read(name: str) -> None:
    warnings: list[str] = []

    text = interpolate(f"{{env:{name}}} {{env:{name}:default}}", {}, ENV, warnings)

    assert text == f"{{env:{name}}} {{env:{name}:default}}"
    assert (
        warnings == [f"{{env:{name}}} is left as it is: a directive may not read this variable"] * 2
    )


# --- inputs


def test_defaults_are_filled_in_in_the_order_of_the_declaration() -> None:
    declared = [entry("a", "integer", "1"), entry("b"), entry("c", None, "x")]

    inputs = valid_inputs(declared, {"b": "given"}, "directive:x")

    assert list(inputs.items()) == [("a", 1), ("b", "given"), ("c", "x")]


def test_all_problems_are_reported_at_once() -> None:
    declared = [required("a"), required("b"), entry("c", "integer"), entry("d", "boolean")]

    with pytest.raises(DirectiveInputError) as error:
        valid_inputs(declared, {"c": "many", "d": 1, "z": 1, "y": 2}, "directive:x")

    assert str(error.value) == (
        "directive:x: Unknown parameters: z, y. Valid inputs: a, b, c, d;"
        " Missing required inputs: a, b;"
        " Invalid input types: c (expected integer, got 'many'), d (expected boolean, got 1)"
    )
    assert error.value.details[2] == "c (integer, optional)"
    assert error.value.code == "VALIDATION_FAILED"


def test_a_required_input_with_a_default_is_not_missing_and_an_empty_one_is_given() -> None:
    assert valid_inputs([required("a", "d"), required("b")], {"b": ""}, "x") == {
        "a": "d",
        "b": "",
    }


@pytest.mark.parametrize(
    ("kind", "value", "result"),
    [
        ("integer", "5", 5),
        ("number", "2.5", 2.5),
        ("number", 2, 2),
        ("boolean", "true", True),
        ("array", '["a"]', ["a"]),
        ("object", '{"a": 1}', {"a": 1}),
        ("string", "5", "5"),
        (None, "5", "5"),
        ("colour", "5", "5"),
        ("colour", [1], [1]),
    ],
)
def test_a_text_for_another_type_is_read_as_json(
    kind: str | None, value: object, result: object
) -> None:
    assert valid_inputs([entry("a", kind)], {"a": value}, "x") == {"a": result}


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        *(("integer", text) for text in ("x", "2.5", "", "1e999")),
        *(("integer", other) for other in (2.5, True, None)),
        *(("number", text) for text in ("NaN", "Infinity", "1e999")),
        ("number", False),
        *(("boolean", text) for text in ("yes", "True")),
        *(("boolean", number) for number in (1, 0)),
        ("string", 5),
        ("string", None),
        ("string", ["a"]),
        *(("array", text) for text in ("a", '{"a": 1}', "[" * 100_000)),
        ("array", {}),
        *(("object", text) for text in ("[]", "null")),
        ("object", []),
    ],
    ids=lambda value: f"{value}"[:12],
)
def test_a_value_of_another_type_is_refused(kind: str, value: object) -> None:
    with pytest.raises(DirectiveInputError) as error:
        valid_inputs([entry("a", kind)], {"a": value}, "x")

    assert f"a (expected {kind}, got" in str(error.value)


@pytest.mark.parametrize("declared", [[], [entry("a")]])
def test_a_value_that_json_cannot_hold_is_refused(declared: list[DirectiveInput]) -> None:
    endless: dict[str, Any] = {}
    endless["a"] = endless

    for value in (endless, float("nan"), b"bytes"):
        with pytest.raises(DirectiveInputError):
            valid_inputs(declared, {"a": value}, "x")


def test_without_declared_inputs_all_parameters_pass_but_those_that_steer_a_run() -> None:
    given = {"a": 1, "model": "m", "thread": "fork", "async": True, "limit_overrides": {}}

    assert valid_inputs([], given, "x") == {"a": 1}


def test_a_declared_input_may_have_a_name_that_steers() -> None:
    assert valid_inputs([entry("model")], {"model": "m", "thread": "x"}, "x") == {"model": "m"}


# --- the envelope


def test_an_envelope_has_the_directions_and_the_fields_of_the_header() -> None:
    envelope = render("Read {input:page}, {input:depth} deep{input:tone?}.", page="p")

    assert envelope == {
        "status": "success",
        "type": "directive",
        "item_id": "mine/do",
        "your_directions": "Read p, 2 deep.",
        "body": "Read p, 2 deep.",
        "inputs": {"page": "p", "depth": 2},
        "outputs": [{"name": "summary", "type": "string", "required": True, "description": "what"}],
        "permissions": ["rye.execute.tool.x.*"],
        "instructions": DIRECTIVE_INSTRUCTIONS,
        "metadata": {"version": "1.2.3", "description": "Do it"},
        "warnings": [],
    }


def test_a_directive_without_a_body_gives_its_header() -> None:
    envelope = render("", page="p")

    assert envelope["your_directions"].startswith('<directive name="do"')


def test_a_body_with_braces_and_fences_comes_through() -> None:
    body = '```json\n{"a": {"b": "{input:page}"}}\n```\n\n${HOME} {{x}} {page} $(id)'

    assert render(body, page="p")["body"] == body.replace("{input:page}", "p")


def test_a_dry_run_gives_the_header_and_no_directions() -> None:
    text = f"{HEADER}\nRead {{input:page}}.\n"

    envelope = render_directive(text, REF, {"page": "p"}, ENV, dry_run=True)

    assert envelope["status"] == "validation_passed"
    assert envelope["message"] == "directive:mine/do would render: every input fits"
    assert envelope["inputs"] == {"page": "p", "depth": 2}
    assert not {"your_directions", "body", "instructions"} & envelope.keys()
    assert envelope["data"] == {
        "name": "do",
        "version": "1.2.3",
        "description": "Do it",
        "category": "mine",
        "author": "me",
        "model": {"tier": "high"},
        "limits": {"turns": 5},
        "permissions": ["rye.execute.tool.x.*"],
        "inputs": [
            "page (string, required): which page",
            "depth (integer, optional, default '2')",
            "tone (string, optional)",
        ],
        "actions": [{"primary": "execute", "item_id": "tool:x", "params": {"a": "1"}}],
    }
    json.dumps(envelope)


@pytest.mark.parametrize("text", ["no fence\n", "```xml\n<directive>\n```\n", "```xml\n<x/>\n"])
def test_a_text_without_a_header_is_refused(text: str) -> None:
    with pytest.raises(MetadataError):
        render_directive(text, REF, {}, ENV)


# --- in a workspace


def test_a_signed_directive_is_rendered_whole(workspace: Workspace) -> None:
    inputs = '<inputs><input name="who" type="string" required="true"/></inputs>'
    path = workspace.project.directive(
        "mine/greet", "Greet {input:who}. {env:SECRET_TOKEN} {env:HOME}", inputs
    )
    workspace.env["SECRET_TOKEN"] = "s3cret"
    workspace.project.sign(path)

    answer = workspace.render("directive:mine/greet", who="{env:HOME}")

    assert answer.exit_status == 0
    assert answer.envelope["your_directions"] == (
        f"Greet {{env:HOME}}. {{env:SECRET_TOKEN}} {workspace.home}"
    )
    assert answer.envelope["metadata"]["coverage"] == "full"
    assert workspace.warnings == [
        "{env:SECRET_TOKEN} is left as it is: a directive may not read this variable"
    ]
