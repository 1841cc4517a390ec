"""Headers of JavaScript and TypeScript files: constants, or the tags of a JSDoc comment."""

import re
from typing import Any

from ryeos.metadata.errors import MetadataError, line_of, shown
from ryeos.metadata.header_tags import tagged
from ryeos.metadata.javascript_tokens import END, NAME, NUMBER, STRING, TEMPLATE, JavaScriptTokens
from ryeos.metadata.values import (
    MAX_DEPTH,
    PlainValue,
    UnreadableValueError,
    check_header_text,
    plain_value,
)

_SCHEMA = "CONFIG_SCHEMA"
_CONSTANTS = frozenset(
    {_SCHEMA, "ENV_CONFIG", "CONFIG", "CONFIG_RESOLVE", "INPUTS", "OUTPUTS", "CHILD_CONSTRAINTS"}
)
_DUNDER = re.compile(r"__\w+__")
_DECLARES = frozenset({"const", "let", "var"})
