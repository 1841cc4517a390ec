"""JSON values as YAML that a person can read and every YAML reader understands alike. Pure."""

import json
import re
from collections.abc import Iterator, Mapping

_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
# What YAML 1.1 reads as something else than text.
_WORDS = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null"})
_ESCAPED = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff\ud800-\udfff]")


def yaml_text(values: Mapping[str, object]) -> str:
    """A block mapping, one key a line; texts in double quotes, lists on one line.

    Raises ValueError for what is no JSON.
    """
    return "".join(f"{line}\n" for line in _lines(values, ""))


def _lines(values: Mapping[str, object], indent: str) -> Iterator[str]:
    for name, value in values.items():
        if isinstance(value, Mapping) and value:
            yield f"{indent}{_key(name)}:"
            yield from _lines(value, f"{indent}  ")
        else:
            yield f"{indent}{_key(name)}: {_flow(value)}"


def _key(name: object) -> str:
    if not isinstance(name, str):
        raise ValueError(f"expected text as a key, found {type(name).__name__}")  # noqa: TRY004
    is_plain = _PLAIN_KEY.fullmatch(name) and name.lower() not in _WORDS
    return name if is_plain else _quoted(name)


def _flow(value: object) -> str:
    match value:
        case str():
            return _quoted(value)
        case Mapping():
            return f"{{{', '.join(f'{_key(n)}: {_flow(v)}' for n, v in value.items())}}}"
        case list():
            return f"[{', '.join(map(_flow, value))}]"
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
