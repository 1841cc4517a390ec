"""Parameters as flags of a program: ``config.flags``. Pure.

``{NAME: FLAG}``, in the order of the flags. What the caller did not say is left out, unless the
chain's config has the name, or the engine does. A program with ``config.own_timeout`` has a limit
of its own unless it is configured otherwise: ``config.no_timeout`` are the words for that.

A file of its own, imported late: few tools declare flags.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from lillux.templating import Names, as_text, fill
from ryeos.items.errors import SpecError
from ryeos.items.specs import type_name


def flag_arguments(
    config: Mapping[str, Any], given: Mapping[str, Any], names: Names
) -> tuple[str, ...]:
    """The words for the declared flags. Raises SpecError for a declaration of another shape.

    A list repeats its flag, a mapping does so with ``KEY=VALUE``, ``true`` is the flag alone, and
    ``false`` and ``null`` are nothing.
    """
    declared = config.get("flags") or {}
    if not isinstance(declared, Mapping):
        raise SpecError("config.flags", f"expected a mapping, got {type_name(declared)}")
    words: list[str] = []
    for name, flag in declared.items():
        if not isinstance(flag, str) or not flag:
            raise SpecError(f"config.flags.{name}", f"expected a flag, got {type_name(flag)}")
        words += _words(flag, _value(name, config, given, names))
    if config.get("own_timeout") is True and _value("timeout", config, given, names) is None:
        words += _no_timeout(config.get("no_timeout") or ())
    return tuple(words)


def _no_timeout(words: object) -> Iterator[str]:
    if not isinstance(words, list | tuple):
        raise SpecError("config.no_timeout", f"expected a list, got {type_name(words)}")
    yield from (as_text(word) for word in words)


def _value(name: str, config: Mapping[str, Any], given: Mapping[str, Any], names: Names) -> object:
    if name in given:
        return given[name]
    if name in names.fixed:
        return names.fixed[name]
    return fill(config[name], names) if name in config and name not in names.hidden else None


def _words(flag: str, value: object) -> Iterator[str]:
    match value:
        case None | False:
            return
        case True:
            yield flag
        case list() | tuple():
            for one in value:
                yield from (flag, as_text(one))
        case Mapping():
            for key, one in value.items():
                yield from (flag, f"{key}={as_text(one)}")
        case _:
            yield from (flag, as_text(value))
