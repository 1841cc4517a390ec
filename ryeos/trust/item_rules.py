"""The rules that an item keeps before it is signed, and what signing warns of."""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from lillux.errors import LilluxError
from lillux.values import dataclass, field
from ryeos.items.declarations import unread_declarations
from ryeos.items.errors import ItemValidationError, SignatureFormatError
from ryeos.items.header_values import MetadataError, PlacedMetadataError
from ryeos.items.refs import SYSTEM, Kind, valid_id
from ryeos.items.shell_headers import is_bare_script
from ryeos.items.specs import EXTRACTOR_TYPE, tool_spec
from ryeos.trust.extractors import extract, problems
from ryeos.trust.sign_targets import ReadItem, SignTarget, signature_form
from ryeos.trust.signature import (
    DETACHED_SUFFIXES,
    Identity,
    SignedText,
    compose,
    hashed_text,
    split,
    text_of,
)

_BYTE_ORDER_MARK = "\ufeff"
_VERSION = re.compile(r"[0-9A-Za-z.+-]*")
_LONE_RETURN = re.compile(rb"\r(?!\n)")
_SEPARATORS = {"\x85".encode(): "U+0085", "\u2028".encode(): "U+2028", "\u2029".encode(): "U+2029"}
_TOOL_KEY = re.compile(r'"\s*(?:executor_id|tool_type)\s*"\s*:')


@dataclass(frozen=True, slots=True)
class ValidItem:
    """A file that may be signed: its text taken apart, and the item that it is signed as.

    ``signed`` is None where the signature goes beside the file, ``identity`` where it is outside
    of the folders of kinds. ``header`` is what the file says, where it was read. ``issues`` are the
    rules of its kind that it breaks: with one it is signed as nothing, see `examine_item`.
    """

    signed: SignedText | None
    identity: Identity | None
    header: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)
    issues: tuple[str, ...] = ()


def validate_item(target: SignTarget, data: bytes) -> ValidItem:
    """Validate a file and take its text apart.

    Raises ItemValidationError, SignatureFormatError, MetadataError.
    """
    found = examine_item(target, data)
    if found.issues:
        raise ItemValidationError(str(target.path), found.issues)
    return found


def require_text_name(where: str, name: str) -> None:
    """Refuse a name whose bytes are not UTF-8: no text can name it. Raises ItemValidationError."""
    try:
        name.encode()
    except UnicodeEncodeError:
        shown = os.fsencode(where).decode("utf-8", "backslashreplace")
        raise ItemValidationError(shown, ["its name is not UTF-8: rename it"]) from None


def examine_item(target: SignTarget, data: bytes) -> ValidItem:
    """Validate as `validate_item`, with the rules that the item breaks among the result.

    Who knows further rules reports all of them at once. Raises as `validate_item`, where a file
    cannot be read far enough to look at its fields.
    """
    where = str(target.path)
    require_text_name(where, str(target.ref) if target.ref else target.path.name)
    suffix = target.verify_target.suffix
    if separators := _separators(suffix, data):
        raise ItemValidationError(where, separators)
    if suffix in DETACHED_SUFFIXES or target.ref is None:
        _require_readable_keys(target, data)
        return ValidItem(None, target.verify_target.identity(_json_version(target, data)))
    form = signature_form(target)
    text = text_of(data, form, where)
    if text.startswith(_BYTE_ORDER_MARK):
        raise SignatureFormatError(
            where,
            "byte order mark at the start of the file",
            hint="save the file as UTF-8 without one; below a signature line it would be text",
        )
    signed = split(text, form, where)
    if signed.shebang and not form.after_shebang:
        raise SignatureFormatError(
            where,
            "shebang in a file whose signature must stand on the first line",
            hint="delete the shebang; the runtime chooses the interpreter",
        )
    file_type = target.verify_target.file_type
    header = _header(target, compose(signed, form))
    if suffix == ".sh" and "executor_id" in header:
        header.setdefault("tool_type", "bash")
    further = file_type.rules if file_type else ()
    has_no_fields = is_module(target, header) or is_bare_script(suffix, compose(signed, form))
    issues = () if has_no_fields else problems(target.ref, header, further)
    if target.kind is Kind.TOOL:
        issues = (*issues, *_spec_problems(header, suffix), *_type_problems(target, header))
    issues = (*issues, *_lone_returns(data), *_unread_declarations(target, text, header))
    if target.kind is Kind.DIRECTIVE:
        issues = (*issues, *_manifest_problems(text))
    elif target.kind is Kind.TOOL and suffix == ".py":
        issues = (*issues, *_list_problems(text))
    if not issues:
        hashed_text(target.kind, signed, where)
    return ValidItem(signed, target.verify_target.identity(version_in(header)), header, issues)


def _header(target: SignTarget, text: str) -> dict[str, Any]:
    """The header of a text. Raises MetadataError, with its line and column if known."""
    at, where = target.verify_target, str(target.path)
    try:
        return extract(target.kind, at.suffix, text, where, at.file_type)
    except MetadataError as error:
        if error.column is None:
            raise
        raise PlacedMetadataError(error, where) from None


def require_no_issues(
    item: ReadItem,
    issues: Sequence[str],
    placed: Sequence[tuple[str, tuple[int, int]]] = (),
) -> None:
    """Raise ItemValidationError for an item with issues, each of them once.

    ``placed`` are further ones, with line and column.
    """
    if issues or placed:
        every = (*dict.fromkeys(issues), *(issue for issue, _ in placed))
        positions = [position for _, position in placed]
        raise ItemValidationError(str(item.target.path), every, positions)


def version_in(header: Mapping[str, Any]) -> str:
    """The version as an identity line has it: ``""`` for none, and for what is no version."""
    version = header.get("version")
    return version if isinstance(version, str) and _VERSION.fullmatch(version) else ""


def _json_version(target: SignTarget, data: bytes) -> str:
    """The version of a JSON tool; a file of data may say anything, or be no JSON."""
    if target.verify_target.suffix not in DETACHED_SUFFIXES:
        return ""
    try:
        return version_in(extract(target.kind, ".json", data.decode(), str(target.path)))
    except (LilluxError, UnicodeDecodeError):
        return ""


def _unread_declarations(
    target: SignTarget, text: str, header: Mapping[str, Any]
) -> tuple[str, ...]:
    """The lines that seem to declare what is not read of them: a reader would rely on these."""
    at = target.verify_target
    found = unread_declarations(
        target.kind,
        at.suffix,
        text,
        header,
        is_module=is_module(target, header),
        file_type=at.file_type,
    )
    return tuple(map(str, found))


def _lone_returns(data: bytes) -> tuple[str, ...]:
    """The first carriage return that is no part of a line end: to an editor the line goes on."""
    alone = _LONE_RETURN.search(data)
    if not alone:
        return ()
    line = data.count(b"\n", 0, alone.start()) + 1
    return (f"line {line}: a carriage return in the line; save the file with LF line ends",)


def _separators(suffix: str, data: bytes) -> tuple[str, ...]:
    """The characters of a YAML text that end a line there, and in no program that gets its values.

    A person would see two lines of a script where its shell sees one, which may be a comment.
    """
    if suffix not in {".yaml", ".yml"}:
        return ()
    found = sorted((data.find(one), name) for one, name in _SEPARATORS.items() if one in data)
    lines = [(data.count(b"\n", 0, at) + 1, name) for at, name in found]
    return tuple(
        f"line {line}: {name}, a line end to YAML and none to a shell; begin a new line there, or"
        " write it as an escape in double quotes"
        for line, name in lines
    )


def _require_readable_keys(target: SignTarget, data: bytes) -> None:
    """Refuse a JSON tool with a key twice or nearly right; other JSON may say anything.

    Raises ItemValidationError, MetadataError.
    """
    text = data.decode("utf-8", "replace")
    is_tool = target.ref and target.kind is Kind.TOOL and _TOOL_KEY.search(text)
    if is_tool and target.verify_target.suffix in DETACHED_SUFFIXES:
        header = extract(target.kind, ".json", text, str(target.path))
        issues = () if is_module(target, header) else _unread_declarations(target, text, header)
        if issues:
            raise ItemValidationError(str(target.path), issues)


def _manifest_problems(text: str) -> tuple[str, ...]:
    """Why the manifest of a skill would not be read, or not as a person reads it."""
    from ryeos.trust.skill_files import manifest_of

    try:
        manifest_of(text)
    except LilluxError as error:
        return (f"{error}; {error.hint}" if error.hint else str(error),)
    return ()


def _list_problems(text: str) -> Iterator[str]:
    """The lines of a Python tool that list files or packages, and are not read as that."""
    from ryeos.items.pinned_files import pinned_files, unread_blocks

    for line, problem in (*pinned_files(text).problems, *unread_blocks(text)):
        yield f"line {line}: {problem}"


def _spec_problems(header: Mapping[str, Any], suffix: str) -> tuple[str, ...]:
    """Problems that keep a tool from ever running: fields of a wrong shape, an invalid schema."""
    from lillux.schema import validate_schema
    from ryeos.items.task_items import RUNTIME as TASK_RUNTIME
    from ryeos.items.task_items import TaskItem

    try:
        spec = tool_spec(header, suffix)
        if isinstance(spec.executor_id, str):
            valid_id(spec.executor_id)
        if spec.config_schema is not None:
            validate_schema(spec.config_schema)
        if spec.executor_id == TASK_RUNTIME:
            TaskItem.from_config(spec.config)
    except LilluxError as error:
        return (str(error),)
    return ()


def _type_problems(target: SignTarget, header: Mapping[str, Any]) -> tuple[str, ...]:
    """Why an extractor would not count; those of a bundle describe what Rye knows anyway."""
    if header.get("tool_type") != EXTRACTOR_TYPE or target.space.tier == SYSTEM:
        return ()
    from ryeos.trust.file_types import read_extractor

    try:
        read_extractor(target.path.relative_to(target.space.ai).as_posix(), header)
    except LilluxError as error:
        return (str(error),)
    return ()


def is_module(target: SignTarget, header: Mapping[str, Any]) -> bool:
    """True if a file among the tools says neither what it is nor what runs it.

    It is a part of a tool, like ``__init__.py``, or a text that a shell script reads.
    """
    return target.kind is Kind.TOOL and not {"tool_type", "executor_id"} & header.keys()


def warnings_of(item: ReadItem) -> tuple[str, ...]:
    """The warnings of signing an item. Raises as `validate_item`."""
    return tuple(signing_warnings(item.target, validate_item(item.target, item.data).signed))


def lacks_executor(target: SignTarget, header: Mapping[str, Any]) -> bool:
    """True if a tool says what it is and not what runs it, not even that nothing does."""
    is_tool = target.kind is Kind.TOOL and target.verify_target.suffix != ".sh"
    return is_tool and "tool_type" in header and "executor_id" not in header


def signing_warnings(target: SignTarget, signed: SignedText | None) -> Iterator[str]:
    """Warnings about a file that is signed; ``signed`` is None beside a ``.sig``."""
    if target.path.stat().st_mode & 0o002:
        yield f"{target.path} can be written by every user of this machine"
    if signed is None:
        return
    at, text = target.verify_target, signed.shebang + signed.body
    header = extract(target.kind, at.suffix, text, str(target.path), at.file_type)
    if is_module(target, header):
        yield f"{target.path} has no header: signed as a module, not as a tool that can be run"
    elif is_bare_script(at.suffix, text):
        yield f"{target.path} has no header: it is a tool of bash, without a description"
    elif target.kind is Kind.TOOL and at.suffix != ".sh":
        from ryeos.items.unknown_keys import unknown_key_warnings

        if lacks_executor(target, header):
            yield f"{target.path} declares no executor: nothing runs it; add executor_id"
        spec = tool_spec(header, at.suffix)
        yield from unknown_key_warnings(spec, at.suffix, str(target.path))
        if spec.tool_type == "graph" and header.get("permissions") is None:
            yield (
                f"{target.path} declares no permissions: it runs only where its caller gives some"
            )
