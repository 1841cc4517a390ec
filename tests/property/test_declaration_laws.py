"""What signs is read as Python itself sees it when the file has run."""

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ryeos.items.declarations import unread_declarations
from ryeos.items.header_values import MetadataError
from ryeos.items.python_headers import parse_python
from ryeos.items.refs import Kind

pytestmark = pytest.mark.property

NAMES = ("SANDBOX", "__version__", "CONFIG_SCHEMA", "__executor_id__", "ENV_CONFIG")
VALUES = ("{}", '{"read": "any"}', '"1.0.0"', "dict()", "{**OTHER}", "OTHER", '["a"]', "None")
FORMS = (
    "{name} = {value}",
    "{name}: object = {value}",
    "X = {name} = {value}",
    "{name}, X = {value}, 1",
    "if OTHER == {{}}:\n    {name} = {value}",
    "try:\n    {name} = {value}\nexcept OSError:\n    pass",
    "for {name} in [{value}]:\n    pass",
    "class Holder:\n    {name} = {value}",
    "def change():\n    global {name}\n    {name} = {value}\nchange()",
    'globals()["{name}"] = {value}',
    "globals().update({name}={value})",
    "exec('{name} = 5')",
    "(X := ({name} := {value}))",
    'TEXT = """\n{name} = {value}\n"""',
    "# {name} = {value}",
    "def read():\n    return {name}",
    "X = [{name} for {name} in [{value}]]",
    "OTHER = {{}}",
)
statements = st.lists(
    st.tuples(st.sampled_from(FORMS), st.sampled_from(NAMES), st.sampled_from(VALUES)).map(
        lambda one: one[0].format(name=one[1], value=one[2])
    ),
    max_size=5,
)


@given(statements)
def test_a_file_that_signs_says_what_python_sees(parts: list[str]) -> None:
    text = "\n".join(["OTHER = {}", *parts, ""])
    try:
        header = parse_python(text)
    except MetadataError:
        return
    if list(unread_declarations(Kind.TOOL, ".py", text, header)):
        return

    seen: dict[str, object] = {}
    exec(compile(ast.parse(text), "tool", "exec"), seen)  # noqa: S102 - the texts are ours

    assert {name: header[name] for name in NAMES if name in header} == {
        name: seen[name] for name in NAMES if name in seen
    }
