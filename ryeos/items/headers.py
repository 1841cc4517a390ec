"""Reads the header of a file as data, by file type. Formats: ``docs/items.md``.

Text goes in that is verified already, a mapping comes out. Nothing is imported or executed, and
whatever the text is, the only exception is MetadataError.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from ryeos.items.header_values import MetadataError

if TYPE_CHECKING:
    from ryeos.items.refs import FileType


def parse_header(
    suffix: str, text: str, where: str = "", file_type: "FileType | None" = None
) -> dict[str, Any]:
    """The header of a tool or a configuration file, by the suffix of its name.

    ``file_type`` is that of a suffix which a space has added.

    ``text`` may begin with a shebang and a signature line. ``where`` is the item or file that
    messages name. Keys are as the format spells them: ``__version__`` in a Python file, ``version``
    in a YAML file.

    Raises MetadataError, also for a suffix that has no parser.
    """
    parse = partial(_added_type_header, file_type) if file_type else PARSERS.get(suffix.lower())
    if parse is None:
        known = " ".join(PARSERS)
        raise MetadataError("tool", f"expected a suffix of {known}, found {suffix!r}", place=where)
    try:
        return parse(text)
    except MetadataError as error:
        if not where:
            raise
        place = f"{where}: {error.place}"
        raise MetadataError(
            error.parser,
            error.problem,
            error.line,
            place=place,
            hint=error.hint,
            column=error.column if suffix.lower() in _WHOLE_FILES else None,
        ) from error


# Their header is the file: a line of it is a line of the file.
_WHOLE_FILES = (".yaml", ".yml")


def _added_type_header(file_type: "FileType", text: str) -> dict[str, Any]:
    from ryeos.items.comment_headers import parse_block, parse_tags, without_first_lines

    plain = without_first_lines(text, file_type.prefix, shebang=file_type.after_shebang)
    match file_type.parser:
        case "comments/tags":
            header = parse_tags(plain, file_type.comment)
        case "comments/yaml":
            header = parse_block(plain, file_type.comment)
        case name:
            header = NAMED_PARSERS[name](plain)
    taken = {field: header[key] for field, key in file_type.fields.items() if key in header}
    return taken | header


# One function per format, so that a Python tool does not pay for PyYAML.


def _python(text: str) -> dict[str, Any]:
    from ryeos.items.python_headers import parse_python

    return parse_python(text)


def _yaml(text: str) -> dict[str, Any]:
    from ryeos.items.yaml import parse_yaml

    return parse_yaml(text, "yaml header")


def _json(text: str) -> dict[str, Any]:
    from ryeos.items.json_documents import parse_json

    return parse_json(text)


def _javascript(text: str) -> dict[str, Any]:
    from ryeos.items.javascript import parse_javascript

    return parse_javascript(text)


def _shell(text: str) -> dict[str, Any]:
    from ryeos.items.shell_headers import BARE_SCRIPT, is_undeclared_script, parse_shell

    header = parse_shell(text)
    return BARE_SCRIPT | header if is_undeclared_script(text, header) else header


def _toml(text: str) -> dict[str, Any]:
    from ryeos.items.toml import parse_toml

    return parse_toml(text)


PARSERS: Mapping[str, Callable[[str], dict[str, Any]]] = {
    ".py": _python,
    ".yaml": _yaml,
    ".yml": _yaml,
    ".json": _json,
    ".js": _javascript,
    ".ts": _javascript,
    ".mjs": _javascript,
    ".cjs": _javascript,
    ".sh": _shell,
    ".toml": _toml,
}
"""Suffix -> parser, in the order in which files of one id are looked for."""

NAMED_PARSERS: Mapping[str, Callable[[str], dict[str, Any]]] = {
    "python/ast": _python,
    "yaml/yaml": _yaml,
    "json/json": _json,
    "javascript/javascript": _javascript,
    "shell/shell": _shell,
    "toml/toml": _toml,
}
"""Name in an extractor -> parser; those of comments take the comment's mark too."""
COMMENT_PARSERS = ("comments/tags", "comments/yaml")
