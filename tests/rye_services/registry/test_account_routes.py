from typing import Any

from lillux.signing import generate_keypair
from ryeos.remote.identity import encode_public_key
from ryeos.remote.signed_documents import sign_document
from ryeos.trust.signing_key import SigningKey
from tests.support.registry import Account, Registry, running_registry


def test_an_api_key_is_shown_once_and_valid_until_revoked(
    shared_registry: Registry,
) -> None:
    account = shared_registry.account()

    made = account.ask("POST", "/v1/api-keys", {"name": "ci", "expires_in_days": 30})
    again = account.ask("POST", "/v1/api-keys", {"name": "ci"})
    listed = account.ask("GET", "/v1/api-keys")
    other = Account(shared_registry, account.name, made.json["key"], account.keypair)

    assert made.status == 200
    assert made.json.keys() == {
        "key", "name", "key_prefix", "scopes", "expires_at", "created_at",
    }  # fmt: skip
    assert made.json["scopes"] == ["registry:read", "registry:write"]
    assert again.status == 409
    assert [one["name"] for one in listed.json["api_keys"]] == ["ci", "first"]
    assert made.json["key"].encode() not in listed.body
    assert other.ask("GET", "/v1/account").json["name"] == account.name
    assert account.ask("DELETE", "/v1/api-keys/ci").json["status"] == "revoked"
    assert other.ask("GET", "/v1/account").status == 401
    assert account.ask("DELETE", "/v1/api-keys/ci").status == 409
    assert account.ask("DELETE", "/v1/api-keys/nobody").status == 404


def test_a_key_cannot_grant_scopes_that_it_lacks(shared_registry: Registry) -> None:
    account = shared_registry.account()

    for scopes, status in ((["remote:execute"], 403), (["*"], 403), (["wrong"], 400)):
        refused = account.ask("POST", "/v1/api-keys", {"name": "more", "scopes": scopes})
        assert refused.status == status


def test_a_user_cannot_see_or_revoke_keys_of_others(shared_registry: Registry) -> None:
    account, other = shared_registry.account(), shared_registry.account()
    account.ask("POST", "/v1/api-keys", {"name": "ci"})

    assert other.ask("DELETE", "/v1/api-keys/ci").status == 404
    assert len(other.ask("GET", "/v1/api-keys").json["api_keys"]) == 1


def test_an_api_key_without_an_account_cannot_publish(shared_registry: Registry) -> None:
    stranger = shared_registry.node.user(scopes=("registry:*",))

    refused = stranger.ask("POST", "/v1/namespaces", {"name": "mine"}, auth="bearer")

    assert refused.status == 403
    assert "expected one that is open" in refused.json["detail"]["error"]


def claim(account: Account, key: SigningKey, **changed: Any) -> dict[str, Any]:  # noqa: ANN401
    document = {
        "kind": "registry-key/v1",
        "account": account.name,
        "registry": account.registry.node.keys.node_id,
        "public_key": encode_public_key(key.public_pem),
        **changed,
    }
    return {"document": sign_document(document, key, "2026-11-21T00:00:00Z")}


def test_a_signing_key_is_added_with_its_own_signed_claim(
    shared_registry: Registry,
) -> None:
    account, other = shared_registry.account(), shared_registry.account()
    stranger = SigningKey(generate_keypair())
    foreign = encode_public_key(stranger.public_pem)

    unsigned = account.ask(
        "POST", "/v1/signing-keys", claim(account, account.key, public_key=foreign)
    )
    elsewhere = account.ask("POST", "/v1/signing-keys", claim(other, account.key))
    added = account.ask("POST", "/v1/signing-keys", claim(account, account.key))
    taken = other.ask("POST", "/v1/signing-keys", claim(other, account.key))

    assert [reply.status for reply in (unsigned, elsewhere, added, taken)] == [400, 400, 200, 409]
    (listed,) = account.ask("GET", "/v1/signing-keys").json["signing_keys"]
    assert listed["fingerprint"] == account.key.fingerprint
    gone = account.ask("DELETE", f"/v1/signing-keys/fp:{account.key.fingerprint}")
    assert gone.json["status"] == "removed"
    assert account.ask("GET", "/v1/signing-keys").json == {"signing_keys": []}


def test_a_namespace_is_claimed_once_and_never_taken_over(shared_registry: Registry) -> None:
    account, other = shared_registry.account(), shared_registry.account()
    name = f"{account.name}-lab"

    first = account.ask("POST", "/v1/namespaces", {"name": name})
    again = account.ask("POST", "/v1/namespaces", {"name": name})
    taken = other.ask("POST", "/v1/namespaces", {"name": name})
    alike = other.ask("POST", "/v1/namespaces", {"name": name.replace("-", "_")})
    wrong = other.ask("POST", "/v1/namespaces", {"name": "../up"})
    reserved = other.ask("POST", "/v1/namespaces", {"name": "rye"})

    replies = (first, again, taken, alike, wrong, reserved)
    assert [reply.status for reply in replies] == [200, 200, 403, 403, 400, 403]
    assert again.json["skipped"] is True
    assert account.ask("GET", "/v1/account").json["namespaces"] == [name]


def test_an_account_has_a_limited_number_of_namespaces(registry: Registry) -> None:
    account = registry.account()
    for number in range(20):
        assert account.ask("POST", "/v1/namespaces", {"name": f"n{number}"}).status == 200

    refused = account.ask("POST", "/v1/namespaces", {"name": "one-more"})

    assert refused.status == 403
    assert account.push(f"{account.name}/a/b").status == 200


def test_accounts_are_made_by_the_operator_unless_sign_up_is_open(registry: Registry) -> None:
    assert registry.ask("POST", "/v1/accounts", {"name": "ada"}).status == 404

    with running_registry(
        registry.node.data.parent / "open", environ={"RYE_NODE_OPEN_SIGN_UP": "true"}
    ) as other:
        made = other.ask("POST", "/v1/accounts", {"name": "ada"})
        taken = other.ask("POST", "/v1/accounts", {"name": "ada"})
        reserved = other.ask("POST", "/v1/accounts", {"name": "rye"})
        ada = Account(other, "ada", made.json["key"], generate_keypair())

        assert [made.status, taken.status, reserved.status] == [200, 409, 409]
        assert ada.push("ada/greetings/hello").status == 200
        many = [other.ask("POST", "/v1/accounts", {"name": f"a{n}"}).status for n in range(12)]
        assert many[-1] == 429


def test_publications_above_the_rate_limit_are_refused(tmp_path: Any) -> None:  # noqa: ANN401
    with running_registry(
        tmp_path / "registry", environ={"RYE_NODE_MAX_PUSHES_PER_MINUTE": "2"}
    ) as registry:
        account = registry.account()

        replies = [account.push(f"{account.name}/a/b{number}") for number in range(3)]

    assert [reply.status for reply in replies] == [200, 200, 429]
    assert 1 <= int(replies[-1].headers["retry-after"]) <= 31


def test_an_account_has_a_quota_that_deletion_gives_back(tmp_path: Any) -> None:  # noqa: ANN401
    with running_registry(
        tmp_path / "registry", environ={"RYE_NODE_MAX_USER_STORAGE_BYTES": "1000"}
    ) as registry:
        account = registry.account()
        first = account.push(f"{account.name}/a/b1")
        second = account.push(f"{account.name}/a/b2")
        third = account.push(f"{account.name}/a/b3")
        account.ask("DELETE", f"/v1/delete/tool/{account.name}/a/b1")
        fourth = account.push(f"{account.name}/a/b3")

    assert [one.status for one in (first, second, third, fourth)] == [200, 200, 413, 200]
    assert third.json["detail"]["code"] == "RESOURCE_EXCEEDED"


def test_a_namespace_has_one_spelling_for_its_owner_too(shared_registry: Registry) -> None:
    account = shared_registry.account()
    name = f"{account.name}-labs"
    account.ask("POST", "/v1/namespaces", {"name": name})

    other = name.replace("-labs", "_labs")
    claimed = account.ask("POST", "/v1/namespaces", {"name": other})
    published = account.push(f"{other}/text/upper")

    assert (claimed.status, published.status) == (403, 403)
    assert published.json["detail"]["error"] == (
        f"namespace {other!a}: it is yours as {name}: spell it so"
    )
    assert account.push(f"{name}/text/upper").status == 200
