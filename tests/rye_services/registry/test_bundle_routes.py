import os
from pathlib import Path
from typing import Any

import pytest

from lillux.signing import generate_keypair
from lillux.store import Store
from lillux.store_layout import ObjectKind
from rye_services.registry.services import open_registry_alone
from ryeos.remote.signed_documents import verify_document
from ryeos.trust.signing_key import SigningKey
from tests.support.registry import Registry, bundle_body, item_text, running_registry

FILES = {
    ".ai/tools/shapes/draw/circle.py": item_text("tool", "shapes/draw/circle"),
    ".ai/knowledge/shapes/draw/about.md": item_text("knowledge", "shapes/draw/about"),
}


def body(bundle_id: str, version: str = "1.0.0", **files: str) -> dict[str, Any]:
    return bundle_body(None, bundle_id, {**FILES, **files}, version)


def test_a_bundle_is_pulled_as_it_was_pushed(shared_registry: Registry) -> None:
    account = shared_registry.account()
    sent = bundle_body(account.key, account.name, FILES)

    pushed = account.ask("POST", "/v1/bundle/push", sent)
    pulled = account.ask("GET", f"/v1/bundle/pull/{account.name}")

    assert pushed.answer == (
        200,
        {
            "status": "pushed",
            "bundle_id": account.name,
            "version": "1.0.0",
            "file_count": 2,
            "author": account.name,
            "publisher": None,
        },
    )
    answer = pulled.json
    assert (answer["manifest"], answer["files"]) == (sent["manifest"], sent["files"])
    assert (answer["bundle_id"], answer["version"]) == (account.name, "1.0.0")
    identity = shared_registry.ask("GET", "/public-key").json
    verify_document(answer["attestation"], identity["public_key_pem"].encode())
    assert shared_registry.ask("GET", f"/v1/bundle/pull/{account.name}").status == 401


def test_a_version_of_a_bundle_never_changes(shared_registry: Registry) -> None:
    account = shared_registry.account()
    account.ask("POST", "/v1/bundle/push", body(account.name))

    again = account.ask("POST", "/v1/bundle/push", body(account.name))
    more = {".ai/tools/shapes/draw/line.py": item_text("tool", "shapes/draw/line")}
    other = account.ask("POST", "/v1/bundle/push", body(account.name, **more))
    newer = account.ask("POST", "/v1/bundle/push", body(account.name, "1.1.0", **more))

    assert [one.status for one in (again, other, newer)] == [200, 409, 200]
    assert again.json["skipped"] is True
    latest = account.ask("GET", f"/v1/bundle/pull/{account.name}").json
    older = account.ask("GET", f"/v1/bundle/pull/{account.name}?version=1.0.0").json
    named = f"/v1/bundle/pull?bundle_id={account.name}"
    assert account.ask("GET", named).json == latest
    assert account.ask("GET", f"{named}&version=1.0.0").json == older
    assert account.ask("GET", "/v1/bundle/pull").status == 422
    assert (len(latest["files"]), len(older["files"])) == (3, 2)
    info = shared_registry.ask("GET", f"/v1/bundle/info/{account.name}").json
    assert info["versions"] == ["1.1.0", "1.0.0"]
    assert info["download_count"] == 4


def test_the_bundle_of_another_user_is_refused(shared_registry: Registry) -> None:
    owner, other = shared_registry.account(), shared_registry.account()
    bundle_id = f"{owner.name}-shapes"
    owner.ask("POST", "/v1/bundle/push", body(bundle_id))

    taken = other.ask("POST", "/v1/bundle/push", body(bundle_id, "2.0.0"))
    alike = other.ask("POST", "/v1/bundle/push", body(bundle_id.replace("-", "_")))
    named = other.ask("POST", "/v1/bundle/push", body(shared_registry.account().name))
    own = other.ask("POST", "/v1/bundle/push", body("ryeos-core"))
    shown = other.ask("POST", f"/v1/bundle/{bundle_id}/visibility", {"visibility": "unlisted"})

    replies = (taken, alike, named, own, shown)
    assert [one.status for one in replies] == [403, 403, 403, 400, 403]


PATH = ".ai/tools/shapes/draw/circle.py"


@pytest.mark.parametrize(
    ("change", "issue"),
    [
        ({"path": "../../up.py"}, "'../../up.py': '..' segments are not allowed"),
        ({"path": ".ai/tools/a\\b.py"}, "found a backslash"),
        ({"path": ".ai/TOOLS/shapes/draw/circle.py"}, "by case alone"),
        ({"path": ".ai/tools/more.py"}, "sent, but not listed in the manifest"),
        ({"path": ".ai/tools/nul.py"}, "names a device on Windows"),
        ({"content": "print(2)\n"}, "object_hash: not that of the content"),
        ({"object_hash": "0" * 64}, "object_hash: expected that of the manifest"),
        ({"inline_signed": True}, "inline_signed: expected that of the manifest"),
    ],
)
def test_a_file_that_differs_from_the_manifest_is_refused(
    shared_registry: Registry, change: dict[str, Any], issue: str
) -> None:
    account = shared_registry.account()
    sent = body(account.name)
    path = change.get("path", PATH)
    changed = {name: value for name, value in change.items() if name != "path"}
    sent["files"][path] = {**sent["files"][PATH], **changed}

    refused = account.ask("POST", "/v1/bundle/push", sent)

    assert refused.status == 400
    assert any(issue in found for found in refused.json["detail"]["issues"])


def test_the_manifest_of_another_bundle_is_refused(shared_registry: Registry) -> None:
    account = shared_registry.account()
    sent = {**body("another-one", "1.0.0"), "bundle_id": account.name, "version": "2.0.0"}
    missing = body(account.name)
    del missing["files"][PATH]

    refused = account.ask("POST", "/v1/bundle/push", sent).json["detail"]
    unsent = account.ask("POST", "/v1/bundle/push", missing).json["detail"]

    assert refused["issues"] == [
        f"manifest: bundle.id: expected {account.name}, found 'another-one'",
        "manifest: bundle.version: expected 2.0.0, found '1.0.0'",
    ]
    assert unsent["issues"] == [f"'{PATH}': listed, but not sent"]


@pytest.mark.parametrize("manifest", ["", "[]", "a: [", "bundle: 1\nfiles: []\n", "&a [*a]"])
def test_an_invalid_manifest_is_reported(shared_registry: Registry, manifest: str) -> None:
    account = shared_registry.account()

    refused = account.ask("POST", "/v1/bundle/push", {**body(account.name), "manifest": manifest})

    assert refused.status == 400
    assert "manifest" in refused.json["detail"]["error"]


def test_a_manifest_signed_outside_of_the_account_is_refused(
    shared_registry: Registry,
) -> None:
    account = shared_registry.account(with_key=True)
    stranger = SigningKey(generate_keypair())

    foreign = account.ask("POST", "/v1/bundle/push", bundle_body(stranger, account.name, FILES))
    own = account.ask("POST", "/v1/bundle/push", bundle_body(account.key, account.name, FILES))

    assert [foreign.status, own.status] == [400, 200]
    assert own.json["publisher"] == account.key.fingerprint


def test_bundles_are_found_by_their_description(shared_registry: Registry) -> None:
    account, other = shared_registry.account(), shared_registry.account()
    bundle_id = f"{account.name}-heptagons"
    account.ask("POST", "/v1/bundle/push", body(bundle_id))

    found = shared_registry.ask("GET", "/v1/bundle/search?query=heptagons+tools").json
    account.ask("POST", f"/v1/bundle/{bundle_id}/visibility", {"visibility": "unlisted"})
    hidden = shared_registry.ask("GET", "/v1/bundle/search?query=heptagons").json
    mine = account.ask("GET", "/v1/bundle/search?query=heptagons&include_mine=true").json
    theirs = other.ask("GET", "/v1/bundle/search?query=heptagons&include_mine=true").json

    assert [one["bundle_id"] for one in found["results"]] == [bundle_id]
    assert (found["total"], hidden["total"], mine["total"], theirs["total"]) == (1, 0, 1, 0)
    assert mine["results"][0]["visibility"] == "unlisted"
    assert other.ask("GET", f"/v1/bundle/pull/{bundle_id}").status == 200
    assert shared_registry.ask("GET", "/v1/bundle/search?query=%25").json["total"] == 0


@pytest.mark.heavy
def test_a_bundle_survives_a_restart(registry: Registry) -> None:
    account = registry.account()
    account.ask("POST", "/v1/bundle/push", body(account.name))

    registry.node.restart()

    assert len(account.ask("GET", f"/v1/bundle/pull/{account.name}").json["files"]) == 2


def test_a_deleted_version_is_removed_with_its_own_files(registry: Registry) -> None:
    account, other = registry.account("ada"), registry.account("bob")
    more = {".ai/tools/shapes/draw/line.py": item_text("tool", "shapes/draw/line", words="Draws")}
    account.ask("POST", "/v1/bundle/push", body("ada"))
    account.ask("POST", "/v1/bundle/push", body("ada", "1.1.0", **more))
    blobs = [path for path in (registry.node.data / "registry").rglob("*") if path.is_file()]
    for path in blobs:
        os.utime(path, (0, 0))

    foreign = other.ask("DELETE", "/v1/bundle/ada?version=1.1.0")
    deleted = account.ask("DELETE", "/v1/bundle/ada?version=1.1.0")

    assert (foreign.status, deleted.status) == (403, 200)
    assert deleted.json["deleted_versions"] == ["1.1.0"]
    assert len(blobs) - len([path for path in blobs if path.exists()]) == 1
    assert len(account.ask("GET", "/v1/bundle/pull/ada").json["files"]) == 2
    assert account.ask("GET", "/v1/bundle/pull/ada?version=1.1.0").status == 404
    assert account.ask("POST", "/v1/bundle/push", body("ada", "1.1.0", **more)).status == 409
    account.ask("DELETE", "/v1/bundle/ada")
    assert account.ask("GET", "/v1/bundle/pull/ada").status == 404
    assert registry.ask("GET", "/v1/bundle/search").json["total"] == 0
    assert account.ask("GET", "/v1/account").json["stored_bytes"] == 0
    assert account.ask("DELETE", "/v1/bundle/ada").status == 404
    assert account.ask("POST", "/v1/bundle/push", body("ada", "1.2.0")).status == 200
    assert account.ask("GET", "/v1/bundle/pull/ada").json["version"] == "1.2.0"


def test_a_bundle_shows_the_description_of_its_newest_remaining_version(
    shared_registry: Registry,
) -> None:
    account = shared_registry.account()
    older, newer = body(account.name), body(account.name, "1.1.0")
    newer["manifest"] = newer["manifest"].replace("Some tools", "Regretted tools")
    for one in (older, newer):
        assert account.ask("POST", "/v1/bundle/push", one).status == 200

    account.ask("DELETE", f"/v1/bundle/{account.name}?version=1.1.0")

    info = account.ask("GET", f"/v1/bundle/info/{account.name}").json
    assert (info["version"], info["description"]) == ("1.0.0", "Some tools")


def test_a_bundle_over_the_quota_leaves_no_file(tmp_path: Path) -> None:
    limit = {"RYE_NODE_MAX_USER_STORAGE_BYTES": "1000"}
    with running_registry(tmp_path / "registry", environ=limit) as registry:
        account = registry.account()
        text = f"{item_text('tool', 'shapes/draw/line')}# {'x' * 1000}\n"
        files = {".ai/tools/shapes/draw/line.py": text}

        refused = account.ask("POST", "/v1/bundle/push", body(account.name, **files))

        assert refused.status == 413
        assert stored_files(registry) == []


def test_old_files_of_no_bundle_are_swept(registry: Registry) -> None:
    account = registry.account()
    account.ask("POST", "/v1/bundle/push", body(account.name))
    named = stored_files(registry)
    services = open_registry_alone(registry.node.settings)
    store = Store(registry.node.data / "registry")
    orphan, young = store.put_blob(b"of a push that was killed"), store.put_blob(b"just sent")
    for path in (*named, store.path_of(ObjectKind.BLOB, orphan)):
        os.utime(path, (0, 0))

    assert services.bundles.sweep() == 1

    assert not store.has_blob(orphan)
    assert store.has_blob(young)
    assert len(account.ask("GET", f"/v1/bundle/pull/{account.name}").json["files"]) == 2
    services.database.close()


def stored_files(registry: Registry) -> list[Path]:
    """The files in the store of bundles."""
    return [path for path in (registry.node.data / "registry").rglob("*") if path.is_file()]
