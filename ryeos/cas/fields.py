"""The keys of one object, each asked for with its type. Pure."""

from collections.abc import Callable, Mapping
from typing import Any

from lillux.store_files import is_digest
from ryeos.cas.errors import CasObjectError
from ryeos.errors import RyeError

SCHEMA = 2
"""Of every object; another number is another format."""


Wrong = Callable[[str, str, str, str], RyeError]
"""Of an object, a key in it, what was expected there and what was found: what is raised."""

ROOT = "(root)"
"""The key of an object as a whole."""


def wrong_object(where: str, key: str, expected: str, there: str) -> CasObjectError:
    """That an object that travels does not hold what it must."""
    at = "" if key == ROOT else f"{key}: "
    return CasObjectError(where, f"{at}expected {expected}, found {there}")


class Fields:
    """An object of a kind and `SCHEMA`. Raises what ``wrong`` makes, for each key asked for too."""

    def __init__(self, value: object, kind: str, where: str, wrong: Wrong = wrong_object) -> None:
        self._where, self._wrong = where, wrong
        if not isinstance(value, dict):
            raise wrong(where, ROOT, "an object", found(value))
        self._value: dict[str, Any] = value
        if value.get("kind") != kind:
            raise self.wrong("kind", f'"{kind}"')
        if value.get("schema") != SCHEMA or not isinstance(value["schema"], int):  # 2.0 is no 2
            raise self.wrong("schema", str(SCHEMA))

    def text(self, key: str) -> str:
        """A string, ``""`` for none."""
        value = self._value.get(key, "")
        if not isinstance(value, str):
            raise self.wrong(key, "a string")
        return value

    def optional_text(self, key: str) -> str | None:
        """A string; null for none."""
        return None if self._value.get(key) is None else self.text(key)

    def required(self, key: str) -> Any:  # noqa: ANN401 - JSON
        """Any value, null too."""
        if key not in self._value:
            raise self.wrong(key, "a value")
        return self._value[key]

    def flag(self, key: str) -> bool:
        """True or false, false for none."""
        value = self._value.get(key, False)
        if not isinstance(value, bool):
            raise self.wrong(key, "true or false")
        return value

    def required_text(self, key: str) -> str:
        """A string that says something."""
        value = self._value.get(key)
        if not isinstance(value, str) or not value:
            raise self.wrong(key, "a string")
        return value

    def digest(self, key: str) -> str:
        """A digest."""
        value = self._value.get(key)
        if not is_digest(value):
            raise self.wrong(key, "a digest")
        return str(value)

    def optional_digest(self, key: str) -> str | None:
        """A digest; null, nothing and ``""`` are none."""
        value = self._value.get(key)
        return None if value is None or value == "" else self.digest(key)

    def digests(self, key: str) -> tuple[str, ...]:
        """A list of digests, empty for none."""
        value = self._value.get(key, [])
        if not isinstance(value, list) or not all(is_digest(one) for one in value):
            raise self.wrong(key, "a list of digests")
        return tuple(value)

    def paths(self, key: str) -> dict[str, str]:
        """An object from paths to digests. The paths are not judged here."""
        value = self._value.get(key)
        if not isinstance(value, dict):
            raise self.wrong(key, "an object")
        for path, digest in value.items():
            if not is_digest(digest):
                at = f"{key}[{path[:200]!r}]"
                raise self._wrong(self._where, at, "a digest", found(digest))
        return value

    def mapping(self, key: str) -> dict[str, Any]:
        """An object, empty for none."""
        value = self._value.get(key, {})
        if not isinstance(value, dict):
            raise self.wrong(key, "an object")
        return value

    def required_mapping(self, key: str) -> dict[str, Any]:
        """An object."""
        self.required(key)
        return self.mapping(key)

    def optional_texts(self, key: str) -> dict[str, str] | None:
        """An object of strings; null for none."""
        value = self._value.get(key)
        if value is None:
            return None
        if not isinstance(value, dict) or not all(isinstance(one, str) for one in value.values()):
            raise self.wrong(key, "an object of strings, or null")
        return value

    def mappings(self, key: str) -> tuple[dict[str, Any], ...]:
        """A list of objects, empty for none."""
        value = self._value.get(key, [])
        if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
            raise self.wrong(key, "a list of objects")
        return tuple(value)

    def count(self, key: str) -> int:
        """A whole number from 0, 0 for none."""
        value = self._value.get(key, 0)
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise self.wrong(key, "a whole number from 0")
        return value

    def unknown(self, known: frozenset[str]) -> Mapping[str, Any]:
        """The keys of other programs."""
        return {key: value for key, value in self._value.items() if key not in known}

    def wrong(self, key: str, expected: str) -> RyeError:
        """That a key does not hold what it must."""
        return self._wrong(self._where, key, expected, found(self._value.get(key)))


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
