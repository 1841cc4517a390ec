"""From what a publisher sends to what the registry signs. Pure but for the clock of the key.

(1) take the signature lines off, and check them where they are there
(2) validate as ``rye sign`` does, with the id for the place of the file
(3) sign with the registry's key, and say who published it on the same line
"""

from collections.abc import Mapping
from pathlib import Path

from lillux.digests import sha256_hex
from lillux.errors import LilluxError
from lillux.signing import verify_signature
from lillux.values import dataclass, replace
from rye_services.registry.names import ItemName, Version
from ryeos.items.errors import ItemValidationError
from ryeos.items.headers import parse_header
from ryeos.items.refs import PROJECT, Kind, Space
from ryeos.trust.file_types import extract
from ryeos.trust.keys import SigningKey
from ryeos.trust.sign import SignTarget, check_item, is_module
from ryeos.trust.signature import (
    DETACHED_SUFFIXES,
    FORMS,
    Signature,
    SignedText,
    compose,
    content_hash,
    form_for,
    hashed_text,
    split,
)

MAX_CONTENT_BYTES = 1024 * 1024
PROVIDER = "rye-registry"
_NOWHERE = Space(PROJECT, Path())
_FIRST_SUFFIX = {Kind.DIRECTIVE: ".md", Kind.KNOWLEDGE: ".md"}


class PublicationError(LilluxError):
    """What was sent cannot be published; ``issues`` are all that is wrong with it."""

    code, exit_status = "VALIDATION_FAILED", 6

    def __init__(self, problem: str, issues: tuple[str, ...] = ()) -> None:
        self.problem = problem
        self.issues = issues or (problem,)
        super().__init__(problem, hint="rye sign says the same before anything is sent")


@dataclass(frozen=True, slots=True, kw_only=True)
class Publication:
    """An item as it will be kept.

    suffix       of its file, which decides the comment form and the parser
    content      with the signature of the registry and the provenance
    source_hash  of what was sent without its signature lines: what a version stands for
    publisher    the fingerprint of the key that it was sent signed with, None for none
    title        what its metadata call it; "" where they do not
    """

    suffix: str
    content: str
    signature: Signature
    source_hash: str
    publisher: str | None
    title: str
    description: str

    @property
    def sha256(self) -> str:
        """Of the bytes that will be pulled."""
        return sha256_hex(self.content.encode())


def publication(
    name: ItemName,
    version: Version,
    content: str,
    *,
    suffix: str | None,
    account: str,
    keys: Mapping[str, bytes],
    signer: SigningKey,
) -> Publication:
    """The item that an account publishes. ``keys``: the PEMs of its own keys by fingerprint.

    Raises PublicationError for everything that is wrong with the content.
    """
    data = content.encode("utf-8", "surrogatepass")
    if len(data) > MAX_CONTENT_BYTES:
        raise PublicationError(f"expected at most {MAX_CONTENT_BYTES} bytes, found {len(data)}")
    found = suffix or guessed_suffix(name.kind, content)
    target = _target(name, found)
    try:
        signed = check_item(target, data)
        assert signed is not None  # noqa: S101 - only of detached suffixes, refused by `_target`
        header = extract(name.kind, found, signed.shebang + signed.body, str(target.path))
        hashed = hashed_text(name.kind, signed, str(target.path))
        publisher = check_sender(signed, hashed, keys)
    except ItemValidationError as error:
        raise PublicationError("Validation failed", error.details) from error
    except PublicationError:
        raise
    except LilluxError as error:
        raise PublicationError(str(error)) from error
    _check_header(target, header, version)
    text, signature = _resigned(name.kind, found, signed, signer, account)
    return Publication(
        suffix=found,
        content=text,
        signature=signature,
        source_hash=sha256_hex(f"{found}\n{signed.shebang}{signed.body}".encode()),
        publisher=publisher,
        title=_text(header, "title"),
        description=_text(header, "description"),
    )


def guessed_suffix(kind: Kind, content: str) -> str:
    """What a file with this content is called, for publishers who send no suffix."""
    if kind is not Kind.TOOL:
        return _FIRST_SUFFIX[kind]
    first = content.partition("\n")[0]
    if first.startswith("#!"):
        return ".py" if "python" in first else ".sh"
    if first.startswith(("//", "/*", "export ", "const ")):
        return ".js"
    return ".py" if _header(".py", content) or not _header(".yaml", content) else ".yaml"


def _header(suffix: str, content: str) -> Mapping[str, object]:
    try:
        return parse_header(suffix, content, "content")
    except LilluxError:
        return {}


def _target(name: ItemName, suffix: str) -> SignTarget:
    """The place that the item would have in a project."""
    forms = {one for one in FORMS[name.kind] if one not in DETACHED_SUFFIXES}
    if suffix not in forms:
        expected = f"expected {', '.join(sorted(forms))}"
        raise PublicationError(f"suffix: {expected}, found {suffix[:20]!a}")
    path = Path(".ai", name.kind.directory, f"{name.id}{suffix}")
    return SignTarget(path=path, kind=name.kind, space=_NOWHERE, ref=name.ref)


def _check_header(target: SignTarget, header: Mapping[str, object], version: Version) -> None:
    """What `check_item` leaves to others: that it is an item, and of the version it is sent as."""
    if is_module(target, header) and target.path.suffix != ".sh":
        raise PublicationError("expected an item, found a module: there is no header in it")
    own = header.get("version")
    if own is not None and own != version.text:
        issue = f"Field 'version' must be the version it is published as ({version}), got {own!a}"
        raise PublicationError("Validation failed", (issue,))


def check_sender(signed: SignedText, hashed: str, keys: Mapping[str, bytes]) -> str | None:
    """Whose signature a text was sent with, None for none. ``hashed`` is what it covers.

    Where the account has no keys there is nothing to check a signature by, but that it was made
    for this text. Raises PublicationError for one that is not good.
    """
    signature = signed.signature
    if signature is None:
        return None
    again = "sign it again: rye sign"
    if signature.content_hash != content_hash(hashed):
        raise PublicationError(f"the content changed since it was signed; {again}")
    if signed.covers and signed.covers.content_hash != content_hash(signed.body):
        raise PublicationError(f"the text below the covers line changed; {again}")
    if not keys:
        return None
    lines = [(signature.content_hash, signature.value, signature.fingerprint)]
    if signed.covers:
        lines.append((signed.covers.content_hash, signed.covers.value, signed.covers.fingerprint))
    for covered, value, fingerprint in lines:
        pem = keys.get(fingerprint)
        if pem is None:
            known = ", ".join(sorted(keys))
            raise PublicationError(f"signed by {fingerprint}: expected a key of yours ({known})")
        if not verify_signature(covered, value, pem):
            raise PublicationError(f"the signature of {fingerprint} is not good; {again}")
    return signature.fingerprint


def _resigned(
    kind: Kind, suffix: str, signed: SignedText, signer: SigningKey, account: str
) -> tuple[str, Signature]:
    form = form_for(kind, suffix)
    made = split(signer.signed_text(kind, signed, form, suffix), form, suffix)
    assert made.signature is not None  # noqa: S101 - just made
    signature = replace(made.signature, provenance=f"{PROVIDER}@{account}")
    return compose(replace(made, signature=signature), form), signature


def _text(header: Mapping[str, object], field: str) -> str:
    value = header.get(field)
    return value if isinstance(value, str) else ""
