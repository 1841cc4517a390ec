"""YAML, read as data: no tag makes an object, no key comes twice, no alias grows without end.

The one door of PyYAML. Only its events are used: they come one by one, from the C parser where it
is installed, so that a hostile text is refused before anything is built from it.
"""

import re
from collections.abc import Callable, Mapping
from math import isfinite
from typing import TYPE_CHECKING, Any, cast

from ryeos.metadata.errors import MetadataError, line_of, shown
from ryeos.metadata.values import (
    MAX_DEPTH,
    UnreadableValueError,
    check_header_text,
    plain_value,
)

if TYPE_CHECKING:
    import yaml

_MAX_NUMBER_CHARACTERS = 300
_MAX_MERGED_KEYS = 100_000
_TAG_DIRECTIVE = re.compile(r"^%TAG\b", re.MULTILINE)

_STANDARD = "tag:yaml.org,2002:"
_STRING, _MERGE = f"{_STANDARD}str", f"{_STANDARD}merge"
_SEQUENCE, _MAPPING = f"{_STANDARD}seq", f"{_STANDARD}map"
# tag -> the method of PyYAML's safe constructor that converts it; None leaves the text as it is.
# A date stays text: JSON has no dates, and its author wrote a string.
_SCALARS: Mapping[str, str | None] = {
    _STRING: None,
    f"{_STANDARD}timestamp": None,
    f"{_STANDARD}value": None,
    f"{_STANDARD}null": "construct_yaml_null",
    f"{_STANDARD}bool": "construct_yaml_bool",
    f"{_STANDARD}int": "construct_yaml_int",
    f"{_STANDARD}float": "construct_yaml_float",
}


def parse_yaml(text: str, where: str) -> dict[str, Any]:
    """The mapping that a YAML 1.1 text of one document holds, in JSON's types.

    ``where`` names the text in messages, like ``yaml header``. Values mean what they mean to
    PyYAML's safe loader, but dates, which stay text. Keys of the outermost mapping must be
    strings; further down a key is read as it is written, so ``on: x`` is ``{"on": "x"}``.

    Raises MetadataError: not YAML, not a mapping, a key twice, an unknown tag, a number without
    bounds, nesting or aliases beyond the limits of `ryeos.metadata.values`.
    """
    import yaml

    check_header_text("yaml", text, where)
    directive = _TAG_DIRECTIVE.search(text)
    if directive:
        line = line_of(text, directive.start())
        raise MetadataError("yaml", "expected YAML's own tags, found %TAG", line, place=where)
    loader_class: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        loader = loader_class(text)
        try:
            value = plain_value(_Document(loader, where).mapping())
        finally:
            loader.dispose()
    except yaml.YAMLError as error:
        raise _foreign_error(error, where) from error
    except UnreadableValueError as error:
        raise MetadataError("yaml", error.problem, place=where) from error
    assert isinstance(value, dict)  # noqa: S101 - for mypy: the copy of a mapping is one
    return value


def _foreign_error(error: Exception, where: str) -> MetadataError:
    """PyYAML's error in our words; its two parsers differ in which fields they fill."""
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or getattr(error, "reason", None) or "an error"
    line = None if mark is None else mark.line + 1
    return MetadataError("yaml", f"expected YAML: {problem[:200]}", line, place=where)


class _Document:
    """Builds values from the events of one document. Aliases share what they point to."""

    def __init__(self, loader: "yaml.SafeLoader | yaml.CSafeLoader", where: str) -> None:
        self._loader, self._where = loader, where
        self._anchored: dict[str, object] = {}
        self._merged_keys = 0

    def mapping(self) -> dict[str, object]:
        """The one mapping that the stream must hold."""
        import yaml

        self._next()
        event = self._next()
        if not isinstance(event, yaml.DocumentStartEvent):
            raise self._error("expected a mapping, found nothing", event)
        event = self._next()
        if not isinstance(event, yaml.MappingStartEvent):
            found = "a sequence" if isinstance(event, yaml.SequenceStartEvent) else "a scalar"
            raise self._error(f"expected a mapping, found {found}", event)
        mapping = self._mapping(event, depth=0)
        self._next()
        event = self._next()
        if not isinstance(event, yaml.StreamEndEvent):
            raise self._error("expected one document, found a second", event)
        return mapping

    def _next(self) -> "yaml.Event":
        # None only behind the end of the stream, and nothing here reads on from there.
        return cast("yaml.Event", self._loader.get_event())

    def _node(self, depth: int) -> object:
        import yaml

        # A value begins with one of these four, or PyYAML would have refused the text.
        event = cast(
            "yaml.AliasEvent | yaml.ScalarEvent | yaml.SequenceStartEvent | yaml.MappingStartEvent",
            self._next(),
        )
        match event:
            case yaml.AliasEvent():
                return self._anchor(event)
            case yaml.ScalarEvent():
                value = self._scalar(event)
            case yaml.SequenceStartEvent():
                value = self._sequence(event, depth)
            case yaml.MappingStartEvent():
                value = self._mapping(event, depth)
        # Only now: an alias inside the value it names finds nothing, and nothing is circular.
        if event.anchor is not None:
            self._anchored[event.anchor] = value
        return value

    def _sequence(self, start: "yaml.SequenceStartEvent", depth: int) -> list[object]:
        import yaml

        self._check_collection(start, _SEQUENCE, depth)
        values: list[object] = []
        while not self._loader.check_event(yaml.SequenceEndEvent):
            values.append(self._node(depth + 1))
        self._next()
        return values

    def _mapping(self, start: "yaml.MappingStartEvent", depth: int) -> dict[str, object]:
        import yaml

        self._check_collection(start, _MAPPING, depth)
        own: dict[str, object] = {}
        inherited: dict[str, object] = {}
        while not self._loader.check_event(yaml.MappingEndEvent):
            event = self._next()
            key = self._key(event, depth)
            if key is None:
                self._merge(inherited, self._node(depth + 1), event)
            elif key in own:
                raise self._error(f"expected each key once, found {shown(key)} twice", event)
            else:
                own[key] = self._node(depth + 1)
        self._next()
        return inherited | own

    def _key(self, event: "yaml.Event", depth: int) -> str | None:
        """The key as it is written; None for the merge key ``<<``."""
        import yaml

        if isinstance(event, yaml.AliasEvent) and isinstance(self._anchor(event), str):
            return str(self._anchor(event))
        if not isinstance(event, yaml.ScalarEvent):
            raise self._error("expected a string key, found something else", event)
        tag = self._scalar_tag(event)
        if tag == _MERGE:
            return None
        if depth == 0 and _SCALARS[tag] is not None:
            raise self._error(f"expected a string key, found {shown(event.value)}", event)
        if event.anchor is not None:
            self._anchored[event.anchor] = event.value
        return event.value

    def _merge(self, inherited: dict[str, object], value: object, event: "yaml.Event") -> None:
        """Take over what ``<<: *name`` or ``<<: [*a, *b]`` points to; in a list the first wins."""
        for source in reversed(value if isinstance(value, list) else [value]):
            if not isinstance(source, dict):
                raise self._error("expected a mapping to merge, found something else", event)
            self._merged_keys += len(source) + 1
            if self._merged_keys > _MAX_MERGED_KEYS:
                raise self._error(
                    f"expected at most {_MAX_MERGED_KEYS} merged keys, found more", event
                )
            inherited.update(source)

    def _anchor(self, event: "yaml.AliasEvent") -> object:
        name = event.anchor or ""
        if name not in self._anchored:
            problem = f"expected an anchor above the alias {shown(name)}, found none"
            raise self._error(problem, event)
        return self._anchored[name]

    def _scalar(self, event: "yaml.ScalarEvent") -> object:
        import yaml

        tag = self._scalar_tag(event)
        convert = _SCALARS.get(tag)
        if convert is None:
            return event.value
        if len(event.value) > _MAX_NUMBER_CHARACTERS:
            problem = f"expected a number of at most {_MAX_NUMBER_CHARACTERS} characters"
            raise self._error(f"{problem}, found {len(event.value)}", event)
        try:
            value = getattr(self._loader, convert)(yaml.ScalarNode(tag, event.value))
        except (ValueError, LookupError) as error:
            kind = convert.removeprefix("construct_yaml_")
            problem = f"expected a value of the tag !!{kind}, found {shown(event.value)}"
            raise self._error(problem, event) from error
        if isinstance(value, float) and not isfinite(value):
            raise self._error(f"expected a finite number, found {shown(event.value)}", event)
        return value

    def _scalar_tag(self, event: "yaml.ScalarEvent") -> str:
        import yaml

        tag = event.tag
        if tag is None or tag == "!":
            resolve: Callable[..., str] = self._loader.resolve
            tag = resolve(yaml.ScalarNode, event.value, event.implicit)
        if tag not in _SCALARS and tag != _MERGE:
            raise self._unknown_tag(tag, event)
        return tag

    def _check_collection(self, start: "yaml.CollectionStartEvent", tag: str, depth: int) -> None:
        if depth >= MAX_DEPTH:
            problem = f"expected at most {MAX_DEPTH} levels of nesting, found more"
            raise self._error(problem, start)
        if start.tag not in {None, "!", tag}:
            raise self._unknown_tag(start.tag, start)

    def _unknown_tag(self, tag: str, event: "yaml.Event") -> MetadataError:
        written = shown(tag.replace(_STANDARD, "!!"))
        return self._error(f"expected plain YAML, found the tag {written}", event)

    def _error(self, problem: str, event: "yaml.Event") -> MetadataError:
        mark = event.start_mark
        line = None if mark is None else mark.line + 1
        return MetadataError("yaml", problem, line, place=self._where)
