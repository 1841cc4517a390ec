"""Signing: validate first, then write the lines, then verify what was written.

(1) find the file and its kind, refuse system items
(2) parse and validate; a failure writes nothing
(3) take the old lines out, hash, sign, put the new lines in
(4) write atomically, if the file still is what was read
(5) verify the written file as any reader would
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from lillux.errors import LilluxError
from lillux.files import is_inside, locked, read_bytes, write_atomic
from lillux.values import dataclass
from ryeos.errors import (
    ItemNotFoundError,
    ItemValidationError,
    SignatureFormatError,
    SystemImmutableError,
)
from ryeos.extractors import extract, problems
from ryeos.items import SYSTEM, Kind, check_id
from ryeos.resolver import escaped
from ryeos.sign_targets import SignTarget
from ryeos.signature import (
    DETACHED_SUFFIXES,
    MAX_ITEM_BYTES,
    CommentForm,
    Signature,
    SignedText,
    compose,
    detached_path,
    form_for,
    hashed_text,
    split,
    text_of,
)
from ryeos.signing_key import SigningKey
from ryeos.specs import EXTRACTOR_TYPE, tool_spec
from ryeos.verify import Coverage, Verifier

_BYTE_ORDER_MARK = "\ufeff"


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

    def __init__(self, key: SigningKey, verifier: Verifier) -> None:
        self._key = key
        self._verifier = verifier

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
            target=target, signature=verified.signature, warnings=tuple(_warnings(target, signed))
        )

    def _current(self, target: SignTarget) -> Signature | None:
        """The signature that is there, if it is valid, ours, and over the whole text."""
        try:
            verified = self._verifier.verify(target.verify_target)
        except LilluxError:
            return None
        # Another program may have signed with this key, and covered less of the text.
        whole = verified.verified and verified.coverage is Coverage.FULL
        ours = verified.key and verified.key.fingerprint == self._key.fingerprint
        return verified.signature if whole and ours else None

    def _write(self, target: SignTarget, data: bytes, signed: SignedText | None) -> None:
        path = target.path.resolve()
        if signed is None:
            write_atomic(detached_path(path), self._key.detached_line(data).encode())
        else:
            form = _form(target)
            text = self._key.signed_text(target.kind, signed, form, str(path))
            write_atomic(path, text.encode(), expected=data)


def check_writable(target: SignTarget) -> None:
    """Refuse what belongs to a bundle, and a link that leads elsewhere.

    Raises SystemImmutableError, IntegrityError.
    """
    if target.space.tier == SYSTEM:
        raise SystemImmutableError(target.label)
    if not is_inside(target.path, target.space.directory(target.kind)):
        raise escaped(target.path, target.space)


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
    header = extract(target.kind, suffix, compose(signed, form), where, file_type)
    if suffix == ".sh" and "executor_id" in header:
        header.setdefault("tool_type", "bash")
    further = file_type.rules if file_type else ()
    issues = () if is_module(target, header) else problems(target.ref, header, further)
    if target.kind is Kind.TOOL:
        issues = (*issues, *_spec_problems(header, suffix), *_type_problems(target, header))
    if issues:
        raise ItemValidationError(where, issues)
    hashed_text(target.kind, signed, where)
    return signed


def _spec_problems(header: Mapping[str, Any], suffix: str) -> tuple[str, ...]:
    """What would keep a tool from ever running: fields of a wrong shape, a schema that is none."""
    from lillux.schema import check_schema

    try:
        spec = tool_spec(header, suffix)
        if isinstance(spec.executor_id, str):
            check_id(spec.executor_id)
        if spec.config_schema is not None:
            check_schema(spec.config_schema)
    except LilluxError as error:
        return (str(error),)
    return ()


def _type_problems(target: SignTarget, header: Mapping[str, Any]) -> tuple[str, ...]:
    """Why an extractor would not count; those of a bundle describe what Rye knows anyway."""
    if header.get("tool_type") != EXTRACTOR_TYPE or target.space.tier == SYSTEM:
        return ()
    from ryeos.declared_types import read_extractor

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

    It is a part of a tool, like ``__init__.py``; only a shell script runs without a header.
    """
    return target.kind is Kind.TOOL and not {"tool_type", "executor_id"} & header.keys()


def _warnings(target: SignTarget, signed: SignedText | None) -> Iterator[str]:
    if target.path.stat().st_mode & 0o002:
        yield f"{target.path} can be written by every user of this machine"
    if signed is None or target.verify_target.suffix == ".sh":
        return
    at = target.verify_target
    header = extract(target.kind, at.suffix, signed.body, str(target.path), at.file_type)
    if is_module(target, header):
        yield f"{target.path} has no header: signed as a module, not as a tool that can be run"
    elif target.kind is Kind.TOOL:
        from ryeos.unknown_keys import unknown_key_warnings

        suffix = target.verify_target.suffix
        yield from unknown_key_warnings(tool_spec(header, suffix), suffix, str(target.path))
