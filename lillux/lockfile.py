"""Lockfiles: the chain a tool was resolved to, with the digest of each element.

Only the document and its file, at a path that is given. Where lockfiles live and what a mismatch
means is for others to decide. Format: docs/signatures.md, Lockfiles.
"""

import json
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, NoReturn

from lillux.canonical_json import CanonicalJsonError, json_pointer, require_json
from lillux.errors import LilluxError
from lillux.fields import Fields, is_text
from lillux.files import FileTooLargeError, read_bytes, write_atomic
from lillux.values import dataclass, field

LOCKFILE_VERSION = 1
MAX_LOCKFILE_BYTES = 4 * 1024 * 1024


class LockfileError(LilluxError):
    """A file is not a lockfile that can be relied on. ``path`` is which, ``problem`` why."""

    code, exit_status = "LOCKFILE_INVALID", 5

    def __init__(self, path: str, problem: str) -> None:
        self.path, self.problem = path, problem
        super().__init__(
            f"{path}: {problem}",
            hint="restore the lockfile from version control, or delete it and lock again",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LockfileRoot:
    """The tool that is locked. ``integrity`` is the digest of its file.

    ``provider_id`` and ``provider_version`` name who ships it; files before March 2026 lack them.
    """

    tool_id: str
    version: str
    integrity: str
    provider_id: str | None = None
    provider_version: str | None = None
    unrecognized: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class LockfileElement:
    """One element of the chain.

    A primitive has no ``executor_id``; one that is built in has no file, and so no ``integrity``.
    """

    item_id: str
    space: str
    tool_type: str | None
    executor_id: str | None
    integrity: str | None
    provider_id: str | None = None
    provider_version: str | None = None
    unrecognized: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lockfile:
    """A whole lockfile; ``resolved_chain`` goes from the tool to the primitive.

    ``generated_at`` is ISO 8601 in UTC with microseconds, ``verified_deps`` maps paths to digests.
    What the file says beyond that stays in ``unrecognized``, here and in each part.
    """

    lockfile_version: int = LOCKFILE_VERSION
    generated_at: str
    root: LockfileRoot
    resolved_chain: tuple[LockfileElement, ...]
    registry: Any = None
    verified_deps: Mapping[str, str] | None = None
    unrecognized: Mapping[str, Any] = field(default_factory=dict)


def load_lockfile(path: Path) -> Lockfile:
    """The lockfile at a path.

    Raises FileNotFoundError, FileTooLargeError, FileSystemError, and LockfileError when it cannot
    be read as one: a broken lockfile is never taken for none.
    """
    return _parse_cached(read_bytes(path, MAX_LOCKFILE_BYTES), str(path))


@lru_cache(maxsize=32)
def _parse_cached(data: bytes, where: str) -> Lockfile:
    """The parsed bytes, never changed. A graph asks for the same ones at every step."""
    return parse_lockfile(data, where)


def save_lockfile(path: Path, lockfile: Lockfile, *, within: Path | None = None) -> None:
    """Write a lockfile, whole or not at all; its folder must exist.

    Raises FileSystemError, and with ``within`` as `lillux.files.write_atomic`.
    """
    write_atomic(path, dump_lockfile(lockfile), within=within)


def dump_lockfile(lockfile: Lockfile) -> bytes:
    """The text of a lockfile: JSON with an indent of 2, ASCII, no newline at the end.

    Raises CanonicalJsonError for a ``registry`` or unrecognized part that JSON cannot hold.
    """
    document = _known_and_more(
        {
            "lockfile_version": lockfile.lockfile_version,
            "generated_at": lockfile.generated_at,
            "root": _root_document(lockfile.root),
            "resolved_chain": [_element_document(part) for part in lockfile.resolved_chain],
            "registry": lockfile.registry,
            "verified_deps": lockfile.verified_deps and dict(lockfile.verified_deps),
        },
        lockfile.unrecognized,
    )
    require_json(document)
    return json.dumps(document, indent=2).encode("ascii")


def parse_lockfile(data: bytes, where: str) -> Lockfile:
    """The lockfile in the bytes of a file; ``where`` names the file in errors.

    Unknown keys are kept. Raises LockfileError, FileTooLargeError.
    """
    if len(data) > MAX_LOCKFILE_BYTES:
        raise FileTooLargeError(where, len(data), MAX_LOCKFILE_BYTES)
    part = _Part(_json_document(data, where), where, ())
    lockfile_version = part.required("lockfile_version")
    if type(lockfile_version) is not int or lockfile_version != LOCKFILE_VERSION:
        part.refuse("lockfile_version", str(LOCKFILE_VERSION), lockfile_version)
    return Lockfile(
        lockfile_version=lockfile_version,
        generated_at=part.required_text("generated_at"),
        root=_root(part.required("root"), where),
        resolved_chain=_chain(part),
        registry=part.any("registry"),
        verified_deps=_verified_deps(part),
        unrecognized=part.rest(),
    )


class _Part(Fields):
    """One mapping of the document."""

    text_word = "text"

    def __init__(self, value: object, where: str, path: tuple[str | int, ...]) -> None:
        self.where, self.path = where, path
        if not isinstance(value, dict):
            found = type(value).__name__
            place = json_pointer(path) or "(root)"
            raise LockfileError(where, f"{place}: expected a mapping, found {found}")
        super().__init__(value, self.refuse)

    def required(self, key: str) -> Any:  # noqa: ANN401 - JSON, judged by the caller
        self.read_keys.add(key)
        if key not in self.data:
            place = ".".join(map(str, (*self.path, key)))
            raise LockfileError(self.where, f"Missing required field {place}")
        return self.data[key]

    def required_text(self, key: str) -> str:
        value = self.required(key)
        if not isinstance(value, str):
            self.refuse(key, self.text_word, value)
        return str(value)

    def optional_text(self, key: str) -> str | None:
        text: str | None = self.read(key, is_text, "text or null")
        return text

    def rest(self) -> dict[str, Any]:
        """Keys that were not read, with their values."""
        return {key: value for key, value in self.data.items() if key not in self.read_keys}

    def refuse(self, key: str, expected: str, value: object) -> NoReturn:
        place = json_pointer((*self.path, key))
        shown = value if isinstance(value, int) else type(value).__name__
        raise LockfileError(self.where, f"{place}: expected {expected}, found {shown}")


def _json_document(data: bytes, where: str) -> object:
    try:
        document: object = json.loads(data.decode("utf-8"))
        require_json(document)
    except RecursionError:
        raise LockfileError(where, "nested too deeply") from None
    except CanonicalJsonError as error:
        raise LockfileError(where, str(error)) from error
    except UnicodeDecodeError as error:
        raise LockfileError(where, f"not UTF-8 at byte {error.start}") from error
    except json.JSONDecodeError as error:
        place = f"line {error.lineno} column {error.colno}"
        raise LockfileError(where, f"not JSON at {place}: {error.msg.lower()}") from error
    except ValueError as error:  # an integer of thousands of digits
        raise LockfileError(where, "holds a number that is too large") from error
    return document


def _root(value: object, where: str) -> LockfileRoot:
    part = _Part(value, where, ("root",))
    return LockfileRoot(
        tool_id=part.required_text("tool_id"),
        version=part.required_text("version"),
        integrity=part.required_text("integrity"),
        provider_id=part.optional_text("provider_id"),
        provider_version=part.optional_text("provider_version"),
        unrecognized=part.rest(),
    )


def _chain(part: _Part) -> tuple[LockfileElement, ...]:
    chain = part.required("resolved_chain")
    if not isinstance(chain, list):
        part.refuse("resolved_chain", "a list", chain)
    return tuple(
        _element(_Part(value, part.where, ("resolved_chain", index)))
        for index, value in enumerate(chain)
    )


def _element(part: _Part) -> LockfileElement:
    return LockfileElement(
        item_id=part.required_text("item_id"),
        space=part.required_text("space"),
        tool_type=part.optional_text("tool_type"),
        executor_id=part.optional_text("executor_id"),
        integrity=part.optional_text("integrity"),
        provider_id=part.optional_text("provider_id"),
        provider_version=part.optional_text("provider_version"),
        unrecognized=part.rest(),
    )


def _verified_deps(part: _Part) -> Mapping[str, str] | None:
    value = part.any("verified_deps")
    if value is None:
        return None
    deps = _Part(value, part.where, ("verified_deps",))
    return {path: deps.required_text(path) for path in value}


def _root_document(root: LockfileRoot) -> dict[str, Any]:
    known = {"tool_id": root.tool_id, "version": root.version, "integrity": root.integrity}
    provider = _provider_document(root.provider_id, root.provider_version)
    return _known_and_more(known | provider, root.unrecognized)


def _element_document(element: LockfileElement) -> dict[str, Any]:
    known = {
        "item_id": element.item_id,
        "space": element.space,
        "tool_type": element.tool_type,
        "executor_id": element.executor_id,
        "integrity": element.integrity,
    }
    provider = _provider_document(element.provider_id, element.provider_version)
    return _known_and_more(known | provider, element.unrecognized)


def _provider_document(provider_id: str | None, version: str | None) -> dict[str, str]:
    named = {"provider_id": provider_id, "provider_version": version}
    return {name: text for name, text in named.items() if text is not None}


def _known_and_more(known: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    return {**known, **{name: value for name, value in more.items() if name not in known}}
