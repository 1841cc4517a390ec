"""JSON values as YAML text that a person can read and every YAML reader understands alike. Pure.

A file of its own, imported late: no run writes YAML.
"""

import json
import re
from collections.abc import Iterator, Mapping

from lillux.patterns import pattern

WORDS = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null"})

_PLAIN_KEY = pattern(r"[A-Za-z_][A-Za-z0-9_-]*")
# What YAML 1.1 reads as something else than text.
_ESCAPED = pattern("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff\ud800-\udfff]")


def yaml_text(values: Mapping[str, object]) -> str:
    """A block mapping, one key a line; texts in double quotes, lists on one line.

    Raises ValueError for what is no JSON.
    """
    return "".join(f"{line}\n" for line in block_lines(values, ""))


def block_lines(values: Mapping[str, object], indent: str) -> Iterator[str]:
    """The lines of a mapping, a key on each. Raises ValueError for what is no JSON."""
    for name, value in values.items():
        if isinstance(value, Mapping) and value:
            yield f"{indent}{_key(name)}:"
            yield from block_lines(value, f"{indent}  ")
        else:
            yield f"{indent}{_key(name)}: {_flow_text(value)}"


def _key(name: object) -> str:
    if not isinstance(name, str):
        raise ValueError(f"expected text as a key, found {type(name).__name__}")  # noqa: TRY004
    is_plain = _PLAIN_KEY.fullmatch(name) and name.lower() not in WORDS
    return name if is_plain else _quoted(name)


def _flow_text(value: object) -> str:
    """A value on one line. Raises ValueError for what is no JSON."""
    match value:
        case str():
            return _quoted(value)
        case Mapping():
            return f"{{{', '.join(f'{_key(n)}: {_flow_text(v)}' for n, v in value.items())}}}"
        case list():
            return f"[{', '.join(map(_flow_text, value))}]"
        case float():
            text = json.dumps(value, allow_nan=False)
            # Without a point YAML 1.1 takes 1e-07 for text.
            return text if "." in text or "e" not in text else text.replace("e", ".0e")
        case None | bool() | int():
            return json.dumps(value)
    raise ValueError(f"expected a value of JSON, found {type(value).__name__}")


def _quoted(text: str) -> str:
    return _ESCAPED.sub(_escape, json.dumps(text, ensure_ascii=False))


def _escape(found: re.Match[str]) -> str:
    code = ord(found[0])
    is_half = 0xD800 <= code <= 0xDFFF  # noqa: PLR2004 - of a pair, which no text can hold
    return "\N{REPLACEMENT CHARACTER}" if is_half else f"\\u{code:04x}"
