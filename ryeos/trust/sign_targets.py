"""The files to sign: by reference, by glob, by path. Looks at names only.

Patterns leave out folders and files beside items that are not items. The lists of these are data,
the tool item ``rye/core/bundler/collect``: that of the project, else of the user, else of a bundle.
One that does not verify is passed over with a warning.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from fnmatch import translate
from functools import lru_cache
from pathlib import Path
from typing import Any

from lillux.digests import sha256_hex
from lillux.errors import LilluxError
from lillux.files import is_directory, read_bytes
from lillux.values import dataclass, field
from ryeos.items.errors import InvalidRefError, ItemNotFoundError
from ryeos.items.refs import (
    AI_DIRECTORY,
    ItemRef,
    Kind,
    Reference,
    Space,
    Spaces,
    kind_of_directory,
)
from ryeos.trust.extractors import extract
from ryeos.trust.resolver import candidates, is_regular_file, locations, passed_over
from ryeos.trust.signature import MAX_ITEM_BYTES, CommentForm, form_for
from ryeos.trust.verify import Target, Verifier

COLLECT_FILE = "rye/core/bundler/collect.yaml"


@dataclass(frozen=True, slots=True)
class Exclusions:
    """Names of folders and of files that no pattern means."""

    folders: frozenset[str] = frozenset()
    files: frozenset[str] = frozenset()

    def leave_out(self, path: Path, space: Space, kind: Kind) -> bool:
        """True if a file of a space is left out, for its name or for a folder that it is in."""
        inside = path.relative_to(space.directory(kind)).parts[:-1]
        return path.name in self.files or not self.folders.isdisjoint(inside)


def exclusions(spaces: Spaces, verifier: Verifier, warn: Callable[[str], None]) -> Exclusions:
    """The lists that count here."""
    for space in spaces:
        path = space.directory(Kind.TOOL) / COLLECT_FILE
        if is_regular_file(path):
            try:
                return _read(Target(path=path, kind=Kind.TOOL, space=space), verifier)
            except LilluxError as error:
                warn(f"its lists are not used: {error}")
    return Exclusions()


def _read(target: Target, verifier: Verifier) -> Exclusions:
    item = verifier.verify(target)
    header = item.header or extract(Kind.TOOL, target.suffix, item.text, str(target.path))
    return Exclusions(_names(header, "exclude_dirs"), _names(header, "exclude_files"))


def _names(header: Mapping[str, Any], key: str) -> frozenset[str]:
    names = header.get(key)
    return frozenset(filter(lambda name: isinstance(name, str), names or ()))


GLOB_CHARACTERS = frozenset("*?[")
NO_EXCLUSIONS = Exclusions()
_NAMED_FILES = 5
SKIPPED_FILES = frozenset({"package.json", "package-lock.json", "yarn.lock", "pnpm-lock.yaml"})


@dataclass(frozen=True, slots=True, kw_only=True)
class SignTarget:
    """A file to sign. ``ref`` is None for a data file that is no item."""

    path: Path
    kind: Kind
    space: Space
    ref: ItemRef | None

    @property
    def label(self) -> str:
        """The name of it in reports."""
        return str(self.ref) if self.ref else str(self.path)

    @property
    def verify_target(self) -> Target:
        """The same file for the verifier."""
        return Target(path=self.path, kind=self.kind, space=self.space)


@dataclass(frozen=True, slots=True)
class ReadItem:
    """A file to sign with its bytes, read once: these are compared, shown, signed and kept."""

    target: SignTarget
    data: bytes = field(repr=False)

    @property
    def sha256(self) -> str:
        """The digest of the bytes."""
        return sha256_hex(self.data)


def targets_of_reference(reference: Reference, space: Space) -> tuple[SignTarget, ...]:
    """The file that a reference names in one space. Raises ItemNotFoundError, InvalidRefError."""
    found = []
    for ref in reference.refs(tuple(Kind)):
        for path in candidates(space, ref):
            if is_regular_file(path):
                found.append(SignTarget(path=path, kind=ref.kind, space=space, ref=ref))
                break
    if len({target.kind for target in found}) > 1:
        raise InvalidRefError(
            str(reference), f"several kinds have it: {', '.join(t.label for t in found)}"
        )
    if not found:
        _require_no_folder(reference, space)
        raise ItemNotFoundError(str(reference), [space.label])
    return tuple(found)


def targets_of_glob(
    kind: Kind | None,
    pattern: str,
    space: Space,
    excluded: Exclusions = NO_EXCLUSIONS,
    *,
    warn: Callable[[str], None] | None = None,
) -> tuple[SignTarget, ...]:
    """Every item of a space whose id matches, by id. Raises ItemNotFoundError for none.

    Without a slash the pattern is for the last segment at any depth; with one it starts at the
    kind's folder, ``*`` stays within a segment and ``**`` stands for any number of them.
    Modules beside tools count, also ``__init__.py``: a tool that imports them needs them signed.
    ``warn`` learns which files match and are left out, hidden ones and those in folders that no
    pattern enters too.
    """
    matches = glob_matcher(pattern)
    kinds = (kind,) if kind else (Kind.TOOL, Kind.DIRECTIVE, Kind.KNOWLEDGE)
    found: list[SignTarget] = []
    left_out: list[str] = []
    for one in kinds:
        for location in locations(space, one, modules=one is Kind.TOOL):
            path, ref = location.path, location.ref
            if not matches(ref.id):
                continue
            if path.name in SKIPPED_FILES or excluded.leave_out(path, space, one):
                left_out.append(path.relative_to(space.directory(one)).as_posix())
            else:
                found.append(SignTarget(path=path, kind=one, space=space, ref=ref))
        if warn:
            left_out += passed_over(space, one, matches, modules=one is Kind.TOOL)
    if left_out and found and warn:
        names = ", ".join(left_out[:_NAMED_FILES])
        more = f" and {len(left_out) - _NAMED_FILES} more" if len(left_out) > _NAMED_FILES else ""
        warn(f"the pattern leaves out {names}{more}; to sign one of them, give its path")
    if not found:
        raise ItemNotFoundError(f"{kind.value}:{pattern}" if kind else pattern, [space.label])
    return tuple(sorted(found, key=lambda target: str(target.ref)))


def target_of_path(path: Path, spaces: Spaces) -> SignTarget:
    """The file at a path, which must lie in a space. Raises InvalidRefError otherwise."""
    for absolute in _spellings(path):
        for space in spaces:
            target = _target_below(absolute, space)
            if target and not is_directory(absolute):
                return target
            pattern = _pattern_of_folder(absolute, space)
            if pattern:
                raise _folder_error(str(path), pattern)
    raise InvalidRefError(
        str(path),
        f"expected a file below {AI_DIRECTORY}/ of the project or user space"
        f" (tools, directives, knowledge, config), found one outside",
    )


def _spellings(path: Path) -> tuple[Path, ...]:
    """The path as typed, and with its links followed; one with ``..`` as the system reads it."""
    absolute = path.absolute()
    try:
        real = absolute.resolve()
    except (OSError, ValueError, RuntimeError):  # RuntimeError: links that lead in a circle
        return ()
    return (real,) if ".." in absolute.parts else (absolute, real)


def _target_below(path: Path, space: Space) -> SignTarget | None:
    for root in (space.ai, space.ai.resolve()):
        if path.is_relative_to(root):
            folder, _, rest = path.relative_to(root).as_posix().partition("/")
            kind = kind_of_directory(folder)
            if kind and rest:
                is_item = space.has_suffix(kind, path.suffix.lower())
                ref = ItemRef(kind, Path(rest).with_suffix("").as_posix()) if is_item else None
                return SignTarget(path=path, kind=kind, space=space, ref=ref)
    return None


def _pattern_of_folder(path: Path, space: Space) -> str:
    """The pattern of all items in a folder of items, ``""`` for another path."""
    for root in (space.ai, space.ai.resolve()):
        if is_directory(path) and path.is_relative_to(root):
            folder, _, rest = path.relative_to(root).as_posix().partition("/")
            kind = kind_of_directory(folder)
            if kind:
                return f"{kind.value}:{rest}/**" if rest else f"{kind.value}:**"
    return ""


def _require_no_folder(reference: Reference, space: Space) -> None:
    for ref in reference.refs(tuple(Kind)):
        if is_directory(space.directory(ref.kind) / ref.id):
            raise _folder_error(str(reference), f"{reference}/**")


def _folder_error(named: str, pattern: str) -> InvalidRefError:
    from shlex import quote

    return InvalidRefError(
        named,
        f"names a folder; for all items in it: {pattern}",
        hint=f"to sign these: rye sign {quote(pattern)}",
    )


@lru_cache(maxsize=256)
def glob_matcher(pattern: str) -> Callable[[str], bool]:
    """True if an id is one that a pattern is for, see `targets_of_glob`."""
    segments = pattern.split("/") if "/" in pattern else ["**", pattern]
    if segments[-1] == "**":
        segments.append("*")  # what stands before is a folder, and not meant itself
    rules = [None if segment == "**" else re.compile(translate(segment)) for segment in segments]
    return lambda item_id: _matches(rules, item_id.split("/"))


def _matches(rules: Sequence[re.Pattern[str] | None], segments: Sequence[str]) -> bool:
    """True if the rules, None for any number of segments, use up all segments.

    Goes over the rules once, with every number of segments that may be used up by then.
    """
    used = {0}
    for rule in rules:
        if rule is None:
            used = set(range(min(used), len(segments) + 1)) if used else used
        else:
            used = {n + 1 for n in used if n < len(segments) and rule.match(segments[n])}
    return len(segments) in used


def read_item(target: SignTarget) -> ReadItem:
    """The file with its bytes, read through one descriptor.

    Raises ItemNotFoundError, FileTooLargeError, LinkOnTheWayError.
    """
    try:
        data = read_bytes(target.path, MAX_ITEM_BYTES, within=target.space.within)
        return ReadItem(target, data)
    except FileNotFoundError:
        raise ItemNotFoundError(target.label, [target.space.label]) from None


def signature_form(target: SignTarget) -> CommentForm:
    """The form of a file's signature line. Raises NoSignatureFormError."""
    at = target.verify_target
    return at.form or form_for(target.kind, at.suffix, str(target.path))
