"""A faster ``dataclass`` decorator: the same interface, no source compiled at import.

`dataclasses` writes the source of every method and compiles it, and imports `inspect` for that: for
the values of one run this took as long as the run. Here the methods are closures; a class that is
made often, in a server or a thread, gets a compiled ``__init__`` then. The decorator
takes what this project uses (``frozen``, ``slots``, ``kw_only``, ``order``; no inheritance) and
behaves the same; type checkers see the standard one. Why this is ours: ADR 0003.
"""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["dataclass", "default_makers", "field", "replace"]

TYPE_CHECKING = False  # importing `typing` would slow the start
if TYPE_CHECKING:
    from dataclasses import dataclass, field, replace
    from typing import Any, NoReturn
else:

    def dataclass(
        cls: type | None = None,
        /,
        *,
        frozen: bool = False,
        slots: bool = False,
        kw_only: bool = False,
        order: bool = False,
    ) -> type | Callable[[type], type]:
        """Make a class a value: ``__init__``, ``__repr__``, ``__eq__`` and what was asked for."""

        def decorate(cls: type) -> type:
            return _value_class(cls, frozen=frozen, slots=slots, kw_only=kw_only, order=order)

        return decorate if cls is None else decorate(cls)

    def field(
        *,
        default: object = ...,
        default_factory: Callable[[], object] | None = None,
        repr: bool = True,  # noqa: A002 - the standard name
        compare: bool = True,
    ) -> _Field:
        """A field with a default made anew for each value; ``repr`` and ``==`` may leave it out."""
        return _Field(default, default_factory, repr, compare)

    def replace(value: object, /, **changes: object) -> object:
        """The same value but for the changes."""
        kept = {name: getattr(value, name) for name in value.__slots__ if name not in changes}
        return type(value)(**kept, **changes)


def default_makers(cls: type) -> dict[str, Callable[[], Any] | None]:
    """What makes the default of each field of a class, by name; None for a field without one."""
    declared: _StandardFields = cls.__dict__["__dataclass_fields__"]
    return {name: one.maker for name, one in declared.fields.items()}


class _Field:
    """Description of one field, made by `field`."""

    __slots__ = ("compared", "default", "factory", "shown")

    def __init__(
        self,
        default: object,
        factory: Callable[[], object] | None,
        shown: bool,  # noqa: FBT001
        compared: bool,  # noqa: FBT001
    ) -> None:
        self.default, self.factory, self.shown, self.compared = default, factory, shown, compared

    @property
    def maker(self) -> Callable[[], object] | None:
        """What makes its default; None if it has none."""
        default = self.default
        return self.factory or (None if default is ... else lambda: default)


def _value_class(cls: type, *, frozen: bool, slots: bool, kw_only: bool, order: bool) -> type:
    names = tuple(cls.__annotations__)
    fields = {name: _field_of(cls, name) for name in names}
    written = {name: value for name, value in cls.__dict__.items() if name not in _OWN | {*names}}
    shown = tuple(name for name in names if fields[name].shown)
    compared = tuple(name for name in names if fields[name].compared)
    methods = {
        "__init__": _init(cls, fields, kw_only=kw_only),
        "__repr__": _repr(shown),
        "__eq__": _eq(compared),
        "__hash__": _hash(compared) if frozen else None,
        "__match_args__": () if kw_only else names,
        "__getstate__": lambda self: [getattr(self, name) for name in names],
        "__setstate__": _setstate(names),
    }
    if frozen:
        methods |= {"__setattr__": _refuse_set, "__delattr__": _refuse_delete}
    if order:
        methods |= _ordering(compared)
    # All at once: a method that a class gets later costs as much as a small class.
    namespace = {**methods, **written, "__qualname__": cls.__qualname__}
    namespace["__hash__"] = methods["__hash__"]
    namespace["__dataclass_fields__"] = _StandardFields(fields)
    if slots:
        namespace["__slots__"] = names
    return type(cls)(cls.__name__, cls.__bases__, namespace)


class _StandardFields:
    """Fields of a class for `dataclasses`, made when it is first asked for.

    With it ``dataclasses.fields``, ``asdict``, ``astuple`` and ``replace`` take these values.
    """

    __slots__ = ("_made", "fields")

    def __init__(self, fields: dict[str, _Field]) -> None:
        self.fields = fields
        self._made: dict[str, Any] | None = None

    def __get__(self, _: object, owner: type) -> dict[str, Any]:
        if self._made is None:
            import dataclasses

            described = [
                (name, owner.__annotations__[name], dataclasses.field(**_rules(declared)))
                for name, declared in self.fields.items()
            ]
            like = dataclasses.make_dataclass(owner.__name__, described, kw_only=True)
            self._made = getattr(like, "__dataclass_fields__")  # noqa: B009
        return self._made


def _rules(declared: _Field) -> dict[str, Any]:
    """The options of a field, as `dataclasses.field` takes them."""
    rules: dict[str, Any] = {"repr": declared.shown, "compare": declared.compared}
    if declared.factory:
        return {**rules, "default_factory": declared.factory}
    # By a factory: the standard one refuses defaults that could be changed.
    default = declared.default
    return rules if default is ... else {**rules, "default_factory": lambda: default}


# Of the class as written; the new one has its own.
_OWN = frozenset({"__dict__", "__weakref__"})


def _field_of(cls: type, name: str) -> _Field:
    declared = cls.__dict__.get(name, ...)
    return (
        declared
        if isinstance(declared, _Field)
        else _Field(declared, None, shown=True, compared=True)
    )


_COMPILED_AFTER = 200
"""Values of a class that are made before its ``__init__`` is compiled, which takes as long."""


def _init(cls: type, fields: dict[str, _Field], *, kw_only: bool) -> Callable[..., None]:
    names = tuple(fields)
    positional = 0 if kw_only else len(names)
    set_field = object.__setattr__
    after = cls.__dict__.get("__post_init__")
    made = 0

    def __init__(self: object, *given: object, **named: object) -> None:  # noqa: N807
        nonlocal made
        made += 1
        if made == _COMPILED_AFTER:
            setattr(type(self), "__init__", _compiled_init(cls, fields, kw_only=kw_only))  # noqa: B010
        if len(given) > positional:
            raise TypeError(f"{cls.__qualname__}() takes {positional} positional arguments")
        for name, value in zip(names, given, strict=False):
            set_field(self, name, value)
        for name in names[len(given) :]:
            if name in named:
                value = named.pop(name)
            else:
                declared = fields[name]
                value = declared.factory() if declared.factory else declared.default
                if value is ...:
                    raise TypeError(f"{cls.__qualname__}() misses the argument {name!r}")
            set_field(self, name, value)
        if named:
            raise TypeError(f"{cls.__qualname__}() got an unexpected argument {min(named)!r}")
        if after:
            after(self)

    return __init__


def _compiled_init(cls: type, fields: dict[str, _Field], *, kw_only: bool) -> Callable[..., None]:
    """The same ``__init__`` with the fields as its arguments: three times as fast."""
    # Names that no field has: fields are arguments beside them.
    known: dict[str, Any] = {"__set": object.__setattr__, "__missing": object()}
    arguments, lines = ["self", "*"] if kw_only else ["self"], []
    for number, (name, declared) in enumerate(fields.items()):
        value = name
        if declared.factory:
            known[f"__made{number}"] = declared.factory
            value = f"__made{number}() if {name} is __missing else {name}"
            arguments.append(f"{name}=__missing")
        elif declared.default is ...:
            arguments.append(name)
        else:
            known[f"__given{number}"] = declared.default
            arguments.append(f"{name}=__given{number}")
        lines.append(f"    __set(self, {name!r}, {value})")
    if after := cls.__dict__.get("__post_init__"):
        known["__after"] = after
        lines.append("    __after(self)")
    signature = f"def __init__({', '.join(arguments)}):"
    exec("\n".join([signature, *(lines or ["    pass"])]), known)  # noqa: S102 - names of fields alone
    compiled: Callable[..., None] = known["__init__"]
    compiled.__qualname__ = f"{cls.__qualname__}.__init__"
    return compiled


def _repr(shown: tuple[str, ...]) -> Callable[[object], str]:
    def __repr__(self: object) -> str:  # noqa: N807
        fields = ", ".join(f"{name}={getattr(self, name)!r}" for name in shown)
        return f"{type(self).__qualname__}({fields})"

    return __repr__


def _eq(names: tuple[str, ...]) -> Callable[[object, object], bool]:
    def __eq__(self: object, other: object) -> bool:  # noqa: N807
        if other.__class__ is not self.__class__:
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in names)

    return __eq__


def _hash(names: tuple[str, ...]) -> Callable[[object], int]:
    def __hash__(self: object) -> int:  # noqa: N807
        return hash(tuple(getattr(self, name) for name in names))

    return __hash__


def _ordering(names: tuple[str, ...]) -> dict[str, Callable[[Any, Any], bool]]:
    import operator

    def compared(compare: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
        def method(self: object, other: object) -> Any:  # noqa: ANN401 - NotImplemented too
            if other.__class__ is not self.__class__:
                return NotImplemented
            mine, theirs = ([getattr(one, name) for name in names] for one in (self, other))
            return compare(mine, theirs)

        return method

    return {f"__{name}__": compared(getattr(operator, name)) for name in ("lt", "le", "gt", "ge")}


def _setstate(names: tuple[str, ...]) -> Callable[[object, list[object]], None]:
    def __setstate__(self: object, state: list[object]) -> None:  # noqa: N807
        for name, value in zip(names, state, strict=True):
            object.__setattr__(self, name, value)

    return __setstate__


def _refuse_set(_: object, name: str, value: object) -> NoReturn:  # noqa: ARG001 - the protocol's
    from dataclasses import FrozenInstanceError

    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_delete(_: object, name: str) -> NoReturn:
    from dataclasses import FrozenInstanceError

    raise FrozenInstanceError(f"cannot delete field {name!r}")
