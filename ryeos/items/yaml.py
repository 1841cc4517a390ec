"""YAML, read as data: no tag makes an object, no key comes twice, no alias grows without end.

The one door of PyYAML. Only its events are used: they come one by one, from the C parser where it
is installed, so that a hostile text is refused before anything is built from it.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from math import isfinite
from typing import TYPE_CHECKING, Any, cast

from lillux.patterns import pattern
from ryeos.items.header_values import (
    MAX_DEPTH,
    MetadataError,
    UnreadableValueError,
    line_of,
    plain_value,
    require_parsable_text,
    shown,
)

if TYPE_CHECKING:
    import yaml


_MAX_NUMBER_CHARACTERS = 300
_MAX_MERGED_KEYS = 100_000
_TAG_DIRECTIVE = pattern(r"^%TAG\b", re.MULTILINE)

_STANDARD = "tag:yaml.org,2002:"
_STRING, _MERGE = f"{_STANDARD}str", f"{_STANDARD}merge"
_INT, _FLOAT = f"{_STANDARD}int", f"{_STANDARD}float"
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


def parse_yaml(text: str, where: str, *, is_core: bool = False) -> dict[str, Any]:
    """The mapping that a YAML 1.1 text of one document holds, in JSON's types.

    ``where`` names the text in messages, like ``yaml header``. Values mean what they mean to
    PyYAML's safe loader, but dates, which stay text. Keys of the outermost mapping must be
    strings; further down a key is read as it is written, so ``on: x`` is ``{"on": "x"}``.
    ``is_core``: plain words mean what they mean in YAML 1.2, where ``NO`` is a text.

    Raises MetadataError: not YAML, not a mapping, a key twice, an unknown tag, a number without
    bounds, nesting or aliases beyond the limits of `ryeos.items.header_values`.
    """
    import yaml

    require_parsable_text("yaml", text, where)
    directive = _TAG_DIRECTIVE.search(text)
    if directive:
        line = line_of(text, directive.start())
        raise MetadataError("yaml", "expected YAML's own tags, found %TAG", line, place=where)
    loader_class: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        loader = loader_class(text)
        try:
            value = plain_value(_Document(loader, where, is_core=is_core).mapping())
        finally:
            loader.dispose()
    except yaml.YAMLError as error:
        raise _foreign_error(error, where) from error
    except UnreadableValueError as error:
        raise MetadataError("yaml", error.problem, place=where) from error
    assert isinstance(value, dict)  # noqa: S101 - for mypy: the copy of a mapping is one
    return value


def outermost_keys(text: str) -> Iterator[tuple[str, int]]:
    """The keys of the outermost mapping of a text that `parse_yaml` reads, each with its line.

    Those of a mapping that ``<<`` takes in come last, with the line of ``<<``.
    """
    import yaml

    loader_class: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    loader = loader_class(text)
    try:
        root = loader.get_single_node()
    except yaml.YAMLError as error:
        raise _foreign_error(error, "yaml header") from error
    finally:
        loader.dispose()
    taken_in = []
    for key, value in root.value if isinstance(root, yaml.MappingNode) else ():
        line = key.start_mark.line + 1
        yield str(key.value), line
        if key.tag == _MERGE:
            sources = value.value if isinstance(value, yaml.SequenceNode) else [value]
            mappings = [one for one in sources if isinstance(one, yaml.MappingNode)]
            taken_in += [(str(name.value), line) for one in mappings for name, _ in one.value]
    yield from taken_in


def merges(text: str) -> Iterator[tuple[str, str, int]]:
    """Each ``<<`` inside of the blocks of a text that `parse_yaml` reads, with its line.

    Before it stand the block, by its key in the outermost mapping, and a key that ``<<`` takes in
    from a mapping written right there and that stands beside it, too: ``""`` for the ``<<`` itself.
    """
    import yaml

    loader_class: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    loader = loader_class(text)
    try:
        root = loader.get_single_node()
    except yaml.YAMLError as error:
        raise _foreign_error(error, "yaml header") from error
    finally:
        loader.dispose()
    for name, block in root.value if isinstance(root, yaml.MappingNode) else ():
        left, seen = [block], set[int]()
        while left:
            node = left.pop()
            if id(node) in seen or isinstance(node, yaml.ScalarNode):
                continue
            seen.add(id(node))
            if isinstance(node, yaml.SequenceNode):
                left += node.value
                continue
            left += [value for _, value in node.value]
            yield from ((str(name.value), key, line) for key, line in _merged_here(node))


def _merged_here(node: "yaml.MappingNode") -> Iterator[tuple[str, int]]:
    """Keys that each ``<<`` of a mapping takes in from mappings written right there."""
    import yaml

    lines = {str(key.value): key.start_mark.line + 1 for key, _ in node.value}
    for key, value in node.value:
        if key.tag != _MERGE:
            continue
        yield "", key.start_mark.line + 1
        for one in value.value if isinstance(value, yaml.SequenceNode) else [value]:
            # What an alias takes in stands above the key.
            is_here = one.start_mark.index > key.start_mark.index
            if is_here and isinstance(one, yaml.MappingNode):
                names = (str(name.value) for name, _ in one.value)
                yield from ((name, lines[name]) for name in names if name in lines)


def trailing_comments(text: str) -> Iterator[tuple[int, str]]:
    """The comments behind other words of a text that `parse_yaml` reads, each with its line."""
    import yaml

    ends: dict[int, int] = {}
    loader_class: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        for token in yaml.scan(text, Loader=loader_class):
            start, end = token.start_mark, token.end_mark
            is_block = isinstance(token, yaml.ScalarToken) and token.style in {"|", ">"}
            ends[start.line] = max(ends.get(start.line, 0), start.column)
            ends |= dict.fromkeys(range(start.line + is_block, end.line), len(text))
            if not is_block:
                ends[end.line] = max(ends.get(end.line, 0), end.column)
    except yaml.YAMLError as error:
        raise _foreign_error(error, "yaml header") from error
    for number, line in enumerate(text.split("\n")):
        at = line.find(" #", ends.get(number, 0))
        if at >= 0:
            yield number + 1, line[at + len(" #") :]


Place = tuple[str | int, ...]
"""Of a value in a document: keys, and indices of lists."""


def places(text: str) -> dict[Place, tuple[int, int]]:
    """Line and column, from 1, of each key and element of a text that `parse_yaml` reads.

    What an alias or ``<<`` takes in stands elsewhere, and has the place of that word.
    """
    import yaml

    loader_class: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    loader = loader_class(text)
    reader = _PlaceReader()
    try:
        while not isinstance(event := loader.get_event(), yaml.StreamEndEvent):
            if isinstance(event, yaml.CollectionEndEvent):
                reader.end()
            elif isinstance(event, yaml.NodeEvent):
                reader.take(event)
    except yaml.YAMLError as error:
        raise _foreign_error(error, "yaml") from error
    finally:
        loader.dispose()
    return reader.found


class _PlaceReader:
    """Follows the events of a document, and notes where each key and element begins."""

    def __init__(self) -> None:
        self.found: dict[Place, tuple[int, int]] = {}
        # Collections that are open: their place, and the next key or index; None before a key.
        self._opened: list[tuple[Place, str | int | None]] = []

    def end(self) -> None:
        """A collection has ended."""
        self._opened.pop()

    def take(self, event: "yaml.NodeEvent") -> None:
        """A key, or a value; where it is a collection, what follows is in it."""
        import yaml

        place: Place = ()
        if self._opened:
            above, here = self._opened[-1]
            if here is None:
                name = str(getattr(event, "value", ""))
                self._opened[-1] = (above, name)
                self._note((*above, name), event)
                return
            place = (*above, here)
            self._opened[-1] = (above, here + 1 if isinstance(here, int) else None)
            if isinstance(here, int):
                self._note(place, event)
        if isinstance(event, yaml.CollectionStartEvent):
            self._opened.append((place, 0 if isinstance(event, yaml.SequenceStartEvent) else None))

    def _note(self, place: Place, event: "yaml.NodeEvent") -> None:
        mark = event.start_mark
        if mark is not None:
            self.found[place] = (mark.line + 1, mark.column + 1)


def _foreign_error(error: Exception, where: str) -> MetadataError:
    """PyYAML's error in our words; its two parsers differ in which fields they fill."""
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or getattr(error, "reason", None) or "an error"
    line = None if mark is None else mark.line + 1
    column = None if mark is None else mark.column + 1
    words = f"expected YAML: {problem[:200]}"
    return MetadataError("yaml", words, line, place=where, column=column)


# What a plain word is in the core schema of YAML 1.2; any other is a text.
_CORE = (
    (pattern(r"null|Null|NULL|~|"), f"{_STANDARD}null"),
    (pattern(r"true|True|TRUE|false|False|FALSE"), f"{_STANDARD}bool"),
    (pattern(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+"), _INT),
    (pattern(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?"), _FLOAT),
)


def _core_tag(word: str) -> str:
    return next((tag for form, tag in _CORE if form.fullmatch(word)), _STRING)


def _core_int(word: str) -> int:
    bases = {"0o": 8, "0x": 16}
    return int(word, bases.get(word[:2], 10))


class _Document:
    """Builds values from the events of one document. Aliases share what they point to."""

    def __init__(
        self, loader: "yaml.SafeLoader | yaml.CSafeLoader", where: str, *, is_core: bool = False
    ) -> None:
        self._loader, self._where, self._is_core = loader, where, is_core
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

        self._validate_collection(start, _SEQUENCE, depth)
        values: list[object] = []
        while not self._loader.check_event(yaml.SequenceEndEvent):
            values.append(self._node(depth + 1))
        self._next()
        return values

    def _mapping(self, start: "yaml.MappingStartEvent", depth: int) -> dict[str, object]:
        import yaml

        self._validate_collection(start, _MAPPING, depth)
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
            if self._is_core and event.tag is None and tag == _INT:
                return _core_int(event.value)
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
        if self._is_core and tag is None and event.implicit[0] and event.value != "<<":
            tag = _core_tag(event.value)
        if tag is None or tag == "!":
            resolve: Callable[..., str] = self._loader.resolve
            tag = resolve(yaml.ScalarNode, event.value, event.implicit)
        if tag not in _SCALARS and tag != _MERGE:
            raise self._unknown_tag(tag, event)
        return tag

    def _validate_collection(
        self, start: "yaml.CollectionStartEvent", tag: str, depth: int
    ) -> None:
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
        column = None if mark is None else mark.column + 1
        return MetadataError("yaml", problem, line, place=self._where, column=column)
