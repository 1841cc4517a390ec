"""Users who have the node sign their texts, to be taken for the node themselves.

Items, documents and requests are signed in the same way: Ed25519 over the SHA-256 of a text. So a
page whose text is that of a document would carry the signature of the document.
"""

import os
from typing import Any

import pytest

from lillux.canonical_json import canonical_json
from lillux.digests import sha256_hex
from lillux.sealing import generate_box_pair
from lillux.signing import generate_keypair, verify_signature
from ryeos.items.refs import Kind
from ryeos.remote.identity import IdentityError, decode_public_key, identity_document, read_identity
from ryeos.remote.requests import new_nonce, string_to_sign
from ryeos.remote.signed_documents import SIGNATURE_KEY
from ryeos.trust.signature import Signature, SignedText, form_for, split
from ryeos.trust.signing_key import SigningKey
from tests.support.node import Node
from tests.support.remote_projects import RemoteProject
from tests.support.workspace import Workspace

pytest_plugins = ("tests.support.node",)
pytestmark = pytest.mark.skipif(os.name == "nt", reason="the tools of these tests are for POSIX")
PAGE = ".ai/knowledge/state/forged.md"


@pytest.fixture
def project(shared_node: Node, workspace: Workspace) -> RemoteProject:
    """The attacker's project."""
    return RemoteProject.with_tools(workspace, shared_node.user())


def signed_page(project: RemoteProject, text: str) -> Signature:
    """The signature that a page of this text has after the run that wrote it."""
    answer = project.execute("tool:write", parameters={"path": PAGE, "text": text})
    files = project.object(answer["runtime_outputs_bundle_hash"])["files"]
    page = project.objects([files[PAGE]])[files[PAGE]].decode()
    found = split(page, form_for(Kind.KNOWLEDGE, ".md", PAGE), PAGE)
    return signature_over(found, text)


def signature_over(found: SignedText, text: str) -> Signature:
    """The signature over a text, which is no document of another: it names an item above it."""
    assert found.body == text
    assert found.identity is not None
    assert found.signature is not None
    assert found.signature.content_hash == sha256_hex(f"{found.identity_line}{text}".encode())
    return found.signature


def test_a_page_signs_no_identity_document_of_the_node(project: RemoteProject) -> None:
    node = project.user.node
    true = node.ask("GET", "/public-key").json
    thief = identity_document(SigningKey(generate_keypair()), generate_box_pair()[1], "")
    forged = {**true, "box_key": thief["box_key"]}
    del forged[SIGNATURE_KEY]

    signature = signed_page(project, canonical_json(forged).decode())
    own = {"signer": node.keys.node_id, "sig": signature.value.rstrip("="), "signed_at": "2026"}

    with pytest.raises(IdentityError, match="not the key's over this document"):
        read_identity({**forged, SIGNATURE_KEY: own})
    assert is_for_items_only(node, signature)
    assert read_identity(true).box_public == node.keys.box_public


def test_the_sign_route_signs_no_identity_document_of_the_node(
    project: RemoteProject,
) -> None:
    """A tool may be JSON, and a reader of documents accepts unknown keys."""
    node = project.user.node
    forged: dict[str, Any] = {
        **node.ask("GET", "/public-key").json,
        "version": "1.0.0",
        "tool_type": "primitive",
        "executor_id": None,
        "category": "",
        "description": "forged",
    }
    del forged[SIGNATURE_KEY]
    text = canonical_json(forged).decode()
    project.workspace.project.write("tools/forged.yaml", text)
    project.push()

    body = {"project_path": project.name, "item_id": "tool:forged"}
    reply = project.user.ask("POST", "/sign", body)

    assert (reply.status, reply.json["result"]["status"]) == (200, "signed"), reply.json
    path = ".ai/tools/forged.yaml"
    digest = project.object(project.manifest().items[path])["content_blob_hash"]
    signed = project.objects([digest])[digest].decode()
    found = split(signed, form_for(Kind.TOOL, ".yaml", path), path)
    signature = signature_over(found, text)
    own = {"signer": node.keys.node_id, "sig": signature.value.rstrip("="), "signed_at": "2026"}
    with pytest.raises(IdentityError, match="not the key's over this document"):
        read_identity({**forged, SIGNATURE_KEY: own})
    assert is_for_items_only(node, signature)


def test_a_page_is_no_request_of_the_node(project: RemoteProject) -> None:
    text = string_to_sign(
        method="GET",
        path="/user-space",
        query="",
        body_sha256=sha256_hex(b""),
        timestamp=1700000000,
        nonce=new_nonce(),
        audience="fp:07097e6443239d36",
    )

    assert is_for_items_only(project.user.node, signed_page(project, text))


def is_for_items_only(node: Node, signature: Signature) -> bool:
    """Whether it is of the key that the node publishes for items, and not by its own."""
    document = node.ask("GET", "/public-key").json
    items, own = (decode_public_key(document[name]) for name in ("items_key", "signing_key"))
    made = signature.content_hash, signature.value
    return verify_signature(*made, items) and not verify_signature(*made, own)
