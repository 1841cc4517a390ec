"""Bodies of requests, by the media type that a config names. Pure. Page: ``docs/http.md``.

What a media type has no form for is an error: a text is no object, a form has no list in a list.
"""

import json
import re
from collections.abc import Mapping

from lillux.values import dataclass
from ryeos.items.errors import SpecError
from ryeos.items.specs import type_name
from ryeos.run.http_styles import (
    FORM,
    JSON,
    QUERY,
    SAY_ANOTHER,
    Style,
    joined_entries,
    style_of,
    wire_text,
)

FORM_TYPE = "application/x-www-form-urlencoded"
_TOKEN = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"  # noqa: S105 - the word of RFC 9110
_MEDIA_TYPE = re.compile(
    rf"({_TOKEN})/({_TOKEN})((?:[ \t]*;[ \t]*{_TOKEN}=(?:{_TOKEN}|\"[ !#-\[\]-~]*\"))*)"
)
_CHARSET = re.compile(rf";[ \t]*charset=\"?({_TOKEN})\"?", re.IGNORECASE)
# Ranges that a document may name, and what is sent for them.
_RANGES = {"*/*": "application/json", "application/*": "application/json", "text/*": "text/plain"}
_CODECS = {"utf-8": "utf-8", "us-ascii": "ascii", "iso-8859-1": "latin-1"}
TEXT = "text"


@dataclass(frozen=True, slots=True, kw_only=True)
class MediaType:
    """A media type whose bodies can be written.

    text     as it is sent
    form     JSON, FORM or TEXT: how a value is written
    charset  of a text; empty where it is not said
    """

    text: str
    form: str
    charset: str = ""


def media_type_of(text: object) -> MediaType | None:
    """A media type, if bodies of it can be written. Ranges stand for their most usual type."""
    if not isinstance(text, str):
        return None
    said = _RANGES.get(text.strip().lower(), text.strip())
    match = _MEDIA_TYPE.fullmatch(said)
    if not match:
        return None
    kind, found = f"{match[1]}/{match[2]}".lower(), _CHARSET.search(match[3])
    charset = found[1].lower() if found else ""
    if kind in {"application/json", "text/json"} or kind.endswith("+json"):
        form, is_known = JSON, charset in {"", "utf-8"}
    elif kind == FORM_TYPE:
        form, is_known = FORM, charset in {"", "utf-8"}
    else:
        form, is_known = TEXT, match[1].lower() == "text" and charset in {"", *_CODECS}
    return MediaType(text=said, form=form, charset=charset) if is_known else None


def written_body(value: object, said: object, styles: object) -> tuple[bytes, str]:
    """The bytes of a value in the media type of a config, and the Content-Type. Raises SpecError.

    ``styles`` are those of the members of a form, by their names.
    """
    kind = media_type_of(said)
    if kind is None:
        raise SpecError(
            "config.media_type",
            f"expected JSON, {FORM_TYPE} or a type of text, found {str(said)[:60]!r}",
        )
    if kind.form == JSON:
        return json_bytes(value), kind.text
    if kind.form == FORM:
        return _form(value, styles).encode("ascii"), kind.text
    return _text(value, kind)


def json_bytes(value: object) -> bytes:
    """A value as JSON; half a character of UTF-16, which UTF-8 has not, is escaped."""
    text = json.dumps(value, ensure_ascii=False, default=str, allow_nan=False)
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError:
        return json.dumps(value, default=str, allow_nan=False).encode("ascii")


def _form(value: object, styles: object) -> str:
    """The members of an object: plain ones and lists of them, an object only by a named style."""
    if not isinstance(value, dict):
        raise _unfit_body_error("body", f"expected an object for a form, found {type_name(value)}")
    if styles is not None and not isinstance(styles, Mapping):
        raise SpecError("config.body_styles", f"expected a mapping, got {type_name(styles)}")
    entries = []
    for name, one in value.items():
        style = style_of(styles, name, QUERY, name)
        if style is None:
            if isinstance(one, dict):
                raise _unfit_body_error(
                    f"body.{name}", "expected plain values, found an object: no style says its form"
                )
            style = Style(where=QUERY, style=FORM, explode=True, name=name)
        entries.append(style.entry(one))
    pairs = joined_entries(entries, [entry.name for entry in entries], "body")
    return "&".join(f"{name}={text}" for name, text in pairs)


def _text(value: object, kind: MediaType) -> tuple[bytes, str]:
    if value is None or isinstance(value, list | dict):
        raise _unfit_body_error(
            "body", f"expected a text for {kind.text}, found {type_name(value)}"
        )
    text = wire_text(value)
    # A type of text without a charset speaks of ASCII alone, whatever servers take it for.
    charset = kind.charset or ("us-ascii" if text.isascii() else "utf-8")
    content_type = kind.text if kind.charset or text.isascii() else f"{kind.text}; charset=utf-8"
    try:
        return text.encode(_CODECS[charset]), content_type
    except UnicodeEncodeError as error:
        found = ascii(error.object[error.start])
        raise _unfit_body_error(
            "body", f"expected characters of {charset}, found {found}"
        ) from None


def _unfit_body_error(where: str, problem: str) -> SpecError:
    """The error of a value that has no form."""
    return SpecError(where, problem, hint=SAY_ANOTHER)
