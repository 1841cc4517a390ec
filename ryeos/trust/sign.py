"""Signing: validate first, then write the lines, then verify what was written.

(1) find the file and its kind, refuse system items
(2) parse and validate; a failure writes nothing
(3) take the old lines out, hash, sign, put the new lines in
(4) replace the file, if it still is what was read; many files wait for the disk together
(5) verify what was written as any reader would
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from lillux.contained_paths import is_inside
from lillux.errors import LilluxError
from lillux.file_locks import locked
from lillux.files import (
    FileChangedError,
    PreparedWrite,
    prepare_write,
    read_bytes,
    replace_together,
)
from lillux.values import dataclass, field
from ryeos.items.errors import SystemImmutableError
from ryeos.items.refs import SYSTEM
from ryeos.trust.item_rules import ValidItem, examine_item, require_no_issues, signing_warnings
from ryeos.trust.resolver import escaped
from ryeos.trust.sign_targets import ReadItem, SignTarget, read_item, signature_form
from ryeos.trust.signature import MAX_ITEM_BYTES, Identity, Signature, SignedText, detached_path
from ryeos.trust.signing_key import SigningKey
from ryeos.trust.verify import Coverage, Verifier

_FILES_PER_WAIT = 128
"""Files that are written to the disk together: so many are signed between two reports."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SignReport:
    """The outcome for one file; exactly one of ``signature`` and ``error`` is set.

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
        warnings = tuple(signing_warnings(target, begun.signed))
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
        text = self._key.signed_text(
            target.kind, signed, signature_form(target), str(path), valid.identity
        )
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
    """The real path of the file, below the folder of its kind. Raises IntegrityError.

    The user's own space may lie behind links; in a project none is followed: see `Space.within`.
    """
    path = target.path.resolve()
    if not path.is_relative_to(target.space.directory(target.kind).resolve()):
        raise escaped(target.path, target.space)
    return path


Require = Callable[[ReadItem, ValidItem], None]
