"""Headers of JavaScript and TypeScript files: constants, or the tags of a JSDoc comment."""

import re
from typing import Any

from ryeos.metadata.errors import MetadataError, line_of, shown
from ryeos.metadata.header_tags import TAGS
from ryeos.metadata.javascript_tokens import END, NAME, JavaScriptTokens
from ryeos.metadata.javascript_values import read_literal
from ryeos.metadata.values import UnreadableValueError, check_header_text

_DECLARES = frozenset({"const", "let", "var"})
_READ_NAME = re.compile(r"__\w+__|[A-Z][A-Z0-9_]*")
# Skipping this one would run the tool with parameters that nobody checked.
_NEVER_SKIPPED = "CONFIG_SCHEMA"


def parse_javascript(text: str) -> dict[str, Any]:
    """The constants that a JavaScript or TypeScript file declares at its top level.

    Read are ``const``, ``let`` and ``var``, exported or not and with or without a type, of names
    like ``__version__`` and ``CONFIG_SCHEMA`` whose value is a literal; the rest is skipped. Tags
    of the first ``/** */`` comment above the code (``@version 1.0.0``) fill in what no constant
    says. Examples: docs/metadata.md.

    Raises MetadataError for a ``CONFIG_SCHEMA`` that is no literal, and for a comment, template or
    bracket that is never closed.
    """
    check_header_text("javascript", text)
    header: dict[str, Any] = {}
    tokens = JavaScriptTokens(text)
    while tokens.current.kind != END:
        token = tokens.advance()
        if token.depth == 0 and token.kind == NAME and token.text in _DECLARES:
            header.update(_declared(tokens, text))
    return _doc_comment_tags(tokens.doc_comment) | header


def _doc_comment_tags(comment: str) -> dict[str, Any]:
    tags: dict[str, Any] = {}
    for line in comment.split("\n"):
        tag, *rest = line.strip().lstrip("*").split(maxsplit=1) or [""]
        if rest and tag.startswith("@") and tag[1:] in TAGS:
            tags[TAGS[tag[1:]]] = rest[0]
    return tags


def _declared(tokens: JavaScriptTokens, text: str) -> dict[str, Any]:
    """The constant declared here, by name; nothing when its name or value is of another kind."""
    token = tokens.current
    name = token.text
    if token.kind != NAME or not _READ_NAME.fullmatch(name):
        return {}
    tokens.advance()
    try:
        _skip_to_value(tokens)
        value = read_literal(tokens)
        _require_end(tokens)
    except UnreadableValueError as error:
        if name != _NEVER_SKIPPED:
            return {}
        position = token.start if error.position is None else error.position
        raise MetadataError(
            "javascript",
            f"{name}: {error.problem}",
            line_of(text, position),
            hint=f"write {name} as one literal, without calls, variables or spreads",
        ) from error
    return {name: value}


def _skip_to_value(tokens: JavaScriptTokens) -> None:
    """Step over a TypeScript annotation and the equals sign."""
    if tokens.current.text == ":":
        while tokens.current.kind != END and (
            tokens.current.depth > 0 or tokens.current.text not in {"=", ";"}
        ):
            tokens.advance()
    if tokens.current.text != "=":
        raise UnreadableValueError(
            f"expected = and a literal, found {shown(tokens.current.text)}", tokens.current.start
        )
    tokens.advance()


def _require_end(tokens: JavaScriptTokens) -> None:
    """Refuse a literal that is only the beginning of an expression, like ``"a" + b``."""
    token = tokens.current
    if token.kind == END or token.text in {";", ","} or token.text == "satisfies":
        return
    if token.on_new_line and token.kind != "mark":
        return
    raise UnreadableValueError(
        f"expected one literal, found {shown(token.text)} after it", token.start
    )
