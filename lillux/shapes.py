"""Shapes: a format is a value class, and the names of its fields are written there alone.

The annotation of a field says which JSON it takes, its default that the key may be absent. What a
plain type does not say stands beside it: ``Digest = Annotated[str, Form("a digest", is_digest)]``.
From the class come the reader (`read`), the writer (`write`) and the JSON Schema (`schema`), which
is that of OpenAPI 3.1. A class is looked at when it is first used: at import nothing is done.

Readers ask for the fields in the order of the class, and stop at the first wrong value: what is
raised is made of its place (``files['a.py'].size``), of what was expected, and of the value.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from lillux.fields import ABSENT, is_flag, is_mapping, is_number, is_sequence, is_text
from lillux.values import dataclass, default_makers, field, replace

_T = TypeVar("_T")

Wrong = Callable[[str, str, Any], Exception]
"""Makes what is raised: of a place, what was expected there, and the value (None where absent)."""

Json = Any
"""JSON passes through."""


@dataclass(frozen=True, slots=True)
class Form:
    """A kind of JSON value.

    expected      the words of messages for it
    fits          whether a value is one
    described     its JSON Schema
    make          makes the value of the field of one that fits; raises what the reader gets
    written       makes the JSON of the value of a field
    missing       the words where a required one is absent, if they are others
    absent        what a key that is absent is read as, where the field has no default
    is_blank_absent  whether null and ``""`` stand for a key that is absent
    parts         the shapes that its schema refers to
    """

    expected: str
    fits: Callable[[Any], object]
    described: Mapping[str, Any] = field(default_factory=dict, compare=False)
    make: Callable[[Any, str, Wrong], Any] | None = None
    written: Callable[[Any], Json] | None = None
    missing: str = ""
    absent: Any = ABSENT
    is_blank_absent: bool = False
    parts: tuple[type, ...] = ()

    def read(self, value: Json, place: str, wrong: Wrong) -> Any:  # noqa: ANN401 - of any type
        """The value of a field. Raises what ``wrong`` makes."""
        if not self.fits(value):
            raise wrong(place, self.expected, value)
        return value if self.make is None else self.make(value, place, wrong)


@dataclass(frozen=True, slots=True)
class Key:
    """The key of a field in the document, where it is not called so; beside the type."""

    name: str


@dataclass(frozen=True, slots=True)
class Mark:
    """What else is said of a field, beside its type."""

    name: str


LEFT_OUT = Mark("left out")
"""The key is not written where the value is the default."""

REQUIRED = Mark("required")
"""The key has to be in the document, though the field has a default."""

FLAT = Mark("flat")
"""The type is a shape whose keys stand in the same document."""

OTHERS = Mark("others")
"""The field holds all keys that no field is for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A field of a shape.

    default  makes the default; None for a field without one
    """

    name: str
    key: str
    form: Form
    default: Callable[[], Any] | None
    is_required: bool
    is_left_out: bool
    is_others: bool
    flat: type | None


_MEMBERS: dict[type, tuple[Member, ...]] = {}


def members(shape: type) -> tuple[Member, ...]:
    """The fields of a value class, in its order."""
    known = _MEMBERS.get(shape)
    if known is None:
        makers = default_makers(shape)
        hints = get_type_hints(shape, include_extras=True)
        known = tuple(_member(name, hints[name], default) for name, default in makers.items())
        _MEMBERS[shape] = known
    return known


def _member(name: str, hint: object, default: Callable[[], Any] | None) -> Member:
    kind, *extras = get_args(hint) if get_origin(hint) is Annotated else (hint,)
    form = form_of(hint)
    return Member(
        name=name,
        key=next((one.name for one in extras if isinstance(one, Key)), name),
        form=form,
        default=default,
        is_required=REQUIRED in extras or (default is None and form.absent is ABSENT),
        is_left_out=LEFT_OUT in extras,
        is_others=OTHERS in extras,
        flat=kind if FLAT in extras else None,
    )


def read(shape: type[_T], value: Mapping[str, Any], wrong: Wrong, place: str = "") -> _T:
    """The value in a document. ``place`` is where it stands, ``""`` for all of it.

    Raises what ``wrong`` makes.
    """
    made: dict[str, Any] = {}
    for one in members(shape):
        form, where = one.form, f"{place}.{one.key}" if place else one.key
        found = value.get(one.key, ABSENT)
        if form.is_blank_absent and (found is None or found == ""):
            found = ABSENT
        if one.flat:
            made[one.name] = read(one.flat, value, wrong, place)
        elif one.is_others:
            known = {member.key for member in members(shape)}
            made[one.name] = {key: other for key, other in value.items() if key not in known}
        elif found is not ABSENT:
            made[one.name] = form.read(found, where, wrong)
        elif one.is_required:
            raise wrong(where, form.missing or form.expected, None)
        elif one.default is None:
            made[one.name] = form.absent
    return shape(**made)


def write(value: object) -> dict[str, Any]:
    """The document of a value."""
    written: dict[str, Any] = {}
    for one in members(type(value)):
        found = getattr(value, one.name)
        if one.flat:
            written |= write(found)
        elif one.is_others:
            written = {**found, **written}
        elif not (one.is_left_out and one.default and found == one.default()):
            written[one.key] = found if one.form.written is None else one.form.written(found)
    return written


def of_values(shape: type[_T], values: Mapping[str, Any]) -> _T:
    """The value whose fields are found by their names in a mapping, like a row, as they are."""
    return of_each(shape, values.__getitem__)


def of_attributes(shape: type[_T], source: object) -> _T:
    """The value whose fields are found as attributes of a larger one, as they are."""
    return of_each(shape, partial(getattr, source))


def of_each(shape: type[_T], found: Callable[[str], Any]) -> _T:
    """The value whose fields are what ``found`` gives for their names."""
    values = {
        one.name: of_each(one.flat, found) if one.flat else found(one.name)
        for one in members(shape)
    }
    return shape(**values)


def schema(shape: type, title: Callable[[str], str] = str) -> dict[str, Any]:
    """The JSON Schema of a document; ``title`` makes the title of a field of its key.

    Other shapes in it are references, which `definitions` has.
    """
    fields = list(_flat_members(shape))
    described: dict[str, Any] = {
        "properties": {one.key: _described_member(one, title) for one in fields},
        "type": "object",
    }
    required = [one.key for one in fields if one.is_required]
    if required:
        described["required"] = required
    return {**described, "title": name_of(shape), "description": cleaned(shape.__doc__ or "")}


def _flat_members(shape: type) -> Iterator[Member]:
    for one in members(shape):
        if one.flat:
            yield from _flat_members(one.flat)
        elif not one.is_others:
            yield one


def _described_member(member: Member, title: Callable[[str], str]) -> dict[str, Any]:
    described = dict(member.form.described)
    if not any("$ref" in one for one in (described, *described.get("anyOf", ()))):
        described["title"] = title(member.key)
    default, written = member.default and member.default(), member.form.written
    if default is not None:
        described["default"] = default if written is None else written(default)
    return described


def cleaned(text: str) -> str:
    """A docstring without the indentation of its lines."""
    from inspect import cleandoc

    return cleandoc(text)


SCHEMAS = "#/components/schemas/"
"""What references to shapes begin with; `full_name` follows."""


def name_of(shape: type) -> str:
    """The name of a shape in schemas: that of its class, or its ``shape_name``."""
    return str(getattr(shape, "shape_name", shape.__name__))


def full_name(shape: type) -> str:
    """The name of a shape, with its module: unique where two have the same name."""
    return f"{shape.__module__}.{name_of(shape)}".replace(".", "__")


def definitions(shape: type, title: Callable[[str], str] = str) -> dict[str, dict[str, Any]]:
    """The schemas of a shape and of all that it is made of, by their full names."""
    return {full_name(one): schema(one, title) for one in _all_parts(shape, set())}


def _all_parts(shape: type, seen: set[type]) -> Iterator[type]:
    if shape not in seen:
        seen.add(shape)
        yield shape
        for member in _flat_members(shape):
            for part in member.form.parts:
                yield from _all_parts(part, seen)


# What a plain type stands for.

TEXT = Form("a string", is_text, {"type": "string"})
FLAG = Form("true or false", is_flag, {"type": "boolean"})
WHOLE = Form("a whole number", lambda value: type(value) is int, {"type": "integer"})
NUMBER = Form("a number", is_number, {"type": "number"})
ANYTHING = Form("a value", lambda _: True)
_PLAIN: Mapping[object, Form] = {
    str: TEXT,
    bool: FLAG,
    int: WHOLE,
    float: NUMBER,
    Any: ANYTHING,
    object: ANYTHING,
}


def form_of(hint: Any) -> Form:  # noqa: ANN401 - of types and what is like one
    """The form that an annotation stands for."""
    arguments, origin = get_args(hint), get_origin(hint)
    if origin is Annotated:
        own = next((one for one in arguments if isinstance(one, Form)), None)
        return own or form_of(arguments[0])
    if origin in {Union, UnionType}:
        others = [one for one in arguments if one is not NoneType]
        return _or_null(form_of(others[0]))
    if origin is Literal:
        return _word(arguments)
    if origin in {tuple, list}:
        return _list_of(form_of(arguments[0]))
    if origin is not None and issubclass(origin, Mapping):
        return _mapping_of(form_of(arguments[1]))
    if isinstance(hint, type) and issubclass(hint, str) and hint is not str:
        return replace(TEXT, make=lambda value, *_: hint(value))
    return _PLAIN.get(hint) or _nested(hint)


def _or_null(form: Form) -> Form:
    def make(value: Json, place: str, wrong: Wrong) -> Any:  # noqa: ANN401 - of any type
        return None if value is None else form.read(value, place, wrong)

    written = form.written
    return replace(
        form,
        fits=lambda value: value is None or form.fits(value),
        described={"anyOf": [form.described, {"type": "null"}]},
        make=make,
        written=written and (lambda value: None if value is None else written(value)),
    )


def _word(words: tuple[Any, ...]) -> Form:
    described = {"const": words[0]} if len(words) == 1 else {"enum": list(words)}
    kind = {} if not all(map(is_text, words)) else {"type": "string"}
    if words == (True,):
        kind = {"type": "boolean"}
    return Form(" or ".join(map(str, words)), lambda value: value in words, {**kind, **described})


def _list_of(form: Form) -> Form:
    """A list of any length, read as a tuple."""

    def make(value: Json, place: str, wrong: Wrong) -> Any:  # noqa: ANN401 - of any type
        return tuple(form.read(one, f"{place}[{index}]", wrong) for index, one in enumerate(value))

    return Form(
        "a list",
        is_sequence,
        {"items": form.described, "type": "array"},
        make=make,
        written=lambda value: [form.written(one) for one in value] if form.written else list(value),
        parts=form.parts,
    )


def _mapping_of(form: Form) -> Form:
    """A mapping from any texts."""

    def make(value: Json, place: str, wrong: Wrong) -> Any:  # noqa: ANN401 - of any type
        return {
            key: form.read(one, f"{place}[{str(key)[:200]!r}]", wrong) for key, one in value.items()
        }

    def written(value: Mapping[str, Any]) -> Json:
        write_one = form.written
        return {key: write_one(one) for key, one in value.items()} if write_one else dict(value)

    return Form(
        "an object",
        is_mapping,
        {"additionalProperties": form.described or True, "type": "object"},
        make=make,
        written=written,
        parts=form.parts,
    )


def _nested(shape: type) -> Form:
    return Form(
        "an object",
        is_mapping,
        {"$ref": f"{SCHEMAS}{full_name(shape)}"},
        make=lambda value, place, wrong: read(shape, value, wrong, place),
        written=write,
        parts=(shape,),
    )
