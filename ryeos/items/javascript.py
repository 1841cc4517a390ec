"""Headers of JavaScript and TypeScript files: constants, or the tags of a JSDoc comment."""

import re
from collections.abc import Iterator
from typing import Any

from ryeos.items.header_values import (
    TAGS,
    MetadataError,
    UnreadableValueError,
    line_of,
    require_parsable_text,
    shown,
)
from ryeos.items.javascript_tokens import END, NAME, JavaScriptTokens
from ryeos.items.javascript_values import RepeatedKeyError, read_literal

DECLARES = frozenset({"const", "let", "var"})
READ_NAME = re.compile(r"__\w+__|[A-Z][A-Z0-9_]*")
# Skipping this one would run the tool with unvalidated parameters.
_NEVER_SKIPPED = "CONFIG_SCHEMA"


def parse_javascript(text: str) -> dict[str, Any]:
    """The constants that a JavaScript or TypeScript file declares at its top level.

    Read are ``const``, ``let`` and ``var``, exported or not and with or without a type, of names
    like ``__version__`` and ``CONFIG_SCHEMA`` whose value is a literal; the rest is skipped. Tags
    of the first ``/** */`` comment above the code (``@version 1.0.0``) fill in what no constant
    says. Examples: docs/items.md.

    Raises MetadataError for a ``CONFIG_SCHEMA`` that is no literal, and for a comment, template or
    bracket that is never closed.
    """
    require_parsable_text("javascript", text)
    header: dict[str, Any] = {}
    tokens = JavaScriptTokens(text)
    for _, constant in declared_constants(tokens, text):
        header.update(constant)
    return _doc_comment_tags(tokens.doc_comment) | header


def declared_constants(tokens: JavaScriptTokens, text: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """The constants at the top level that are read, each with its position."""
    while tokens.current.kind != END:
        token = tokens.advance()
        if token.depth == 0 and token.kind == NAME and token.text in DECLARES:
            yield tokens.current.start, _declared_constant(tokens, text)


def _doc_comment_tags(comment: str) -> dict[str, Any]:
    return dict(filter(None, map(doc_comment_tag, comment.split("\n"))))


def doc_comment_tag(line: str) -> tuple[str, str] | None:
    """The tag that a line of the comment declares, under the name of its constant."""
    tag, *rest = line.strip().lstrip("*").split(maxsplit=1) or [""]
    if rest and tag.startswith("@") and tag[1:] in TAGS:
        return TAGS[tag[1:]], rest[0]
    return None


def _declared_constant(tokens: JavaScriptTokens, text: str) -> dict[str, Any]:
    """The constant declared here, by name; nothing when its name or value is of another kind."""
    token = tokens.current
    name = token.text
    if token.kind != NAME or not READ_NAME.fullmatch(name):
        return {}
    tokens.advance()
    try:
        _skip_to_value(tokens)
        value = read_literal(tokens)
        _require_end(tokens)
    except UnreadableValueError as error:
        is_twice = isinstance(error, RepeatedKeyError)
        if name != _NEVER_SKIPPED and not (is_twice and is_field(name)):
            return {}
        hint = f"write {name} as one literal, without calls, variables or spreads"
        raise MetadataError(
            "javascript",
            f"{name}: {error.problem}",
            line_of(text, token.start if error.position is None else error.position),
            hint="remove one, the last would count" if is_twice else hint,
        ) from error
    return {name: value}


def is_field(name: str) -> bool:
    """True if a name is one that a header's field may have."""
    from ryeos.items.specs import SPELLINGS

    return any(name in spellings for spellings in SPELLINGS.values())


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
