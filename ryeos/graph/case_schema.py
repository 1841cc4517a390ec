"""The JSON Schema of a file of cases, ``NAME.test.yaml``.

`ryeos.app.case_files` reads no other.
"""

from typing import Any

from ryeos.graph.schema_parts import (
    DRAFT,
    Schema,
    anything,
    closed,
    mapping,
    number,
    prose,
    text,
    text_or_texts,
    truth,
    without_null,
    word,
)

MAX_CASES, MAX_FILES, MAX_TEST_SECONDS = 500, 200, 3600
MAX_REPLIES, MAX_CALLS_OF_A_REPLY = 200, 50
STATUSES = ("success", "error")

_PATHS: Schema = {"minLength": 1, "maxLength": 500}
_TEXTS_IN: Schema = {
    "contains": text_or_texts("Text that is there, or several of them."),
    "matches": text_or_texts("A regular expression that is found there, or several of them."),
}
_FILE: Schema = {
    "description": "Its whole text; null where it must not be; else what is in it.",
    "anyOf": [
        {"type": ["string", "null"]},
        {"type": "object", **closed(_TEXTS_IN), "minProperties": 1},
    ],
}
_EXPECT = mapping(
    "What is to come of it; a success where nothing is said.",
    **closed(
        {
            "status": word("error where an error or a code is expected.", STATUSES),
            "data": anything("Of the result; of mappings the keys that stand here."),
            "equals": anything("The whole result."),
            **_TEXTS_IN,
            "error": text_or_texts("Text in the error, or several of them."),
            "code": text("The code of the error, like VALIDATION_FAILED."),
            "stdout": prose(
                "Standard output of a tool that gives text, less line ends at its end."
            ),
            "stderr": text_or_texts("Text on the standard error of such a tool."),
            "files": mapping(
                "Paths in the project afterwards, and what is in them.",
                propertyNames=_PATHS,
                maxProperties=MAX_FILES,
                additionalProperties=_FILE,
            ),
        }
    ),
)
_REPLY: Schema = {
    "description": "A text, or the calls that the model wants, or the outputs that it gives.",
    "type": ["string", "object"],
    "minProperties": 1,
    **closed(
        {
            "text": text("What it says."),
            "calls": {
                "type": "array",
                "maxItems": MAX_CALLS_OF_A_REPLY,
                "description": "Items that it calls, whether they are permitted or not.",
                "items": {
                    "type": "object",
                    **closed(
                        {
                            "item": without_null(text("The item, like tool:rye/bash/bash.")),
                            "params": mapping("Its parameters."),
                        },
                        ["item"],
                    ),
                },
            },
            "return": mapping("The outputs that it ends with."),
        }
    ),
}
_CASE: Schema = {
    "type": "object",
    **closed(
        {
            "name": without_null(text("What is true then; no other case of the file has it.")),
            "params": mapping("The parameters."),
            "files": mapping(
                "Files that the project has before, by their path.",
                propertyNames=_PATHS,
                maxProperties=MAX_FILES,
                additionalProperties={"type": "string"},
            ),
            "env": mapping("Variables of the tool.", additionalProperties={"type": "string"}),
            "expect": _EXPECT,
            "timeout": number(
                "Seconds, 60 unless said.", exclusiveMinimum=0, maximum=MAX_TEST_SECONDS
            ),
            "skip_unless": text_or_texts("A program, or several, without which it is left out."),
            "in_project": truth("Run in the project itself, not in a copy.", default=False),
            "replies": {
                "type": "array",
                "minItems": 1,
                "maxItems": MAX_REPLIES,
                "items": _REPLY,
                "description": "Of a directive: what the model says, one reply for each turn.",
            },
        },
        ["name"],
    ),
}

TEST_SCHEMA: dict[str, Any] = {
    "$schema": DRAFT,
    "title": "Rye test",
    "description": "Cases of a tool or directive: what goes in, and what must come out.",
    "type": "object",
    **closed(
        {
            "version": anything("The version of this file, like 1.0.0."),
            "tool_type": {"const": "test", "description": "test"},
            "executor_id": {"const": None, "description": "null: rye test runs it."},
            "category": anything("The folder below tools/."),
            "description": anything("What is tested."),
            "tests": text("The tool, or directive:ID; the tool beside this file unless said."),
            "cases": {
                "type": "array",
                "minItems": 1,
                "maxItems": MAX_CASES,
                "items": _CASE,
                "description": "What is tried, each case by itself.",
            },
        },
        ["tool_type", "executor_id", "cases"],
    ),
}
