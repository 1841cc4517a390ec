"""Shapes that the fields of objects have, and errors about them. Pure."""

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Protocol, TypeVar

from lillux.fields import is_mapping, is_text
from lillux.shapes import LEFT_OUT, OTHERS, Form, Wrong, read, write
from lillux.store_layout import are_digests, is_digest
from ryeos.items.errors import RyeError


class CasObjectError(RyeError):
    """An object has another shape than its kind. ``where`` names it, like ``manifest 1f..``."""

    code = "CAS_OBJECT_INVALID"

    def __init__(self, where: str, problem: str) -> None:
        self.where, self.problem = where, problem
        super().__init__(
            f"{where}: {problem}", hint="it was stored wrong; push again from where it was written"
        )


class EntryError(RyeError):
    """An entry of a transfer that is not what it says. ``digest`` is ``unknown`` for none."""

    code = "CAS_ENTRY_INVALID"

    def __init__(self, digest: str, problem: str) -> None:
        self.digest, self.problem = digest, problem
        super().__init__(
            f"entry {digest[:80]}: {problem}", hint="it was changed on its way; send it again"
        )


SCHEMA = 2
"""Of every object; another number is another format."""

MakeError = Callable[[str, str, str, str], RyeError]
"""Of an object, a key in it, what was expected there and what was found: what is raised."""

_HEADER = frozenset({"schema", "kind"})
ROOT = "(root)"
"""The key of an object as a whole."""


def object_error(where: str, key: str, expected: str, there: str) -> CasObjectError:
    """An object that travels has a wrong value."""
    at = "" if key == ROOT else f"{key}: "
    return CasObjectError(where, f"{at}expected {expected}, found {there}")


class _Kinded(Protocol):
    """A shape that is the shape of an object."""

    kind: str


_Shape = TypeVar("_Shape", bound=_Kinded)


def require_object(
    value: object, kind: str, where: str, make_error: MakeError = object_error
) -> dict[str, Any]:
    """The object, if it is of that kind and of `SCHEMA`. Raises what ``make_error`` makes."""
    if not isinstance(value, dict):
        raise make_error(where, ROOT, "an object", found(value))
    if value.get("kind") != kind:
        raise make_error(where, "kind", f'"{kind}"', found(value.get("kind")))
    schema = value.get("schema")
    if schema != SCHEMA or not isinstance(schema, int):  # 2.0 is no 2
        raise make_error(where, "schema", str(SCHEMA), found(schema))
    return value


def read_object(
    shape: type[_Shape], value: object, where: str, make_error: MakeError = object_error
) -> _Shape:
    """The value in an object of the ``kind`` of a shape. Raises what ``make_error`` makes."""

    def wrong(key: str, expected: str, value: object) -> RyeError:
        return make_error(where, key, expected, found(value))

    document = require_object(value, shape.kind, where, make_error)
    return read(shape, {key: one for key, one in document.items() if key not in _HEADER}, wrong)


def write_object(value: _Kinded) -> dict[str, Any]:
    """The object of a value."""
    return {"schema": SCHEMA, "kind": value.kind, **write(value)}


def _is_list_of(fits: Callable[[object], object]) -> Callable[[object], bool]:
    return lambda value: isinstance(value, list) and all(map(fits, value))


def _is_texts(value: object) -> bool:
    return value is None or (isinstance(value, dict) and all(map(is_text, value.values())))


def _paths(paths: Mapping[str, Any], key: str, wrong: Wrong) -> Mapping[str, str]:
    """The paths are not judged here."""
    if not are_digests(paths.values()):  # of all at once: they are many
        for path, digest in paths.items():
            if not is_digest(digest):
                raise wrong(f"{key}[{path[:200]!r}]", "a digest", digest)
    return paths


def _copied(value: Mapping[str, Any]) -> dict[str, Any]:
    return dict(value)


Digest = Annotated[str, Form("a digest", is_digest)]
DigestOrNone = Annotated[str | None, Form("a digest", is_digest, is_blank_absent=True)]
_OR_BLANK = Form(
    "a digest", is_digest, absent="", is_blank_absent=True, written=lambda value: value or ""
)
DigestOrBlank = Annotated[str, _OR_BLANK]
"""A digest, ``""`` for none."""

DigestWrittenBlank = Annotated[str | None, _OR_BLANK]
"""A digest, or None, which is written as ``""``."""

Digests = Annotated[
    tuple[str, ...],
    Form(
        "a list of digests", _is_list_of(is_digest), make=lambda one, *_: tuple(one), written=list
    ),
]
Paths = Annotated[Mapping[str, str], Form("an object", is_mapping, make=_paths, written=_copied)]
"""Digests by path."""

Text = Annotated[str, Form("a string", is_text, absent="")]
"""A text, ``""`` where it is absent."""

SomeText = Annotated[str, Form("a string", lambda value: isinstance(value, str) and value)]
Texts = Annotated[
    Mapping[str, str] | None,
    Form(
        "an object of strings, or null",
        _is_texts,
        written=lambda value: None if value is None else dict(value),
    ),
]
Size = Annotated[int, Form("a whole number from 0", lambda n: type(n) is int and n >= 0, absent=0)]
Errors = Annotated[
    tuple[Mapping[str, Any], ...],
    Form(
        "a list of objects",
        _is_list_of(is_mapping),
        make=lambda value, *_: tuple(value),
        written=lambda errors: [dict(one) for one in errors],
    ),
    LEFT_OUT,
]
Others = Annotated[Mapping[str, Any], OTHERS]


def found(value: object) -> str:
    """A value in the words of a message, cut short."""
    match value:
        case None:
            return "nothing"
        case str():
            return repr(value[:80])
        case bool() | int() | float():
            return repr(value)[:80]
        case _:
            return {"dict": "an object", "list": "a list"}.get(type(value).__name__, "something")
