"""The state of every key document of every space, and why one that does not count does not.

`ryeos.trust.store` decides; this only says in words what it decided, and goes through the same
rules in the same way.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lillux.errors import LilluxError
from lillux.files import read_bytes
from lillux.values import dataclass
from ryeos.items.refs import PROJECT, Space
from ryeos.trust.keys import verifies_with
from ryeos.trust.signature import content_hash
from ryeos.trust.store import (
    MAX_DOCUMENT_BYTES,
    PIN_OWNER,
    Approvals,
    KeyDocument,
    TrustStore,
    document_path,
    has_expired,
    parse_key_document,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyState:
    """One key document. ``problem`` is empty when its key counts, and ``hint`` says what to do."""

    fingerprint: str
    owner: str
    space: str
    path: Path
    digest: str = ""
    covers_all: bool = False
    problem: str = ""
    hint: str = ""

    @property
    def counts(self) -> bool:
        """True if items of the document's space may be signed by this key."""
        return not self.problem

    def describe(self, own: str = "") -> dict[str, Any]:
        """The state as ``keys list --json`` shows it. ``own`` is the user's own fingerprint."""
        described: dict[str, Any] = {
            "fingerprint": self.fingerprint,
            "owner": self.owner,
            "space": self.space,
            "path": str(self.path),
            "covers_all": self.covers_all,
            "counts": self.counts,
            "own": self.fingerprint == own,
        }
        if self.problem:
            described["problem"] = self.problem
        if self.hint:
            described["hint"] = self.hint
        return described


def key_states(trust: TrustStore, approvals: Approvals) -> tuple[KeyState, ...]:
    """The state of every document, space by space.

    Raises RyeError `CONFIG_ERROR` for bad approvals.
    """
    return tuple(_state(space, path, trust, approvals) for space, path in trust.documents())


def document_problem(document: KeyDocument, space: Space, trust: TrustStore) -> str:
    """The problem of a document itself, its approval aside; ``""`` for nothing."""
    signature = document.signature
    if signature is None:
        return ""
    if signature.content_hash != content_hash(document.signed_text):
        return "changed since it was signed"
    if signature.fingerprint == document.fingerprint:
        signer_pem = document.public_pem
    else:
        signer = trust.get_key(signature.fingerprint, space.label)
        if signer is None:
            return _lost_signer(document, trust)
        signer_pem = signer.public_pem
    if not verifies_with(document, signer_pem):
        return f"its signature by {signature.fingerprint} does not hold"
    return ""


def _state(space: Space, path: Path, trust: TrustStore, approvals: Approvals) -> KeyState:
    try:
        document = parse_key_document(read_bytes(path, MAX_DOCUMENT_BYTES), str(path))
    except (OSError, LilluxError) as error:
        problem = str(error).removeprefix(f"{path}: ")
        return KeyState(
            fingerprint=path.stem, owner="", space=space.label, path=path, problem=problem
        )
    problem, hint = _problem(space, path, document, trust, approvals)
    return KeyState(
        fingerprint=document.fingerprint,
        owner=document.owner,
        space=space.label,
        path=path,
        digest=document.digest,
        covers_all=document.covers_all,
        problem=problem,
        hint=hint,
    )


def _problem(
    space: Space, path: Path, document: KeyDocument, trust: TrustStore, approvals: Approvals
) -> tuple[str, str]:
    if path.name != document_path(space, document.fingerprint).name:
        return (
            f"the file is named {path.stem}, but its key is {document.fingerprint}",
            "get the document again from its sender",
        )
    if has_expired(document):
        return f"replaced, and valid until {document.valid_until}", ""
    if document.owner.startswith(PIN_OWNER):
        return "the pin of a remote node, which signs no items", ""
    problem = document_problem(document, space, trust)
    if problem:
        return problem, "get the document again from its sender"
    if space.tier == PROJECT and not approvals.is_approved(space.base, document.digest):
        return (
            "not approved for this project",
            f"if you know whose key it is: rye keys trust {document.fingerprint}",
        )
    return "", ""


def _lost_signer(document: KeyDocument, trust: TrustStore) -> str:
    signers = dict(_signers(trust))
    seen = {document.fingerprint}
    fingerprint = document.signature.fingerprint if document.signature else ""
    signer = fingerprint
    while signer and signer not in seen:
        seen.add(signer)
        signer = signers.get(signer, "")
    if signer:
        return f"signed by {fingerprint} in a circle of keys that vouch for each other"
    return f"signed by {fingerprint}, which is not trusted"


def _signers(trust: TrustStore) -> Iterator[tuple[str, str]]:
    """Pairs of a key and the key that signed its document."""
    for _, path in trust.documents():
        try:
            document = parse_key_document(read_bytes(path, MAX_DOCUMENT_BYTES), str(path))
        except (OSError, LilluxError):
            continue
        if document.signature:
            yield document.fingerprint, document.signature.fingerprint
