"""TOML files: tools and configuration, and the documents of public keys."""

import re
from collections.abc import Iterator
from typing import Any

from lillux.patterns import pattern
from ryeos.items.header_values import (
    MAX_DEPTH,
    MetadataError,
    UnreadableValueError,
    line_of,
    plain_value,
    require_parsable_text,
)


def parse_toml(text: str) -> dict[str, Any]:
    """The table that a TOML text holds (TOML 1.0); dates and times are their RFC 3339 text.

    Raises MetadataError.
    """
    import tomllib

    require_parsable_text("toml", text)
    _validate_dotted_keys(text)
    try:
        table = tomllib.loads(text)
        return {key: plain_value(value) for key, value in table.items()}
    except RecursionError as error:
        raise MetadataError(
            "toml", f"expected at most {MAX_DEPTH} levels of nesting, found more"
        ) from error
    except UnreadableValueError as error:
        raise MetadataError("toml", error.problem) from error
    except ValueError as error:
        raise _foreign_error(str(error)) from error


# Strings and comments, each closed by the end of its line or text at the latest, so that no
# character is looked at twice.
_QUOTED = pattern(
    r'''
    """ [^"\\]* (?: (?:\\.|"{1,2}(?!")) [^"\\]* )* (?: """ | \\?\Z )
  | " [^"\\\n]* (?:\\.[^"\\\n]*)* "?
  | '''
    r"""
    ''' .*? (?: ''' | \Z )
  | ' [^'\n]* '?
  | \# [^\n]*
    """,
    re.DOTALL | re.VERBOSE,
)


def toml_comments(text: str) -> Iterator[tuple[int, str]]:
    """The comments of a TOML text, each with its line."""
    for found in _QUOTED.finditer(text):
        if found[0].startswith("#"):
            yield line_of(text, found.start()), found[0][1:]


_PLACE = pattern(r" \(at line ([0-9]+), column [0-9]+\)$")
_DOTTED = pattern(r"[\w-]+(?:[ \t]*\.[ \t]*[\w-]+)*")


def _validate_dotted_keys(text: str) -> None:
    """Refuse keys of very many parts, on which the standard library spends quadratic time."""

    def blank(quoted: re.Match[str]) -> str:
        return "q" + "\n" * quoted[0].count("\n")

    bare = _QUOTED.sub(blank, text)
    for dotted in _DOTTED.finditer(bare):
        parts = dotted[0].count(".") + 1
        if parts > MAX_DEPTH:
            raise MetadataError(
                "toml",
                f"expected a key of at most {MAX_DEPTH} parts, found {parts}",
                line_of(bare, dotted.start()),
            )


def _foreign_error(words: str) -> MetadataError:
    place = _PLACE.search(words)
    problem = words[: place.start()] if place else words
    problem = f"expected TOML: {problem[:1].lower()}{problem[1:200]}"
    return MetadataError("toml", problem, int(place[1]) if place else None)
