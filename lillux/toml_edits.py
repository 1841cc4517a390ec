"""Edits of one table in TOML text that keep its layout and comments. The door of tomlkit.

Every edit is checked before it is returned: `tomllib` reads the new text, and it must have the old
values with the one change.
"""

import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from lillux.jsonc import TextStructureError, TextSyntaxError, dotted

_PLACE = re.compile(r"(.*) \(at (?:line (\d+), column (\d+)|end of document)\)", re.DOTALL)


def parse_toml(text: str) -> dict[str, Any]:
    """The values of a TOML text. Raises TextSyntaxError."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        found = _PLACE.fullmatch(str(error))
        problem = found[1] if found else str(error)
        if found and found[2]:
            line, column = int(found[2]), int(found[3])
        else:
            line, column = text.count("\n") + 1, len(text) - (text.rfind("\n") + 1) + 1
        raise TextSyntaxError(line, column, problem[:1].lower() + problem[1:]) from None
    except RecursionError:
        raise TextSyntaxError(0, 0, "expected fewer levels") from None


def set_table(text: str, path: Sequence[str], values: Mapping[str, Any]) -> str:
    """The text with these values in the table at ``path``; its other keys stay as they are.

    A missing table is written at the end. Raises TextSyntaxError, TextStructureError.
    """
    document = parse_toml(text)
    table = _table(document, path)
    if table is None:
        newline = "\r\n" if "\r\n" in text else "\n"
        end = "" if not text or text.endswith("\n") else newline
        edited = text + end + (newline if text else "") + write_table(path, values, newline)
    else:
        changed = {key: value for key, value in values.items() if table.get(key) != value}
        edited = _edit(text, path, lambda document, names: _set(document, names, changed))
    _require(edited, _merge_values(document, path, values), path)
    return edited


def remove_table(text: str, path: Sequence[str]) -> str:
    """The text without the table at ``path`` and those below it. The table must be there.

    Raises TextSyntaxError, TextStructureError.
    """
    document = parse_toml(text)
    if _table(document, path) is None:
        raise TextStructureError(dotted(path), "expected it, found nothing there")
    marker = "removed"
    while f"# {marker}" in text:
        marker += "!"
    edited = _edit(text, path, lambda document, names: _cut(document, names, marker))
    # The marker's line goes, with one blank line before it.
    mark = rf"# {marker}\r?\n"
    edited = re.sub(rf"(?<=\n)(\r?\n)?{mark}|^{mark}", "", edited)
    _require(edited, _remove_values(document, path), path)
    return edited


def write_table(path: Sequence[str], values: Mapping[str, Any], newline: str = "\n") -> str:
    """A table with its header."""
    import tomlkit

    table = tomlkit.table()
    for key, value in values.items():
        table.append(key, _item(value))
    for name in reversed(path[1:]):
        outer = tomlkit.table(is_super_table=True)
        outer.append(name, table)
        table = outer
    document = tomlkit.document()
    document.append(path[0], table)
    return tomlkit.dumps(document).replace("\n", newline)


def _edit(text: str, path: Sequence[str], edit: Callable[[Any, Sequence[str]], None]) -> str:
    """The text after an edit of its document, which gets the path too."""
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    uses_crlf = "\r\n" in text and text.count("\n") == text.count("\r\n")
    try:
        # tomlkit writes new lines with \n alone.
        document = tomlkit.parse(text.replace("\r\n", "\n") if uses_crlf else text)
        edit(document, path)
        edited = tomlkit.dumps(document)
    except (TOMLKitError, AttributeError, TypeError, ValueError) as error:
        raise TextStructureError(dotted(path), f"this form cannot be edited ({error})") from error
    return edited.replace("\n", "\r\n") if uses_crlf else edited


def _entries(container: Any, name: str) -> Iterator[tuple[int, Any]]:  # noqa: ANN401 - tomlkit's
    """Places of a name in a container: several times, where a table has several parts."""
    for index, (key, item) in reversed(list(enumerate(container.body))):
        if key is not None and key.key == name:
            yield index, item


def _set(container: Any, path: Sequence[str], values: Mapping[str, Any]) -> None:  # noqa: ANN401
    """Set values in a table; new keys come after its last key."""
    from tomlkit.items import Table

    for _, item in _entries(container, path[0]):
        inner = item.value
        if len(path) > 1:
            _set(inner, path[1:], values)
            continue
        for name, value in values.items():
            if name in inner:
                if isinstance(inner[name], dict) and not isinstance(value, Mapping):
                    raise TypeError(f"{name}: expected a value, found a table")
                inner[name] = _item(value)
                continue
            own = [i for i, (k, v) in enumerate(inner.body) if k and not isinstance(v, Table)]
            inner.append(name, _item(value))
            if own:
                # It may stand before blank lines at the end of the table, not behind them.
                at = next(i for i, (k, _) in enumerate(inner.body) if k and k.key == name)
                added = inner.body.pop(at)
                added[1].trivia.indent = inner.body[own[-1]][1].trivia.indent
                inner.body.insert(own[-1] + 1, added)


def _cut(container: Any, path: Sequence[str], marker: str) -> None:  # noqa: ANN401 - tomlkit's
    """Put a comment in the place of a table, and of the tables above that hold nothing else."""
    from tomlkit.items import Whitespace

    for index, item in _entries(container, path[0]):
        if _holds_only(item, path[1:]):
            line = Whitespace(f"# {marker}\n")  # a comment would make a table's header appear
            container.body[index : index + 1] = [(None, line), *_trailing(item)]
        else:
            _cut(item.value, path[1:], marker)


def _holds_only(item: Any, path: Sequence[str]) -> bool:  # noqa: ANN401 - tomlkit's
    if not path:
        return True
    entries = [(key, inner) for key, inner in item.value.body if key is not None]
    is_bare = item.is_table() and item.is_super_table() and len(entries) == 1
    return is_bare and entries[0][0].key == path[0] and _holds_only(entries[0][1], path[1:])


def _trailing(item: Any) -> list[Any]:  # noqa: ANN401 - tomlkit's
    """The blank lines and comments at the end of a table, which belong to what comes after it."""
    from tomlkit.items import Comment, Table, Whitespace

    if not isinstance(item, Table):
        return []
    body = item.value.body
    count = 0
    while count < len(body) and isinstance(body[-1 - count][1], Comment | Whitespace):
        count += 1
    if count or not body:
        return list(body[len(body) - count :])
    return _trailing(body[-1][1])


def _item(value: Any) -> Any:  # noqa: ANN401 - what a configuration holds
    """A value on one line: a mapping becomes an inline table."""
    import tomlkit

    match value:
        case Mapping():
            table = tomlkit.inline_table()
            for key, inner in value.items():
                table.append(key, _item(inner))
            return table
        case list() | tuple():
            array = tomlkit.array()
            for inner in value:
                array.append(_item(inner))
            return array
        case _:
            return tomlkit.item(value)


def _table(document: Mapping[str, Any], path: Sequence[str]) -> Mapping[str, Any] | None:
    found: Any = document
    for depth, name in enumerate(path):
        found = found.get(name)
        if found is None:
            return None
        if not isinstance(found, dict):
            raise TextStructureError(dotted(path[: depth + 1]), "expected a table")
    table: Mapping[str, Any] = found
    return table


def _merge_values(
    document: Mapping[str, Any], path: Sequence[str], values: Mapping[str, Any]
) -> Any:  # noqa: ANN401
    if not path:
        return {**document, **values}
    return {**document, path[0]: _merge_values(document.get(path[0], {}), path[1:], values)}


def _remove_values(document: Mapping[str, Any], path: Sequence[str]) -> dict[str, Any]:
    """The values without those at a path, and without what became empty above it."""
    rest = {key: value for key, value in document.items() if key != path[0]}
    if len(path) > 1 and path[0] in document:
        inner = _remove_values(document[path[0]], path[1:])
        return {**rest, path[0]: inner} if inner else rest
    return rest


def _require(edited: str, expected: Any, path: Sequence[str]) -> None:  # noqa: ANN401
    """Raise TextStructureError unless the text has these values."""
    try:
        found: Any = parse_toml(edited)
    except TextSyntaxError:
        found = None
    if found is None or not (
        _is_same(found, expected) or _is_same(_remove_values(found, path), expected)
    ):
        problem = "expected a table under its own header, found one in another form"
        raise TextStructureError(dotted(path), problem)


def _is_same(one: object, other: object) -> bool:
    """True if two values are the same. A ``nan`` of TOML is not equal to itself in Python."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_is_same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_is_same, one, other))
    if isinstance(one, float) and isinstance(other, float) and one != one:  # noqa: PLR0124
        return other != other  # noqa: PLR0124
    return one == other
