"""Laws for every text and every header, not only for the examples."""

import json
from collections.abc import Callable
from typing import Any
from xml.sax.saxutils import escape, quoteattr

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from ryeos.items.directives import DirectiveInput, parse_directive
from ryeos.items.header_values import MetadataError
from ryeos.items.headers import PARSERS, parse_header
from ryeos.items.knowledge import Knowledge, parse_knowledge

pytestmark = pytest.mark.property

PARSE_ANY: dict[str, Callable[[str], object]] = {
    **PARSERS,
    "directive": parse_directive,
    "knowledge": lambda text: parse_knowledge(text, ".md"),
    "knowledge.yaml": lambda text: parse_knowledge(text, ".yaml"),
}

# Pieces that mean something to one of the parsers, so that random texts get past the first line.
WORDS_OF_THE_FORMATS = """
    # // /* */ /** * @version 1.0.0 | ' " ` ``` ```` ```xml ```yaml --- ... : , ; = => == - ? ! & *
    << [ ] { } ( ) ${ } \\ \\u{1 \\x \\" 0x 1e 1_ 9 .5 -1 true null const let export as satisfies
    CONFIG_SCHEMA CONFIG __version__ __x__= name: a &a *a !!int !!python/object:x %TAG %YAML
    <directive> </directive> <metadata> </metadata> <input/> <permissions> * </permissions> &amp;
    <template> </template> <!-- --> <![CDATA[ ]]> <? ?> <!DOCTYPE &x; """
PIECES = st.sampled_from(
    [
        *WORDS_OF_THE_FORMATS.split(),
        *("\n", "\n\n", " ", "  ", "\t", '"""', "'''"),
        *("<!-- rye:signed:x -->\n", "# rye:signed:x\n", "#!/bin/sh\n"),
    ]
)
TEXTS = st.one_of(st.text(max_size=200), st.lists(PIECES, max_size=60).map("".join))

NAMES = st.from_regex(r"[A-Z][A-Z0-9_]{0,10}|__[a-z]{1,10}__", fullmatch=True)
SCALARS = (
    st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=20)
)


def headers(scalars: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    values = st.recursive(
        scalars,
        lambda inner: (
            st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
        ),
        max_leaves=12,
    )
    return st.dictionaries(NAMES, values, max_size=5)


HEADERS = headers(SCALARS | st.none())


@pytest.mark.parametrize("parser", list(PARSE_ANY))
@given(text=TEXTS)
def test_a_text_is_read_or_refused(parser: str, text: str) -> None:
    try:
        PARSE_ANY[parser](text)
        message = ""
    except MetadataError as error:
        message = str(error)

    assert "\n" not in message


@pytest.mark.parametrize("suffix", list(PARSERS))
@given(text=TEXTS)
def test_every_header_is_json(suffix: str, text: str) -> None:
    try:
        header = parse_header(suffix, text)
    except MetadataError:
        return

    assert json.loads(json.dumps(header, allow_nan=False)) == header


@given(header=HEADERS)
def test_a_python_header_reads_as_it_was_written(header: dict[str, Any]) -> None:
    text = "".join(f"{name} = {value!r}\n" for name, value in header.items())

    # A string in the first line would be the docstring.
    assert parse_header(".py", "import sys\n" + text) == header


@given(header=HEADERS)
def test_a_yaml_header_reads_as_it_was_written(header: dict[str, Any]) -> None:
    assert parse_header(".yaml", yaml.safe_dump(header)) == header


@given(header=HEADERS)
def test_a_json_header_reads_as_it_was_written(header: dict[str, Any]) -> None:
    assert parse_header(".json", json.dumps(header)) == header


@given(header=HEADERS, ascii_only=st.booleans(), end=st.sampled_from([";\n", "\n"]))
def test_a_javascript_header_reads_as_it_was_written(
    header: dict[str, Any], *, ascii_only: bool, end: str
) -> None:
    text = "".join(
        f"export const {name} = {json.dumps(value, ensure_ascii=ascii_only, indent=1)}{end}"
        for name, value in header.items()
    )

    assert parse_header(".js", text) == header


def toml(value: object) -> str:
    match value:
        case dict():
            return "{" + ", ".join(f"{toml(key)} = {toml(value[key])}" for key in value) + "}"
        case list():
            return "[" + ", ".join(toml(entry) for entry in value) + "]"
        case str():
            return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
        case _:
            return json.dumps(value)


@given(header=headers(SCALARS))
def test_a_toml_header_reads_as_it_was_written(header: dict[str, Any]) -> None:
    text = "".join(f"{name} = {toml(value)}\n" for name, value in header.items())

    assert parse_header(".toml", text) == header


SHELL_WORDS = st.text(st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="'"))


@given(
    header=st.dictionaries(
        st.from_regex(r"__[a-z]{1,10}__", fullmatch=True), SHELL_WORDS, max_size=5
    )
)
def test_a_shell_header_reads_as_it_was_written(header: dict[str, str]) -> None:
    text = "".join(f"{name}='{value}'\n" for name, value in header.items())

    assert parse_header(".sh", "# lines\nset -e\n" + text) == header


WORDS = st.text(st.sampled_from("aé<>&\"'{}$`-]!😀"), max_size=10)
INPUTS = st.builds(
    DirectiveInput,
    name=WORDS.map(lambda word: "n" + word),
    type=st.none() | WORDS,
    required=st.booleans(),
    default=st.none() | WORDS,
    description=WORDS,
)


def input_xml(declared: DirectiveInput) -> str:
    kind = "" if declared.type is None else f" type={quoteattr(declared.type)}"
    default = "" if declared.default is None else f" default={quoteattr(declared.default)}"
    return (
        f'<input name={quoteattr(declared.name)}{kind} required="{str(declared.required).lower()}"'
        f"{default}> {escape(declared.description)} </input>"
    )


@given(inputs=st.lists(INPUTS, unique_by=lambda declared: declared.name, max_size=4), body=WORDS)
def test_the_inputs_of_a_directive_read_as_they_were_written(
    inputs: list[DirectiveInput], body: str
) -> None:
    xml = "".join(input_xml(declared) for declared in inputs)

    found = parse_directive(
        f"```xml\n<directive><inputs>{xml}</inputs></directive>\n```\nx{body}\n"
    )

    assert (list(found.inputs), found.body) == (inputs, f"x{body}")


@given(inside=st.text(st.sampled_from("a<>&\"'/!-[]{}template \n"), max_size=40))
def test_an_opaque_element_holds_exactly_its_text(inside: str) -> None:
    found = parse_directive(
        "```xml\n<directive><metadata><note><template>(" + inside + ")</template></note>"
        "</metadata></directive>\n```\n"
    )

    assert found.extra == {"note": f"({inside})"}


@given(header=HEADERS, body=WORDS, fenced=st.booleans())
def test_knowledge_reads_as_it_was_written(
    header: dict[str, Any], body: str, *, fenced: bool
) -> None:
    metadata = yaml.safe_dump(header)
    opening, closing = ("```yaml", "```") if fenced else ("---", "---")

    found = parse_knowledge(f"{opening}\n{metadata}{closing}\n\nx{body}\n", ".md")

    assert found == Knowledge(header, f"x{body}")
