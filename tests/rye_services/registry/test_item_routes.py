import re

import pytest

from lillux.digests import sha256_hex
from lillux.signing import compute_key_fingerprint, verify_signature
from ryeos.items.refs import Kind
from ryeos.remote.signed_documents import verify_document
from ryeos.trust.signature import content_hash, form_for, split
from tests.support.registry import Registry, item_text


def test_a_pushed_item_is_pulled_with_the_signature_of_the_registry(
    shared_registry: Registry,
) -> None:
    account = shared_registry.account()
    item_id = f"{account.name}/greetings/hello"

    pushed = account.push(item_id, changelog="the first")
    pulled = shared_registry.ask("GET", f"/v1/pull/tool/{item_id}")

    assert (pushed.status, pulled.status) == (200, 200)
    assert pushed.json["status"] == "published"
    assert pulled.json["content"] == pushed.json["signed_content"]
    assert (pulled.json["author"], pulled.json["version"]) == (account.name, "1.0.0")
    assert pulled.json["suffix"] == ".py"
    pem = shared_registry.ask("GET", "/v1/public-key").body
    text = pulled.json["content"]
    signed = split(text, form_for(Kind.TOOL, ".py"), "")
    assert signed.signature is not None
    assert signed.signature.provenance == f"rye-registry@{account.name}"
    assert signed.body == item_text("tool", item_id)
    assert signed.signature.content_hash == content_hash(signed.covered)
    assert verify_signature(signed.signature.content_hash, signed.signature.value, pem)


def test_the_registry_attests_which_item_a_content_belongs_to(
    shared_registry: Registry,
) -> None:
    account = shared_registry.account()
    item_id = f"{account.name}/greetings/hello"
    account.push(item_id)

    pulled = shared_registry.ask("GET", f"/v1/pull/tool/{item_id}").json

    attested = pulled["attestation"]
    identity = shared_registry.ask("GET", "/public-key").json
    verify_document(attested, identity["public_key_pem"].encode())
    key = compute_key_fingerprint(shared_registry.ask("GET", "/v1/public-key").body)
    assert attested["signed_by"] == f"fp:{key}"
    assert attested["item_id"] == item_id
    assert attested["version"] == "1.0.0"
    assert attested["author"] == account.name
    assert attested["sha256"] == sha256_hex(pulled["content"].encode())


def test_three_keys_sign_three_things(shared_both: Registry) -> None:
    """A node signs any item of its users, so its key must not be that of the registry."""
    keys = shared_both.node.keys
    registry_key = compute_key_fingerprint(shared_both.ask("GET", "/v1/public-key").body)

    assert len({registry_key, keys.fingerprint, keys.items.fingerprint}) == 3


def test_the_signature_covers_a_directive_to_its_last_line(shared_registry: Registry) -> None:
    account = shared_registry.account()
    item_id = f"{account.name}/greetings/greet"

    account.push(item_id, item_type="directive")
    text = shared_registry.ask("GET", f"/v1/pull/directive/{item_id}").json["content"]

    signed = split(text, form_for(Kind.DIRECTIVE, ".md"), "")
    assert signed.covers is not None
    assert signed.covers.content_hash == content_hash(signed.covered)
    assert text.splitlines()[0].endswith(f"|rye-registry@{account.name} -->")


def test_a_version_never_changes(shared_registry: Registry) -> None:
    account = shared_registry.account()
    item_id = f"{account.name}/greetings/hello"
    first = account.push(item_id)

    again = account.push(item_id)
    other = account.push(item_id, content=item_text("tool", item_id) + "# changed\n")

    assert again.status == 200
    assert again.json["skipped"] is True
    assert again.json["signed_content"] == first.json["signed_content"]
    assert other.status == 409
    assert other.json["detail"]["error"].endswith("@1.0.0: it is there with another content")


def test_the_highest_version_is_pulled_in_any_order_of_pushes(shared_registry: Registry) -> None:
    account = shared_registry.account()
    item_id = f"{account.name}/greetings/hello"
    for version in ("1.9.0", "1.10.0", "1.2.0"):
        assert account.push(item_id, version).status == 200

    latest = shared_registry.ask("GET", f"/v1/pull/tool/{item_id}").json
    older = shared_registry.ask("GET", f"/v1/pull/tool/{item_id}?version=1.2.0").json

    assert latest["version"] == "1.10.0"
    assert latest["versions"] == ["1.10.0", "1.9.0", "1.2.0"]
    assert older["version"] == "1.2.0"


def test_a_namespace_of_another_user_is_refused(shared_registry: Registry) -> None:
    owner, other = shared_registry.account(), shared_registry.account()
    owner.push(f"{owner.name}/greetings/hello")

    taken = other.push(f"{owner.name}/greetings/hullo")
    named = other.push(f"{shared_registry.account().name}/greetings/hello")
    reserved = other.push("ryeos/greetings/hello")
    folded = other.push(f"{owner.name.upper()}/greetings/hello")

    assert [reply.status for reply in (taken, named, reserved, folded)] == [403, 403, 403, 400]
    assert "belongs to another account" in taken.json["detail"]["error"]


def test_all_broken_rules_of_an_item_are_reported(shared_registry: Registry) -> None:
    account = shared_registry.account()
    place = f"{account.name}/greetings"
    item_id = f"{place}/hello"
    text = item_text("tool", item_id).replace(place, "elsewhere")

    refused = account.push(item_id, content=re.sub("__tool_type__.*\n", "", text))

    assert refused.status == 400
    assert refused.json["detail"] == {
        "status": "error",
        "code": "VALIDATION_FAILED",
        "error": "Validation failed",
        "hint": "rye sign says the same before anything is sent",
        "issues": [
            "Missing required field: tool_type",
            f"Field 'category' value 'elsewhere' must match path category '{place}'",
        ],
    }


def test_the_version_must_match_the_content(shared_registry: Registry) -> None:
    account = shared_registry.account()
    item_id = f"{account.name}/greetings/hello"

    refused = account.push(item_id, "2.0.0", content=item_text("tool", item_id, "1.0.0"))

    assert refused.status == 400
    assert refused.json["detail"]["issues"] == [
        "Field 'version' must be the version it is published as (2.0.0), got '1.0.0'"
    ]


def signed(account_key: object, kind: Kind, text: str, suffix: str) -> str:
    form = form_for(kind, suffix)
    return account_key.signed_text(kind, split(text, form, ""), form, "")  # type: ignore[attr-defined,no-any-return]


def test_a_signature_of_a_key_outside_of_the_account_is_refused(
    shared_registry: Registry,
) -> None:
    account, other = shared_registry.account(with_key=True), shared_registry.account()
    item_id = f"{account.name}/greetings/hello"
    text = item_text("tool", item_id)
    own = signed(account.key, Kind.TOOL, text, ".py")

    foreign = account.push(item_id, content=signed(other.key, Kind.TOOL, text, ".py"))
    changed = account.push(item_id, content=own + "# added\n")
    flipped = account.push(
        item_id, content=re.sub("(:[0-9a-f]{64}:).{10}", r"\1AAAAAAAAAA", own, count=1)
    )
    good = account.push(item_id, content=own)

    assert [reply.status for reply in (foreign, changed, flipped, good)] == [400, 400, 400, 200]
    assert "expected a key of yours" in foreign.json["detail"]["error"]
    assert good.json["publisher"] == account.key.fingerprint
    assert account.push(item_id, content=text).json["skipped"] is True


def test_a_deleted_version_is_gone_and_never_given_away_again(shared_registry: Registry) -> None:
    account, other = shared_registry.account(), shared_registry.account()
    item_id = f"{account.name}/greetings/hello"
    account.push(item_id)
    account.push(item_id, "1.1.0")

    foreign = other.ask("DELETE", f"/v1/delete/tool/{item_id}?version=1.1.0")
    deleted = account.ask("DELETE", f"/v1/delete/tool/{item_id}?version=1.1.0")
    again = account.ask("DELETE", f"/v1/delete/tool/{item_id}?version=1.1.0")

    assert (foreign.status, deleted.status, again.status) == (403, 200, 404)
    assert deleted.json == {
        "status": "deleted",
        "item_type": "tool",
        "item_id": item_id,
        "version": "1.1.0",
        "deleted_versions": ["1.1.0"],
    }
    assert shared_registry.ask("GET", f"/v1/pull/tool/{item_id}?version=1.1.0").status == 404
    assert shared_registry.ask("GET", f"/v1/pull/tool/{item_id}").json["version"] == "1.0.0"
    assert account.push(item_id, "1.1.0").status == 409


def test_an_item_without_remaining_versions_is_not_found(shared_registry: Registry) -> None:
    account = shared_registry.account()
    item_id = f"{account.name}/greetings/hello"
    account.push(item_id)
    account.push(item_id, "1.1.0")

    deleted = account.ask("DELETE", f"/v1/delete/tool/{item_id}")

    assert deleted.json["deleted_versions"] == ["1.0.0", "1.1.0"]
    assert shared_registry.ask("GET", f"/v1/pull/tool/{item_id}").status == 404
    assert shared_registry.ask("GET", f"/v1/items/tool/{item_id}").status == 404
    assert account.push(item_id, "1.2.0").status == 200
    assert shared_registry.ask("GET", f"/v1/pull/tool/{item_id}").json["version"] == "1.2.0"


def test_an_id_that_differs_by_case_alone_is_taken(shared_registry: Registry) -> None:
    account = shared_registry.account()
    account.push(f"{account.name}/greetings/hello")

    refused = account.push(f"{account.name}/greetings/Hello")

    assert refused.status == 409
    assert "by case alone" in refused.json["detail"]["error"]


def test_a_push_needs_the_write_scope(shared_registry: Registry) -> None:
    reader = shared_registry.account(scopes=("registry:read",))
    body = {"item_type": "tool", "item_id": "a/b/c", "version": "1.0.0", "content": ""}

    assert shared_registry.ask("POST", "/v1/push", body).status == 401
    assert reader.ask("POST", "/v1/push", body).status == 403


def test_downloads_are_counted(shared_registry: Registry) -> None:
    account = shared_registry.account()
    item_id = f"{account.name}/greetings/hello"
    account.push(item_id)

    for _ in range(3):
        shared_registry.ask("GET", f"/v1/pull/tool/{item_id}")

    assert shared_registry.ask("GET", f"/v1/items/tool/{item_id}").json["download_count"] == 3


@pytest.mark.heavy
def test_download_counts_survive_a_restart(registry: Registry) -> None:
    account = registry.account()
    item_id = f"{account.name}/greetings/hello"
    account.push(item_id)
    registry.ask("GET", f"/v1/pull/tool/{item_id}")

    assert registry.node.end() == 0
    registry.node.start()

    assert registry.ask("GET", f"/v1/items/tool/{item_id}").json["download_count"] == 1


def test_a_registry_is_healthy_and_has_no_routes_of_a_node(shared_registry: Registry) -> None:
    health = shared_registry.ask("GET", "/health").json

    assert (health["status"], health["database"]) == ("healthy", "ok")
    assert shared_registry.ask("POST", "/execute", {}).status == 404
    assert shared_registry.ask("POST", "/objects/has", {}).status == 404
    pem = shared_registry.ask("GET", "/v1/public-key")
    assert pem.headers["content-type"] == "application/x-pem-file"
    assert pem.body.startswith(b"-----BEGIN PUBLIC KEY-----")


def test_a_node_without_the_role_has_no_registry(shared_node: object) -> None:
    assert shared_node.ask("GET", "/v1/public-key").status == 404  # type: ignore[attr-defined]


def test_a_node_may_be_a_registry_as_well(shared_both: Registry) -> None:
    account = shared_both.account()

    assert account.push(f"{account.name}/greetings/hello").status == 200
    assert shared_both.ask("GET", "/health").json["status"] == "ok"
    assert shared_both.ask("GET", "/v1/health").json["status"] == "healthy"
    assert shared_both.node.owner.ask("GET", "/threads").status == 200
