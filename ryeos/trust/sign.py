"""Signing: validate first, then write the lines, then verify what was written.

(1) find the file and its kind, refuse system items
(2) parse and validate; a failure writes nothing
(3) take the old lines out, hash, sign, put the new lines in
(4) replace the file, if it still is what was read; many files wait for the disk together
(5) verify what was written as any reader would
"""

import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from fnmatch import translate
from functools import lru_cache
from pathlib import Path
from typing import Any

from lillux.digests import sha256_hex
from lillux.errors import LilluxError
from lillux.files import (
    FileChangedError,
    PreparedWrite,
    is_directory,
    is_inside,
    locked,
    make_directory,
    prepare_write,
    read_bytes,
    replace_together,
    write_atomic,
)
from lillux.values import dataclass, field
from ryeos.items.declarations import unread_declarations
from ryeos.items.errors import (
    ChainError,
    IntegrityError,
    InvalidRefError,
    ItemNotFoundError,
    ItemValidationError,
    NoSignatureFormError,
    SignatureFormatError,
    SystemImmutableError,
    UnboundSignatureError,
    UnsignedError,
)
from ryeos.items.header_values import MetadataError, PlacedMetadataError
from ryeos.items.headers import is_bare_script
from ryeos.items.refs import (
    AI_DIRECTORY,
    SYSTEM,
    ItemRef,
    Kind,
    Reference,
    Space,
    Spaces,
    kind_of_directory,
    user_lock,
    valid_id,
)
from ryeos.items.specs import EXTRACTOR_TYPE, tool_spec
from ryeos.trust.file_types import extract, problems
from ryeos.trust.keys import SigningKey
from ryeos.trust.resolver import candidates, escaped, is_regular_file, locations, passed_over
from ryeos.trust.signature import (
    DETACHED_SUFFIXES,
    MAX_ITEM_BYTES,
    CommentForm,
    Identity,
    Signature,
    SignedText,
    compose,
    detached_path,
    form_for,
    hashed_text,
    split,
    text_of,
)
from ryeos.trust.verify import MANAGED_JSON, Coverage, Target, VerifiedItem, Verifier

# --- collecting -----------------------------------------------------------------------------------
# What patterns leave out: folders and files beside items that are not items.
#
# The lists are data, the tool item ``rye/core/bundler/collect``: that of the project, else of the
# user, else of a bundle. One that does not verify is passed over with a warning.

COLLECT_FILE = "rye/core/bundler/collect.yaml"


@dataclass(frozen=True, slots=True)
class Exclusions:
    """Names of folders and of files that no pattern means."""

    folders: frozenset[str] = frozenset()
    files: frozenset[str] = frozenset()

    def leave_out(self, path: Path, space: Space, kind: Kind) -> bool:
        """Whether a file of a space is left out, for its name or for a folder that it is in."""
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


# --- sign targets ---------------------------------------------------------------------------------
# The files to sign: by reference, by glob, by path. Looks at names only.

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
        """How reports name it."""
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
    """As it is typed, and with every link followed; one with ``..`` only as the system reads it."""
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
    """Whether an id is one that a pattern is for, see `targets_of_glob`."""
    segments = pattern.split("/") if "/" in pattern else ["**", pattern]
    if segments[-1] == "**":
        segments.append("*")  # what stands before is a folder, and not meant itself
    rules = [None if segment == "**" else re.compile(translate(segment)) for segment in segments]
    return lambda item_id: _matches(rules, item_id.split("/"))


def _matches(rules: Sequence[re.Pattern[str] | None], segments: Sequence[str]) -> bool:
    """Whether the rules, None for any number of segments, use up all segments.

    Goes over the rules once, with every number of segments that may be used up by then.
    """
    used = {0}
    for rule in rules:
        if rule is None:
            used = set(range(min(used), len(segments) + 1)) if used else used
        else:
            used = {n + 1 for n in used if n < len(segments) and rule.match(segments[n])}
    return len(segments) in used


# --- sign -----------------------------------------------------------------------------------------

_BYTE_ORDER_MARK = "\ufeff"
_VERSION = re.compile(r"[0-9A-Za-z.+-]*")
_LONE_RETURN = re.compile(rb"\r(?!\n)")
_SEPARATORS = {"\x85".encode(): "U+0085", "\u2028".encode(): "U+2028", "\u2029".encode(): "U+2029"}
_TOOL_KEY = re.compile(r'"\s*(?:executor_id|tool_type)\s*"\s*:')
_FILES_PER_WAIT = 128
"""Files that are written to the disk together: so many are signed between two reports."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SignReport:
    """What happened to one file; exactly one of ``signature`` and ``error`` is set.

    ``data`` are the bytes that were read, and signed unless there is an error.
    """

    target: SignTarget
    signature: Signature | None = None
    identity: Identity | None = None
    unchanged: bool = False
    error: LilluxError | None = None
    warnings: tuple[str, ...] = ()
    data: bytes = field(default=b"", repr=False)


@dataclass(frozen=True, slots=True)
class _BegunSigning:
    """A file whose signed text is written beside it. ``written`` is what the item is from now."""

    item: ReadItem
    signed: SignedText | None
    written: bytes
    writing: PreparedWrite


class Signer:
    """Signs files of the project and user spaces with one key."""

    def __init__(self, key: SigningKey, verifier: Verifier) -> None:
        self._key = key
        self._verifier = verifier

    def sign_all(
        self,
        items: Sequence[SignTarget | ReadItem],
        *,
        force: bool,
        require: "Require" = lambda item, valid: require_no_issues(item, valid.issues),
    ) -> Iterator[SignReport]:
        """Sign in the given order; a failure is a report, and the rest continues.

        What was read before is signed as it was read, and only where the file still has these
        bytes. ``require`` raises what is wrong with one: its issues, and what else it knows of.
        Many files wait for the disk together.
        """
        done, together = 0, 1
        while done < len(items):
            batch = items[done : done + together]
            # The first report comes at once; a batch that is cancelled early has signed few.
            done, together = done + together, min(2 * together, _FILES_PER_WAIT)
            targets = [one.target if isinstance(one, ReadItem) else one for one in batch]
            with ExitStack() as locks:
                spaces = {t.space.ai: t.space for t in targets if t.space.tier != SYSTEM}
                try:
                    for ai in sorted(spaces):
                        held = locked(spaces[ai].lock("sign"), within=spaces[ai].within)
                        locks.enter_context(held)
                    reports = self._sign_batch(batch, require, force=force)
                except LilluxError as error:
                    reports = [SignReport(target=target, error=error) for target in targets]
            yield from reports

    def _sign_batch(
        self, items: Sequence[SignTarget | ReadItem], require: "Require", *, force: bool
    ) -> list[SignReport]:
        begun: list[_BegunSigning | SignReport] = []
        try:
            for one in items:
                target = one.target if isinstance(one, ReadItem) else one
                try:
                    require_writable(target)  # (1)
                    item = one if isinstance(one, ReadItem) else read_item(one)
                    begun.append(self._begin(item, require, force=force))
                except LilluxError as error:
                    begun.append(SignReport(target=target, error=error))
            failed = replace_together(
                [one.writing for one in begun if isinstance(one, _BegunSigning)]
            )
        finally:
            for begin in begun:
                if isinstance(begin, _BegunSigning):
                    begin.writing.drop()
        return [one if isinstance(one, SignReport) else self._end(one, failed) for one in begun]

    def sign(self, item: SignTarget | ReadItem, *, force: bool = False) -> SignReport:
        """Validate and sign one file. Raises what the failing step raises; the file is whole."""
        (report,) = self.sign_all([item], force=force)
        if report.error:
            raise report.error
        return report

    def _begin(
        self, item: ReadItem, require: "Require", *, force: bool
    ) -> "_BegunSigning | SignReport":
        target = item.target
        valid = examine_item(target, item.data)  # (2)
        require(item, valid)
        current = None if force else self._valid_signature(item, valid.identity)
        if current:
            return SignReport(target=target, signature=current, unchanged=True, data=item.data)
        return self._signed_beside(item, valid)  # (3)

    def _end(self, begun: "_BegunSigning", failed: Mapping[Path, LilluxError]) -> SignReport:
        target = begun.item.target
        error = failed.get(begun.writing.path)  # (4)
        if error is None:
            try:  # (5) what was written: another file may stand there by now
                verified = self._verifier.verify(target.verify_target, begun.written)
            except LilluxError as found:
                error = found
        if error:
            return SignReport(target=target, error=error)
        warnings = tuple(_warnings(target, begun.signed))
        return SignReport(
            target=target,
            signature=verified.signature,
            identity=verified.identity,
            warnings=warnings,
            data=begun.item.data,
        )

    def _valid_signature(self, item: ReadItem, identity: Identity | None) -> Signature | None:
        """The signature that is there, if it is valid, ours, for this item, over the whole text."""
        try:
            verified = self._verifier.verify(item.target.verify_target, item.data)
        except LilluxError:
            return None
        # Another program may have signed with this key, and covered less of the text.
        whole = verified.verified and verified.coverage is Coverage.FULL
        ours = verified.key and verified.key.fingerprint == self._key.fingerprint
        is_bound = verified.identity == identity
        return verified.signature if whole and ours and is_bound else None

    def _signed_beside(self, item: ReadItem, valid: "ValidItem") -> _BegunSigning:
        """The signed text, written beside the file.

        Raises FileChangedError, FileSystemError, LinkOnTheWayError.
        """
        target, signed = item.target, valid.signed
        within = target.space.within
        path = _real_path(target) if within is None else target.path
        if signed is None:
            if read_bytes(path, MAX_ITEM_BYTES, within=within) != item.data:
                raise FileChangedError(str(target.path))
            line = self._key.detached_line(item.data, valid.identity)
            writing = prepare_write(detached_path(path), line.encode(), within=within)
            return _BegunSigning(item, signed, item.data, writing)
        text = self._key.signed_text(target.kind, signed, _form(target), str(path), valid.identity)
        written = text.encode()
        writing = prepare_write(path, written, expected=item.data, within=within)
        return _BegunSigning(item, signed, written, writing)


def require_writable(target: SignTarget) -> None:
    """Refuse what belongs to a bundle, and a link that leads elsewhere.

    Raises SystemImmutableError, IntegrityError.
    """
    if target.space.tier == SYSTEM:
        raise SystemImmutableError(target.label)
    if not is_inside(target.path, target.space.directory(target.kind)):
        raise escaped(target.path, target.space)


def _real_path(target: SignTarget) -> Path:
    """Where the file is, all links followed, below the folder of its kind. Raises IntegrityError.

    The user's own space may lie behind links; in a project none is followed: see `Space.within`.
    """
    path = target.path.resolve()
    if not path.is_relative_to(target.space.directory(target.kind).resolve()):
        raise escaped(target.path, target.space)
    return path


def read_item(target: SignTarget) -> ReadItem:
    """The file with its bytes, read through one descriptor.

    Raises ItemNotFoundError, FileTooLargeError, LinkOnTheWayError.
    """
    try:
        data = read_bytes(target.path, MAX_ITEM_BYTES, within=target.space.within)
        return ReadItem(target, data)
    except FileNotFoundError:
        raise ItemNotFoundError(target.label, [target.space.label]) from None


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
    """As `validate_item`, with the rules that the item breaks among the result.

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
    form = _form(target)
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
    """What a text says of itself. Raises MetadataError, with its line and column if known."""
    at, where = target.verify_target, str(target.path)
    try:
        return extract(target.kind, at.suffix, text, where, at.file_type)
    except MetadataError as error:
        if error.column is None:
            raise
        raise PlacedMetadataError(error, where) from None


Require = Callable[[ReadItem, ValidItem], None]


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
    """What would keep a tool from ever running: fields of a wrong shape, an invalid schema."""
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


def _form(target: SignTarget) -> CommentForm:
    """The form of a file's signature line. Raises NoSignatureFormError."""
    at = target.verify_target
    return at.form or form_for(target.kind, at.suffix, str(target.path))


def is_module(target: SignTarget, header: Mapping[str, Any]) -> bool:
    """Whether a file among the tools says neither what it is nor what runs it.

    It is a part of a tool, like ``__init__.py``, or a text that a shell script reads.
    """
    return target.kind is Kind.TOOL and not {"tool_type", "executor_id"} & header.keys()


def warnings_of(item: ReadItem) -> tuple[str, ...]:
    """What signing an item would warn of. Raises as `validate_item`."""
    return tuple(_warnings(item.target, validate_item(item.target, item.data).signed))


def lacks_executor(target: SignTarget, header: Mapping[str, Any]) -> bool:
    """Whether a tool says what it is and not what runs it, not even that nothing does."""
    is_tool = target.kind is Kind.TOOL and target.verify_target.suffix != ".sh"
    return is_tool and "tool_type" in header and "executor_id" not in header


def _warnings(target: SignTarget, signed: SignedText | None) -> Iterator[str]:
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
        from ryeos.items.specs import unknown_key_warnings

        if lacks_executor(target, header):
            yield f"{target.path} declares no executor: nothing runs it; add executor_id"
        spec = tool_spec(header, at.suffix)
        yield from unknown_key_warnings(spec, at.suffix, str(target.path))
        if spec.tool_type == "graph" and header.get("permissions") is None:
            yield (
                f"{target.path} declares no permissions: it runs only where its caller gives some"
            )


# --- audit ----------------------------------------------------------------------------------------
# The state of many files at once: what ``rye verify`` reports.
#
# States: ``valid``, ``unsigned``, ``tampered``, ``untrusted-key``, ``bad-format``; ``skipped`` for
# a file type that has no signature form, and for what package managers wrote, unsigned.
# Nothing is parsed, nothing stops at the first problem.

VALID, SKIPPED, BAD_FORMAT, REFUSED = "valid", "skipped", "bad-format", "refused"
# Files below a folder outside every space are checked with the user's own keys only.
OUTSIDE = "outside"
_SKIPPED_FOLDERS = frozenset({"__pycache__", "node_modules", ".venv", ".git"})
_MANIFESTS = frozenset({"manifest.yaml", "manifest.yml", "files.manifest"})


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditReport:
    """One file's state. ``problem`` and ``hint`` are set where the state is not valid."""

    target: Target
    state: str
    ref: ItemRef | None = None
    item: VerifiedItem | None = None
    fingerprint: str = ""
    problem: str = ""
    hint: str = ""

    def describe(self) -> dict[str, Any]:
        """The report as ``verify --json`` shows it."""
        described: dict[str, Any] = {"ref": str(self.ref)} if self.ref else {}
        described |= {"path": str(self.target.path), "state": self.state}
        signature = self.item.signature if self.item else None
        key = self.item.key if self.item else None
        fingerprint = key.fingerprint if key else self.fingerprint
        if fingerprint:
            described["fingerprint"] = fingerprint
        if key:
            described["signer"] = key.owner
        if signature:
            described["signed_at"] = signature.timestamp
        if self.provenance:
            described["provenance"] = self.provenance
        if self.item:
            described["coverage"] = self.item.coverage.value
            described["identity"] = "bound" if self.item.identity else "unbound"
        if self.problem:
            described["problem"] = self.problem
        if self.hint:
            described["hint"] = self.hint
        return described

    @property
    def provenance(self) -> str:
        """Who published the item in which registry, as its line says; no signature covers that."""
        signature = self.item.signature if self.item else None
        return signature.provenance if signature else ""

    @property
    def is_partial(self) -> bool:
        """Whether the file is valid although part of its text is not covered."""
        return self.item is not None and self.item.coverage is Coverage.PARTIAL


def audit(
    targets: Iterable[Target],
    verifier: Verifier,
    require: Callable[[ItemRef, VerifiedItem], None] = lambda _ref, _item: None,
) -> Iterator[AuditReport]:
    """The state of every target, in their order. ``require`` raises what else is wrong with one."""
    for target in targets:
        yield _audit_one(target, verifier, require)


def counts(reports: Sequence[AuditReport]) -> dict[str, int]:
    """How many files are in each state."""
    return dict(sorted(Counter(report.state for report in reports).items()))


def targets_in_spaces(spaces: Iterable[Space]) -> Iterator[Target]:
    """Every item file of the spaces."""
    for space in spaces:
        yield from targets_below(space.ai, space)


def targets_at(path: Path, spaces: Spaces) -> list[Target]:
    """The item files that a path stands for: itself, or all below any ``.ai`` in a folder.

    Raises ItemNotFoundError when there is nothing at the path.
    """
    absolute = path.absolute()
    space = _space_around(absolute, spaces)
    if is_regular_file(absolute):
        kind = _kind(absolute, space.ai) or Kind.TOOL
        return [Target(path=absolute, kind=kind, space=space)]
    if not is_directory(absolute):
        raise ItemNotFoundError(str(path), ["the file system"])
    if absolute.is_relative_to(space.ai):
        found = list(targets_below(absolute, space))
    else:
        found = [
            target
            for ai in _ai_folders(absolute)
            for target in targets_below(ai, _space_of(ai, spaces))
        ]
    if not found:
        raise ItemNotFoundError(f"items in {path}", ["the file system"])
    return found


def targets_below(folder: Path, space: Space) -> Iterator[Target]:
    """Every item file below a folder of a space, by path."""
    for current, folders, names in os.walk(folder):
        inside = Path(current)
        folders[:] = sorted(name for name in folders if _is_walked(inside / name, space.ai))
        for name in sorted(names):
            if not name.startswith(".") and not name.endswith((".sig", ".pyc")):
                kind = _kind(inside / name, space.ai)
                if kind:
                    yield Target(path=inside / name, kind=kind, space=space)


def _audit_one(
    target: Target, verifier: Verifier, require: Callable[[ItemRef, VerifiedItem], None]
) -> AuditReport:
    ref = _ref(target)
    try:
        _require_inside(target)
        item = verifier.verify(target)
        if ref and item.verified:
            require(ref, item)
    except NoSignatureFormError as error:
        return AuditReport(target=target, ref=None, state=SKIPPED, problem=error.suffix)
    except UnsignedError as error:
        if target.path.name in MANAGED_JSON:
            return AuditReport(target=target, ref=None, state=SKIPPED, problem=error.problem)
        return _not_valid(target, ref, error)
    except IntegrityError as error:
        return _not_valid(target, ref, error)
    except LilluxError as error:
        state = REFUSED if isinstance(error, ChainError) else BAD_FORMAT
        return AuditReport(target=target, ref=ref, state=state, problem=str(error), hint=error.hint)
    state = VALID if item.verified else "unverified"
    return AuditReport(target=target, ref=ref, state=state, item=item)


def _not_valid(target: Target, ref: ItemRef | None, error: IntegrityError) -> AuditReport:
    return AuditReport(
        target=target,
        ref=ref,
        state=error.state,
        fingerprint=getattr(error, "fingerprint", ""),
        problem=error.problem,
        hint=error.hint,
    )


def _require_inside(target: Target) -> None:
    """Refuse what no resolver would find: a link that leads out of the folder of its kind."""
    space, path = target.space, target.path
    for root in (space.directory(target.kind), space.ai):
        if _below(path, root) is not None:
            if not is_inside(path, root):
                raise escaped(path, space)
            return


def _ref(target: Target) -> ItemRef | None:
    relative = _below(target.path, target.space.directory(target.kind))
    if relative is None or not target.space.has_suffix(target.kind, target.suffix):
        return None
    return ItemRef(target.kind, relative.removesuffix(target.path.suffix))


def _below(path: Path, root: Path) -> str | None:
    """The POSIX path below a folder, links not followed; None for a path that is not below it.

    Texts, as this is asked for many times with each file.
    """
    text, start = str(path), f"{root}{os.sep}"
    return text[len(start) :].replace(os.sep, "/") if text.startswith(start) else None


def _kind(path: Path, ai: Path) -> Kind | None:
    relative = _below(path, ai)
    return _kind_below(relative) if relative else None


def _kind_below(relative: str) -> Kind | None:
    first, _, rest = relative.partition("/")
    name = rest.rpartition("/")[2]
    if first == "bundles":
        if name not in _MANIFESTS:
            return None
        return Kind.CONFIG if name.endswith(".manifest") else Kind.TOOL
    return kind_of_directory(first) if rest else None


def _is_walked(folder: Path, ai: Path) -> bool:
    if folder.name in _SKIPPED_FOLDERS or folder.name.startswith("."):
        return False
    return folder.parent != ai or folder.name == "bundles" or bool(kind_of_directory(folder.name))


def _space_around(path: Path, spaces: Spaces) -> Space:
    for space in spaces:
        if path.is_relative_to(space.ai) or path == space.base:
            return space
    for folder in (path, *path.parents):
        if folder.name == AI_DIRECTORY:
            return Space(OUTSIDE, folder.parent)
    return Space(OUTSIDE, path)


def _space_of(ai: Path, spaces: Spaces) -> Space:
    known = (space for space in spaces if space.ai == ai)
    return next(known, Space(OUTSIDE, ai.parent))


def _ai_folders(folder: Path) -> Iterator[Path]:
    """Every ``.ai`` in a tree, not looking into one for further ones."""
    for current, folders, _ in os.walk(folder):
        if AI_DIRECTORY in folders:
            yield Path(current, AI_DIRECTORY)
        folders[:] = sorted(n for n in folders if n != AI_DIRECTORY and n not in _SKIPPED_FOLDERS)


def signed_items(
    spaces: Iterable[Space], verifier: Verifier, fingerprint: str
) -> Iterator[ReadItem]:
    """Every file of the spaces that a key signed, rightly, with the bytes that were verified."""
    for target in targets_in_spaces(spaces):
        try:
            item = verifier.verify(target)
        except LilluxError:
            continue
        if item.key and item.key.fingerprint == fingerprint:
            yield ReadItem(_sign_target(target), item.data)


def unbound_items(
    spaces: Iterable[Space], verifier: Verifier, fingerprint: str
) -> Iterator[ReadItem]:
    """Every file that a key signed, rightly, before it named the item in what it signs."""
    for target in targets_in_spaces(spaces):
        try:
            data = read_bytes(target.path, MAX_ITEM_BYTES)
            item = verifier.verify(target, data)
            is_one = item.identity is None and item.key and item.key.fingerprint == fingerprint
        except UnboundSignatureError as error:
            is_one = not error.is_named and error.fingerprint == fingerprint
        except (LilluxError, FileNotFoundError):
            continue
        if is_one and target.identity():
            yield ReadItem(_sign_target(target), data)


def _sign_target(target: Target) -> SignTarget:
    return SignTarget(path=target.path, kind=target.kind, space=target.space, ref=_ref(target))


# --- user config file -----------------------------------------------------------------------------
# A configuration file of user space that commands edit, and that stays signed as it was.

_FORM = form_for(Kind.CONFIG, ".yaml")


class UserConfigFile:
    """The file at ``name`` below ``config/`` of a user space, ``new_text`` where there is none.

    A file that was signed is verified before it is edited, and signed again; one that was
    written by hand stays unsigned. A new one is signed where there is a key, which ``key`` gives.
    """

    def __init__(
        self,
        user: Space,
        name: str,
        new_text: str,
        verifier: Verifier,
        key: Callable[[], SigningKey | None],
    ) -> None:
        self.path = user.directory(Kind.CONFIG) / name
        self._user, self._new_text = user, new_text
        self._verifier, self._key = verifier, key

    def alone(self) -> AbstractContextManager[None]:
        """Held while the file is read, changed and written: commands take turns."""
        return locked(user_lock(self._user.ai, self.path.stem))

    def read(self) -> tuple[str, bool]:
        """The text below the signature line, and whether the file is to be signed.

        Raises IntegrityError.
        """
        if not self.path.exists():
            return self._new_text, True
        target = Target(path=self.path, kind=Kind.CONFIG, space=self._user)
        item = self._verifier.verify_unless_unsigned(target)
        return split(item.text, _FORM, str(self.path)).body, item.signature is not None

    def write(self, text: str, *, is_signed: bool) -> None:
        """Replace the file. Raises FileSystemError."""
        key = self._key() if is_signed else None
        if key:
            text = key.signed_config(text, self.path)
        make_directory(self.path.parent)
        write_atomic(self.path, text.encode())
