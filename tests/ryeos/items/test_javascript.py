import pytest

from ryeos.items.header_values import MetadataError
from ryeos.items.javascript import parse_javascript

JSDOC = """\
/**
 * @version 1.0.0
 * @tool_type javascript
 * @executor_id rye/core/runtimes/node/node
 * @category rye/core/runtimes/node
 * @description Tool description
 * @returns nothing of interest
 */
"""


def schema(literal: str) -> object:
    return parse_javascript(f"const CONFIG_SCHEMA = {literal}")["CONFIG_SCHEMA"]


@pytest.mark.parametrize(
    "declaration",
    [
        'const __version__ = "1.0.0";',
        "export const __version__ = '1.0.0'",
        "let __version__ = `1.0.0`;",
        'export var __version__: string = "1.0.0" as const;',
        'const __version__ = "1.0.0" satisfies Version',
        'const __version__ = "1.0.0", other = f();',
        '#!/usr/bin/env node\n// rye:signed:x\n"use strict";\nconst __version__ = "1.0.0"\nf()',
        'function f() { const __version__ = "2" }\nconst __version__ = "1.0.0"',
        'if (a) { let __version__ = "2" } const __version__ = /* 3 */ "1.0.0" // 4',
        'const re = /["\'`{]/.test(a) / b / c; const __version__ = "1.0.0";',
        'const t = `const __version__ = "2" ${ {a: `}`} }{`\nconst __version__ = "1.0.0"',
        '/* const __version__ = "2" */ const __version__ = "1.0.0"',
        'const x = a++ / 2, y = "{" / 1; const __version__ = "1.0.0"',
    ],
)
def test_a_constant_is_read_however_it_is_declared(declaration: str) -> None:
    assert parse_javascript(declaration)["__version__"] == "1.0.0"


def test_null_is_a_value_and_a_missing_name_is_not() -> None:
    assert parse_javascript("export const __executor_id__ = null;") == {"__executor_id__": None}


@pytest.mark.parametrize(
    "statement",
    [
        "const __version__ = version();",
        'const __version__ = "1" + ".0";',
        'const __version__ = "1"\n  .concat("0");',
        "const __version__ = `${a}`;",
        "const __version__ = undefined;",
        "const __version__;",
        "const CONFIG = load();",
        "const CONFIG = { ...base };",
        "const CONFIG = { f() { return 1 } };",
        "const CONFIG = { a };",
        "const CONFIG = { [a]: 1 };",
        "const CONFIG = [1, , 2];",
        'const { CONFIG } = require("x");',
        "const config = {};",
        "exports.CONFIG = {};",
        "x.const = 1; f(function () { const CONFIG = {} });",
        'const CONFIG = "\\ud800";',
        'const CONFIG = "\\u{110000}";',
        'const CONFIG = "\\012";',
        "const CONFIG = {`a`: 1};",
        "const CONFIG = 1n;",
        "const CONFIG = 1e999;",
    ],
)
def test_all_other_code_is_skipped(statement: str) -> None:
    assert parse_javascript(statement) == {}


def test_objects_are_read_tolerantly_and_strings_in_them_exactly() -> None:
    value = schema(
        """{
          // "comment": 1,
          type: 'object', /* {[ */ "a-b": [1, -2.5, 0x1F, 1_000, .5, 1e3,],
          'it\\'s': "// not a comment, and no 'quotes' {a: 1},]",
          $ref: `multi
line`, 200: true, nested: {deep: {er: null,},},
          escapes: "\\n\\x41\\u0042\\u{1F600}\\ud83d\\ude00\\q\\0\\
joined",
        }"""
    )

    assert value == {
        "type": "object",
        "a-b": [1, -2.5, 31, 1000, 0.5, 1000.0],
        "it's": "// not a comment, and no 'quotes' {a: 1},]",
        "$ref": "multi\nline",
        "200": True,
        "nested": {"deep": {"er": None}},
        "escapes": "\nAB😀😀q\0joined",
    }


def test_a_type_may_hold_arrows_and_brackets() -> None:
    header = parse_javascript('const CONFIG: { f: (a: b) => c; g?: d[] } = { command: "x" };')

    assert header == {"CONFIG": {"command": "x"}}


def test_as_const_may_stand_behind_a_part() -> None:
    assert schema('{ type: "object" as const, required: ["a"] as const }') == {
        "type": "object",
        "required": ["a"],
    }


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("const CONFIG_SCHEMA = mk();", "line 1: CONFIG_SCHEMA: expected a literal, found 'mk'"),
        (
            "\nconst CONFIG_SCHEMA = {\n  ...base,\n};",
            "line 3: CONFIG_SCHEMA: expected a key, found '.'",
        ),
        (
            "const CONFIG_SCHEMA = {a}",
            "line 1: CONFIG_SCHEMA: expected a colon after the key 'a', found '}'",
        ),
        (
            "const CONFIG_SCHEMA = {a: 1 b: 2}",
            "line 1: CONFIG_SCHEMA: expected a comma or }, found 'b'",
        ),
        (
            "const CONFIG_SCHEMA = [1 2]",
            "line 1: CONFIG_SCHEMA: expected a comma or ], found '2'",
        ),
        (
            "let CONFIG_SCHEMA;",
            "line 1: CONFIG_SCHEMA: expected = and a literal, found ';'",
        ),
        (
            "const CONFIG_SCHEMA = {} + 1",
            "line 1: CONFIG_SCHEMA: expected one literal, found '+' after it",
        ),
        (
            "const CONFIG_SCHEMA = {} as Schema",
            "line 1: CONFIG_SCHEMA: expected as const, found 'as'",
        ),
        (
            "const CONFIG_SCHEMA = 010",
            "line 1: CONFIG_SCHEMA: expected a number of at most 300 digits, found '010'",
        ),
        (
            "const CONFIG_SCHEMA = '\\x'",
            "line 1: CONFIG_SCHEMA: expected escapes of Unicode characters, found \"'\\\\x'\"",
        ),
        (
            "const CONFIG_SCHEMA =",
            "line 1: CONFIG_SCHEMA: expected a literal, found the end of the file",
        ),
        (
            "const CONFIG_SCHEMA = 'open\n",
            'line 1: CONFIG_SCHEMA: expected a literal, found "\'open"',
        ),
        (
            "const CONFIG_SCHEMA = " + "[" * 65 + "]" * 65,
            "line 1: CONFIG_SCHEMA: expected at most 64 levels of nesting, found more",
        ),
    ],
)
def test_a_schema_that_cannot_be_read_is_an_error_that_names_it(text: str, problem: str) -> None:
    with pytest.raises(MetadataError) as error:
        parse_javascript(text)

    assert str(error.value) == f"javascript header, {problem}"
    assert error.value.hint == (
        "write CONFIG_SCHEMA as one literal, without calls, variables or spreads"
    )


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a\n/* b", "line 2: expected */ to close /*, found the end of the file"),
        ("a\n`b", "line 2: expected ` to close `, found the end of the file"),
        ("`${a\n", "line 1: expected } to close ${, found the end of the file"),
        ("f(\n{\n", "line 2: expected } to close {, found the end of the file"),
    ],
)
def test_an_unclosed_text_could_hide_a_constant_and_is_an_error(text: str, problem: str) -> None:
    with pytest.raises(MetadataError) as error:
        parse_javascript(text)

    assert str(error.value) == f"javascript header, {problem}"


def test_tags_of_the_first_doc_comment_are_read() -> None:
    header = parse_javascript(JSDOC + "\nfunction execute(params) { return params }\n")

    assert header == {
        "__version__": "1.0.0",
        "__tool_type__": "javascript",
        "__executor_id__": "rye/core/runtimes/node/node",
        "__category__": "rye/core/runtimes/node",
        "__tool_description__": "Tool description",
    }


def test_a_constant_counts_more_than_a_tag() -> None:
    header = parse_javascript(JSDOC + 'export const __version__ = "2.0.0";')

    assert (header["__version__"], header["__tool_type__"]) == ("2.0.0", "javascript")


@pytest.mark.parametrize(
    "above",
    ["#!/usr/bin/env node\n", "// rye:signed:x\n", "/* license */\n/**/\n", "'use strict';\n\n"],
)
def test_other_comments_may_stand_above_the_doc_comment(above: str) -> None:
    assert parse_javascript(above + JSDOC)["__version__"] == "1.0.0"


@pytest.mark.parametrize("above", ["f();\n", "/** other */\n", "import a from 'b'\n"])
def test_a_doc_comment_below_code_or_another_one_is_ignored(above: str) -> None:
    assert parse_javascript(above + JSDOC) == {}
