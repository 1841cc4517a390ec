"""Signed files of every kind and suffix, by one key that is always the same."""

from pathlib import Path

from lillux.pem import encode_private
from lillux.signing import KeyPair, compute_key_fingerprint, public_pem_of, sign_hash
from lillux.values import dataclass, replace
from ryeos.items.refs import Kind, Space
from ryeos.trust.signature import CommentForm, content_hash, form_for, hashed_text, split
from ryeos.trust.signing_key import SigningKey
from ryeos.trust.store import document_path, write_key_document
from ryeos.trust.verify import Target
from tests.support.workspace import fixed_clock

SEED_FINGERPRINT = "f0ff50dacf109dea"
ITEM_TYPES = [
    (kind, suffix)
    for kind in Kind
    for suffix in kind.suffixes
    if (kind, suffix) != (Kind.TOOL, ".json")  # its signature lies beside it
]
ITEM_TYPE_IDS = [f"{kind.value}{suffix}" for kind, suffix in ITEM_TYPES]
DIRECTIVE_BLOCK = '<directive name="x" version="1.0.0">\n</directive>'


def seed_keypair(first: int = 0) -> KeyPair:
    """The key pair whose seed is the 32 bytes from ``first`` on."""
    private = encode_private(bytes(range(first, first + 32)))
    return KeyPair(private, public_pem_of(private))


def sign_text(
    kind: Kind, suffix: str, text: str, keypair: KeyPair, *, where: str | None = None
) -> str:
    """A text with fresh signature lines in their places. Nothing is validated."""
    place = f"x{suffix}" if where is None else where
    form = form_for(kind, suffix)
    signed = split(text, form, place)
    return SigningKey(keypair, fixed_clock).signed_text(kind, signed, form, place)


def sign_partly(kind: Kind, text: str, keypair: KeyPair) -> str:
    """A Markdown text with the one line that other programs write: no covers line."""
    form = form_for(kind, ".md")
    bare = replace(split(text, form, "x.md"), signature=None, covers=None)
    line = sign_line(content_hash(hashed_text(kind, bare, "x.md")), keypair, form)
    return line + bare.body


def sign_line(covered: str, keypair: KeyPair, form: CommentForm) -> str:
    """A signature line over a content hash, made by hand."""
    fingerprint = compute_key_fingerprint(keypair.public_pem)
    value = sign_hash(covered, keypair.private_pem)
    core = f"rye:signed:2026-01-02T03:04:05Z:{covered}:{value}:{fingerprint}"
    return f"{form.prefix}{core}{form.end}\n"


@dataclass(frozen=True, slots=True)
class Shelf:
    """One file in one space, written again and again."""

    space: Space

    def put(self, kind: Kind, suffix: str, data: bytes, name: str = "x") -> Target:
        """Write the file and say what to verify."""
        path: Path = self.space.directory(kind) / f"{name}{suffix}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        return Target(path=path, kind=kind, space=self.space)


def put_key_document(
    space: Space,
    keypair: KeyPair,
    signer: KeyPair | None = None,
    *,
    owner: str = "friend",
    covers_all: bool = False,
    name: str = "",
) -> Path:
    """Write the document of a key into a space, signed by ``signer`` if there is one."""
    text = write_key_document(keypair.public_pem, owner, covers_all=covers_all)
    if signer:
        text = sign_text(Kind.CONFIG, ".toml", text, signer)
    path = document_path(space, name or compute_key_fingerprint(keypair.public_pem))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path
