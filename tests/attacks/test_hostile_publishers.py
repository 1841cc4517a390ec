"""A user with an account in a registry wants names, words and signatures of others."""

import json

import pytest

from lillux.canonical_json import canonical_json
from lillux.errors import LilluxError
from ryeos.items.refs import Kind
from ryeos.remote.requests import principal_id
from ryeos.remote.signed_documents import verify_document
from ryeos.trust.signature import form_for, split
from tests.support.registry import Account, Registry, item_text


def test_an_item_that_is_an_attestation_is_signed_by_a_key_that_attests_nothing(
    shared_registry: Registry,
) -> None:
    account, victim = shared_registry.account(), shared_registry.account()
    forged = {
        "kind": "registry-item/v1",
        "item_id": f"{victim.name}/greetings/hello",
        "author": victim.name,
        "version": "1.0.0",
        "category": f"{account.name}/evil",
        "tool_type": "python",
        "description": "an attestation",
    }
    text = canonical_json(forged).decode()

    pushed = account.push(f"{account.name}/evil/paper", content=text, suffix=".yaml")

    signed = split(pushed.json["signed_content"], form_for(Kind.TOOL, ".yaml"), "")
    assert signed.body == text  # so its signature is one over the digest of that document
    assert signed.signature is not None
    key = pushed.json["attestation"]["signed_by"].removeprefix("fp:")
    identity = shared_registry.ask("GET", "/public-key").json["public_key_pem"].encode()
    known_as = shared_registry.node.keys.fingerprint
    for signer in (key, known_as):
        proof = {"signer": principal_id(signer), "sig": signed.signature.value.rstrip("=")}
        with pytest.raises(LilluxError):
            verify_document({**forged, "_signature": proof}, identity)


@pytest.mark.parametrize(
    "line",
    [
        "# rye:signed:2026-01-01T00:00:00Z:{zeros}:AAAA:0123456789abcdef|rye-registry@{victim}\n",
        "# rye:signed:2026-01-01T00:00:00Z:junk|rye-registry@{victim}\n",
        "# rye:validated:2026-01-01|rye-registry@{victim}\n",
    ],
)
def test_a_user_cannot_publish_under_the_name_of_another(
    shared_registry: Registry, line: str
) -> None:
    account, victim = shared_registry.account(), shared_registry.account()
    item_id = f"{account.name}/evil/paper"
    typed = line.format(victim=victim.name, zeros="0" * 64)

    pushed = account.push(item_id, content=typed + item_text("tool", item_id))

    if pushed.status == 200:
        first = pushed.json["signed_content"].splitlines()[0]
        assert first.endswith(f"|rye-registry@{account.name}")
        assert victim.name not in pushed.json["signed_content"]
    else:
        assert pushed.status == 400


def test_an_item_signed_for_one_user_is_published_by_another_only_as_their_own(
    shared_registry: Registry,
) -> None:
    victim, account = shared_registry.account(), shared_registry.account()
    victim.push(f"{victim.name}/greetings/hello")
    taken = shared_registry.ask("GET", f"/v1/pull/tool/{victim.name}/greetings/hello").json

    same_place = account.push(f"{account.name}/greetings/hello", content=taken["content"])

    assert same_place.status == 400  # its category names the other namespace
    assert "must match path category" in same_place.json["detail"]["issues"][0]


@pytest.mark.parametrize(
    ("item_type", "item_id"),
    [
        ("tool", "{name}/../../{victim}/x"),
        ("tool", "{name}/%2e%2e/x"),
        ("tool", "{name}/a\\..\\b/x"),
        ("tool", "{victim}\u200b/a/b"),
        ("../tool", "{name}/a/b"),
        ("config", "{name}/a/b"),
    ],
)
def test_no_id_leads_out_of_its_namespace(
    shared_registry: Registry, item_type: str, item_id: str
) -> None:
    account, victim = shared_registry.account(), shared_registry.account()
    named = item_id.format(name=account.name, victim=victim.name)

    pushed = account.push(named, item_type=item_type, content=item_text("tool", "a/b/c"))

    assert pushed.status == 400


def test_too_large_bodies_are_refused(shared_registry: Registry) -> None:
    account = shared_registry.account()
    item_id = f"{account.name}/evil/paper"
    deep = "[" * 100_000

    replies = [
        account.push(item_id, content="x" * 2_000_000),
        account.push(item_id, changelog="x" * 20_000),
        account.push(item_id, metadata={"a": "x" * 50_000}),
        account.ask("POST", "/v1/push", deep.encode()),
        account.push(item_id, content="\0" + item_text("tool", item_id)),
        account.push(item_id, content=f"a: {deep}", suffix=".yaml"),
    ]

    assert [reply.status for reply in replies] == [400, 422, 413, 422, 400, 400]
    assert shared_registry.ask("GET", "/health").json["status"] == "healthy"


def test_an_account_sees_and_changes_nothing_of_another(shared_registry: Registry) -> None:
    victim, account = shared_registry.account(), shared_registry.account()
    item_id = f"{victim.name}/greetings/hello"
    victim.push(item_id)

    refused = [
        account.push(item_id, "2.0.0"),
        account.ask("DELETE", f"/v1/delete/tool/{item_id}"),
        account.ask("POST", f"/v1/visibility/tool/{item_id}", {"visibility": "unlisted"}),
        account.ask("DELETE", "/v1/api-keys/" + "nobodys"),
        account.ask("DELETE", f"/v1/signing-keys/{victim.key.fingerprint}"),
    ]

    assert [reply.status for reply in refused] == [403, 403, 403, 404, 404]
    assert shared_registry.ask("GET", f"/v1/pull/tool/{item_id}").json["version"] == "1.0.0"


def test_no_refusal_shows_a_path_of_the_server(shared_registry: Registry) -> None:
    account: Account = shared_registry.account()
    data = str(shared_registry.node.data)

    for content in ("", "x = (", "a: [", "\ud800".encode("unicode_escape").decode(), "\ufeffx"):
        reply = account.push(f"{account.name}/a/b", content=content or " ")
        assert reply.status == 400
        assert data not in json.dumps(reply.json)
