from typing import Any

import pytest

from lillux.canonical_json import compute_integrity
from lillux.digests import sha256_hex
from lillux.signing import generate_keypair
from lillux.values import replace
from ryeos.items.errors import RyeError
from ryeos.items.refs import ItemRef, Kind
from ryeos.remote.attestations import BUNDLE, ITEM, verify_bundle_attestation
from ryeos.remote.identity import encode_public_key
from ryeos.remote.registry_items import verify_pulled
from ryeos.remote.replies import BundleReply, PulledReply
from ryeos.remote.signed_documents import sign_document
from ryeos.trust.signing_key import SigningKey
from tests.support.registry_replies import AUTHOR, Forge, is_refused

REF = ItemRef(Kind.TOOL, "ada/text/upper")
FORGE = Forge()
IDENTITY = SigningKey(generate_keypair())
PIN = replace(FORGE.pin, second_key=encode_public_key(IDENTITY.public_pem))


def document(reply: PulledReply, **changes: str) -> dict[str, Any]:
    """The attestation of a registry for an answer."""
    fields = {
        "kind": ITEM,
        "registry": f"fp:{IDENTITY.fingerprint}",
        "item_type": reply.item_type,
        "item_id": reply.item_id,
        "version": reply.version,
        "suffix": reply.suffix,
        "sha256": sha256_hex(reply.content.encode()),
        "author": reply.author,
        "signed_by": f"fp:{FORGE.pin.fingerprint}",
        "published_at": "2026-01-02T03:04:05Z",
    }
    return {**fields, **changes}


def attested(reply: PulledReply, *, by: SigningKey = IDENTITY, **changes: str) -> PulledReply:
    """An answer with the attestation of its registry."""
    return replace(reply, attestation=sign_document(document(reply, **changes), by, "now"))


def refusal(reply: PulledReply) -> str:
    """The reason why an answer is refused."""
    with pytest.raises(RyeError, check=is_refused) as error:
        verify_pulled(reply, REF, PIN)
    return str(error.value).removeprefix(f"{REF} {reply.version!a} from {PIN.netloc}: ")


def test_an_attested_item_is_accepted() -> None:
    assert verify_pulled(attested(FORGE.reply(REF)), REF, PIN).author == AUTHOR


def test_an_item_without_attestation_is_refused() -> None:
    assert refusal(FORGE.reply(REF)) == "expected what the registry attests, found nothing"


def test_another_tool_of_the_same_category_is_refused() -> None:
    """Its text says the same category and version, and a tool's name stands in no header."""
    other = attested(FORGE.reply(ItemRef(Kind.TOOL, "ada/text/lower")))

    problem = refusal(replace(other, item_id=REF.id))

    assert problem == "the registry attests another item_id: 'ada/text/lower'"


def test_another_author_is_refused() -> None:
    reply = attested(FORGE.reply(REF))
    content = reply.content.replace("|rye-registry@ada", "|rye-registry@eve")

    problem = refusal(replace(reply, content=content, author="eve"))

    assert problem.startswith("the registry attests another ")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("kind", "identity/v1"),
        ("registry", "fp:0000000000000000"),
        ("item_type", "knowledge"),
        ("version", "1.0.1"),
        ("suffix", ".sh"),
        ("sha256", "0" * 64),
        ("author", "eve"),
        ("signed_by", "fp:0000000000000000"),
    ],
)
def test_a_document_about_something_else_is_refused(field: str, value: str) -> None:
    changed = document(FORGE.reply(REF), **{field: value})
    reply = replace(FORGE.reply(REF), attestation=sign_document(changed, IDENTITY, "now"))

    assert refusal(reply) == f"the registry attests another {field}: {value!r}"


def test_a_document_by_another_key_is_refused() -> None:
    stranger = SigningKey(generate_keypair())

    assert "attestation: " in refusal(attested(FORGE.reply(REF), by=stranger))


def test_a_document_that_was_changed_is_refused() -> None:
    signed = sign_document(document(FORGE.reply(REF), author="eve"), IDENTITY, "now")

    reply = replace(FORGE.reply(REF), attestation={**signed, "author": AUTHOR})

    assert refusal(reply).startswith("attestation: ")


def test_the_files_of_a_bundle_are_attested() -> None:
    reply = BundleReply(
        bundle_id="acme",
        version="1.0.0",
        manifest="files: {}",
        files={"a": "text"},
        author=AUTHOR,
    )
    content = {"manifest": "files: {}", "files": {"a": sha256_hex(b"text")}}
    fields = {
        "kind": BUNDLE,
        "registry": f"fp:{IDENTITY.fingerprint}",
        "bundle_id": "acme",
        "version": "1.0.0",
        "content_hash": compute_integrity(content),
        "author": AUTHOR,
    }
    good = replace(reply, attestation=sign_document(fields, IDENTITY, "now"))

    verify_bundle_attestation(good, PIN)
    with pytest.raises(RyeError, check=is_refused):
        verify_bundle_attestation(replace(good, files={"a": "other"}), PIN)
    with pytest.raises(RyeError, check=is_refused):
        verify_bundle_attestation(replace(good, author="eve"), PIN)
    verify_bundle_attestation(reply, FORGE.pin)
