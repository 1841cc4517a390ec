"""Signing: validate first, then write the lines, then verify what was written.

(1) find the file and its kind, refuse system items
(2) parse and validate; a failure writes nothing
(3) take the old lines out, hash, sign, put the new lines in
(4) write atomically, if the file still is what was read
(5) verify the written file as any reader would
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path

from lillux.errors import LilluxError
from lillux.files import locked, read_bytes, write_atomic
from lillux.signing import KeyPair, compute_key_fingerprint, sign_hash
from ryeos.errors import (
    InvalidRefError,
    ItemNotFoundError,
    ItemValidationError,
    SignatureFormatError,
    SystemImmutableError,
)
from ryeos.extractors import extract, problems
from ryeos.items import (
    AI_DIRECTORY,
    SYSTEM,
    ItemRef,
    Kind,
    Reference,
    Space,
    Spaces,
    kind_of_directory,
)
from ryeos.resolver import candidates, is_regular_file, locations
from ryeos.signature import (
    DETACHED_SUFFIXES,
    MAX_ITEM_BYTES,
    CommentForm,
    Covers,
    Signature,
    SignedText,
    compose,
    content_hash,
    decode,
    detached_path,
    form_for,
    hashed_text,
    needs_covers,
    split,
)
from ryeos.verify import Target, Verifier

GLOB_CHARACTERS = frozenset("*?[")
SKIPPED_FILES = frozenset({"package.json", "package-lock.json", "yarn.lock", "pnpm-lock.yaml"})

Clock = Callable[[], datetime]


def utc_now() -> datetime:
    """The time that goes into a signature line."""
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class SignTarget:
    """A file to sign. ``ref`` is None for a data file that is no item, like a ``.json`` beside one."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class SignReport:
    """What happened to one file; exactly one of ``signature`` and ``error`` is set."""

    target: SignTarget
    signature: Signature | None = None
    unchanged: bool = False
    error: LilluxError | None = None
    warnings: tuple[str, ...] = ()


class Signer:
    """Signs files of the project and user spaces with one key."""

    def __init__(self, keypair: KeyPair, verifier: Verifier, *, clock: Clock = utc_now) -> None:
        self._keypair = keypair
        self._verifier = verifier
        self._clock = clock
        self.fingerprint = compute_key_fingerprint(keypair.public_pem)

    def sign_all(self, targets: Sequence[SignTarget], *, force: bool) -> Iterator[SignReport]:
        """Sign one after the other; a failure is a report, and the rest goes on."""
        for target in targets:
            try:
                yield self.sign(target, force=force)
            except LilluxError as error:
                yield SignReport(target=target, error=error)

    def sign(self, target: SignTarget, *, force: bool = False) -> SignReport:
        """Validate and sign one file. Raises what the failing step raises; the file is whole."""
        check_writable(target)  # (1)
        with locked(target.space.ai / "state" / "sign.lock"):
            data = read_item(target)
            signed = check_item(target, data)  # (2)
            current = None if force else self._current(target)
            if current:
                return SignReport(target=target, signature=current, unchanged=True)
            self._write(target, data, signed)  # (3) (4)
            verified = self._verifier.verify(target.verify_target)  # (5)
        return SignReport(
            target=target, signature=verified.signature, warnings=tuple(_warnings(target))
        )

    def _current(self, target: SignTarget) -> Signature | None:
        """The signature that is there, if it is valid and ours."""
        try:
            verified = self._verifier.verify(target.verify_target)
        except LilluxError:
            return None
        ours = verified.verified and verified.key and verified.key.fingerprint == self.fingerprint
        return verified.signature if ours else None

    def _write(self, target: SignTarget, data: bytes, signed: SignedText | None) -> None:
        path = target.path.resolve()
        if signed is None:
            line = self._signature(sha256(data).hexdigest()).core() + "\n"
            write_atomic(detached_path(path), line.encode())
        else:
            form = form_for(target.kind, target.verify_target.suffix)
            text = self.signed_text(target.kind, signed, form, str(path))
            write_atomic(path, text.encode(), expected=data)

    def signed_text(self, kind: Kind, signed: SignedText, form: CommentForm, where: str) -> str:
        """The text with fresh signature lines; the first line covers the second."""
        bare = replace(signed, signature=None, covers=None, signature_first=False)
        if needs_covers(kind, bare.body):
            covered = content_hash(bare.body)
            bare = replace(bare, covers=Covers(covered, self._sign(covered), self.fingerprint))
        signature = self._signature(content_hash(hashed_text(kind, bare, where)))
        return compose(replace(bare, signature=signature), form)

    def _signature(self, covered: str) -> Signature:
        return Signature(
            timestamp=self._clock().strftime("%Y-%m-%dT%H:%M:%SZ"),
            content_hash=covered,
            value=self._sign(covered),
            fingerprint=self.fingerprint,
        )

    def _sign(self, covered: str) -> str:
        return sign_hash(covered, self._keypair.private_pem)


def check_writable(target: SignTarget) -> None:
    """Refuse what belongs to a bundle. Raises SystemImmutableError."""
    if target.space.tier == SYSTEM:
        raise SystemImmutableError(target.label)


def read_item(target: SignTarget) -> bytes:
    """The bytes to sign. Raises ItemNotFoundError, FileTooLargeError."""
    try:
        return read_bytes(target.path, MAX_ITEM_BYTES)
    except FileNotFoundError:
        raise ItemNotFoundError(target.label, [target.space.label]) from None


def check_item(target: SignTarget, data: bytes) -> SignedText | None:
    """Validate a file and take its text apart; None when its signature goes beside it.

    Raises ItemValidationError, SignatureFormatError, MetadataError.
    """
    where = str(target.path)
    suffix = target.verify_target.suffix
    if suffix in DETACHED_SUFFIXES or target.ref is None:
        return None
    form = form_for(target.kind, suffix, where)
    signed = split(decode(data, where), form, where)
    if signed.shebang and not form.after_shebang:
        raise SignatureFormatError(
            where,
            "shebang in a file whose signature must stand on the first line",
            hint="delete the shebang; the runtime chooses the interpreter",
        )
    header = extract(target.kind, suffix, signed.body, where)
    issues = problems(target.ref, header)
    if issues:
        raise ItemValidationError(where, issues)
    hashed_text(target.kind, signed, where)
    return signed


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
        _check_not_a_folder(reference, space)
        raise ItemNotFoundError(str(reference), [space.label])
    return tuple(found)


def targets_of_glob(kind: Kind | None, pattern: str, space: Space) -> tuple[SignTarget, ...]:
    """Every item of a space whose id matches, by id. Raises ItemNotFoundError for none.

    Without a slash the pattern is for the last segment at any depth; with one it starts at the
    kind's folder, ``*`` stays within a segment and ``**`` crosses them.
    """
    matches = _glob_matcher(pattern)
    kinds = (kind,) if kind else (Kind.TOOL, Kind.DIRECTIVE, Kind.KNOWLEDGE)
    found = [
        SignTarget(path=location.path, kind=one, space=space, ref=location.ref)
        for one in kinds
        for location in locations(space, one)
        if location.path.name not in SKIPPED_FILES and matches(location.ref.id)
    ]
    if not found:
        raise ItemNotFoundError(f"{kind.value}:{pattern}" if kind else pattern, [space.label])
    return tuple(sorted(found, key=lambda target: str(target.ref)))


def target_of_path(path: Path, spaces: Spaces) -> SignTarget:
    """The file at a path, which must lie in a space. Raises InvalidRefError otherwise."""
    absolute = path.absolute()
    for space in spaces:
        target = _target_below(absolute, space) or _target_below(absolute.resolve(), space)
        if target:
            return target
    raise InvalidRefError(
        str(path),
        f"expected a file below {AI_DIRECTORY}/ of the project or user space"
        f" (tools, directives, knowledge, config), found one outside",
    )


def _target_below(path: Path, space: Space) -> SignTarget | None:
    for root in (space.ai, space.ai.resolve()):
        if path.is_relative_to(root):
            folder, _, rest = path.relative_to(root).as_posix().partition("/")
            kind = kind_of_directory(folder)
            if kind and rest:
                is_item = path.suffix.lower() in kind.suffixes
                ref = ItemRef(kind, Path(rest).with_suffix("").as_posix()) if is_item else None
                return SignTarget(path=path, kind=kind, space=space, ref=ref)
    return None


def _check_not_a_folder(reference: Reference, space: Space) -> None:
    for ref in reference.refs(tuple(Kind)):
        if (space.directory(ref.kind) / ref.id).is_dir():
            raise InvalidRefError(
                str(reference), f"names a folder; for all items in it: {reference}/**"
            )


def _glob_matcher(pattern: str) -> Callable[[str], bool]:
    import re
    from fnmatch import translate

    if "/" not in pattern:
        last = re.compile(translate(pattern))
        return lambda item_id: bool(last.match(item_id.rpartition("/")[2]))
    whole = re.compile(_translate_path(pattern))
    return lambda item_id: bool(whole.fullmatch(item_id))


def _translate_path(pattern: str) -> str:
    import re

    parts = re.split(r"(\*\*/?|\*|\?|\[[^\]/]+\])", pattern)
    special = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    return "".join(
        special.get(part) or (part if part.startswith("[") else re.escape(part)) for part in parts
    )


def _warnings(target: SignTarget) -> Iterator[str]:
    mode = target.path.stat().st_mode
    if mode & 0o002:
        yield f"{target.path} can be written by every user of this machine"

