"""A file that another program signed with its author's key: `vectors/signed-knowledge.txt`."""

import base64
from hashlib import sha256
from pathlib import Path

import pytest

from lillux.pem import encode_public
from lillux.signing import compute_key_fingerprint
from ryeos.items.errors import IntegrityError, UntrustedKeyError
from ryeos.items.refs import Kind
from ryeos.trust.store import document_path, write_key_document
from ryeos.trust.verify import Coverage, Verifier
from tests.support.signed_files import Shelf
from tests.support.workspace import Workspace

VECTOR = Path(__file__).resolve().parents[1] / "vectors" / "signed-knowledge.txt"
FINGERPRINT = "4b987fd4e40303ac"
PUBLIC_KEY = "MCowBQYDK2VwAyEAgc0X8VKJuKzFh/aSw/XeYEdp3keIqncwu9ySd81Y69g="
CONTENT_HASH = "605b33d92fe736f889659588b1ff96b11c713fd81a91dee7bfb066b4fe769d88"


@pytest.fixture
def author_pem() -> bytes:
    return encode_public(base64.b64decode(PUBLIC_KEY)[-32:])


@pytest.fixture
def shelf(workspace: Workspace, author_pem: bytes) -> Shelf:
    path = document_path(workspace.user.space, FINGERPRINT)
    path.write_text(write_key_document(author_pem, "leo", covers_all=False), encoding="utf-8")
    return Shelf(workspace.project.space)


@pytest.fixture
def verifier(workspace: Workspace) -> Verifier:
    return workspace.rye().verifier


def test_the_fingerprint_is_that_of_the_published_key(author_pem: bytes) -> None:
    assert compute_key_fingerprint(author_pem) == FINGERPRINT


def test_the_hash_is_over_everything_below_the_first_line() -> None:
    _, _, rest = VECTOR.read_bytes().partition(b"\n")

    assert sha256(rest).hexdigest() == CONTENT_HASH


def test_it_verifies(shelf: Shelf, verifier: Verifier) -> None:
    item = verifier.verify(shelf.put(Kind.KNOWLEDGE, ".md", VECTOR.read_bytes()))

    assert item.verified
    assert item.content_hash == CONTENT_HASH
    assert item.key
    assert (item.key.fingerprint, item.key.owner) == (FINGERPRINT, "leo")
    assert item.coverage is Coverage.FULL


def test_it_verifies_with_the_line_ends_of_another_platform(
    shelf: Shelf, verifier: Verifier
) -> None:
    other = VECTOR.read_bytes().replace(b"\n", b"\r\n")

    assert verifier.verify(shelf.put(Kind.KNOWLEDGE, ".md", other)).content_hash == CONTENT_HASH


@pytest.mark.parametrize(
    "change",
    [
        lambda data: data.removesuffix(b"\n"),
        lambda data: data + b"\n",
        lambda data: data.replace(b"-->\n\n", b"-->\n", 1),
        lambda data: data.replace(b"Runtimes", b"runtimes", 1),
        lambda data: data.replace(b"---", b"--", 1),
    ],
    ids=["no final newline", "one more newline", "no blank line", "another letter", "a dash less"],
)
def test_it_does_not_verify_when_changed(shelf: Shelf, verifier: Verifier, change: object) -> None:
    assert callable(change)
    target = shelf.put(Kind.KNOWLEDGE, ".md", change(VECTOR.read_bytes()))

    with pytest.raises(IntegrityError, match="content modified since signing"):
        verifier.verify(target)


def test_it_does_not_verify_without_its_key(workspace: Workspace) -> None:
    target = Shelf(workspace.project.space).put(Kind.KNOWLEDGE, ".md", VECTOR.read_bytes())

    with pytest.raises(UntrustedKeyError) as error:
        workspace.rye().verifier.verify(target)

    assert str(error.value) == f"signed by the untrusted key {FINGERPRINT}: {target.path}"
    assert error.value.hint == (
        "if you know whose key it is: rye keys trust PEMFILE; or review and sign it yourself"
    )
