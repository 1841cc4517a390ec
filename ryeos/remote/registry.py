"""The client of a registry: a method for each route of ``docs/registry.md``.

Nothing that shows who asks is sent before the registry's key was found to be the pinned one.
"""

from collections.abc import Mapping
from typing import Any

from lillux.cancellation import Cancellation
from lillux.errors import LilluxError
from ryeos import __version__
from ryeos.items.errors import NoSigningKeyError, RyeError
from ryeos.items.refs import ItemRef
from ryeos.remote.errors import RemoteError
from ryeos.remote.peer_client import PeerClient
from ryeos.remote.peers import REGISTRY
from ryeos.remote.pins import Pin, PinState, RegistryPins
from ryeos.remote.registry_errors import NotInRegistryError, RegistryIdError, registry_reply_error
from ryeos.remote.registry_ids import valid_version
from ryeos.remote.registry_settings import CONFIG_PATH, Registries, RegistryConfig
from ryeos.remote.replies import (
    BundleReply,
    PulledReply,
    parse_json,
    parse_reply,
    read_bundle,
    read_pulled,
    rows_at,
    unicode_text_at,
)
from ryeos.remote.settings import RemoteConfig
from ryeos.remote.transport import MAX_SMALL_REPLY, MIB, BearerCredentials, QueryPairs, Transport
from ryeos.run.workspace import Workspace
from ryeos.trust.signing_key import SigningKey

MAX_KEY_REPLY = 16 * 1024
MAX_ITEM_REPLY = 32 * MIB
"""Of an item of 8 MiB, each character of which JSON may write as six."""

KEY_CLAIM = "registry-key/v1"
MAX_BUNDLE_REPLY = 128 * MIB
_NOT_FOUND = 404


class RegistryClient(PeerClient):
    """Asks one registry. ``netloc`` is what its pin is kept under.

    ``team``: whose account is meant, "" for the caller's own.
    """

    def __init__(
        self, config: RegistryConfig, transport: Transport, pins: RegistryPins, team: str = ""
    ) -> None:
        super().__init__(REGISTRY, transport, team)
        self.config, self._pins = config, pins
        self._pin: Pin | None = None

    def pin(self, expected: str = "") -> Pin:
        """Its key, checked against its pin; asked once.

        ``expected`` is a fingerprint that a person names. Raises PinMismatchError,
        RyeError `REMOTE_REPLY_INVALID`, and what asking raises.
        """
        if self._pin is None or expected not in {"", self._pin.fingerprint}:
            pem = self.public_key()
            wanted = expected or self.config.fingerprint
            pin = self._pins.check(
                self.name, self.config.netloc, pem, wanted, identity=self._identity
            )
            if self.config.api_key:
                self._transport.identify(pin.fingerprint)
            self._pin = pin
        return self._pin

    @property
    def is_new(self) -> bool:
        """True if its key was pinned just now."""
        return self._pin is not None and self._pin.state is PinState.NEW

    def public_key(self) -> bytes:
        """The key that it shows, as PEM. Raises RyeError `REMOTE_REPLY_INVALID`."""
        from lillux.signing import canonical_public_pem

        what = self._what("/v1/public-key")
        body = self._exchange("GET", "/v1/public-key", (), None, max_bytes=MAX_KEY_REPLY)
        try:
            pem = body
            if body.lstrip().startswith(b"{"):  # an older form: the PEM in JSON
                pem = str(_parsed(body, what).get("public_key_pem")).encode()
            return canonical_public_pem(pem)
        except LilluxError as error:
            raise registry_reply_error(what, f"expected a public key as PEM: {error}") from error

    def _identity(self) -> bytes:
        """The key that it is known by, as PEM; ``b""`` for a registry of an older kind."""
        from ryeos.remote.identity import read_identity

        try:
            document = self._open("GET", "/public-key", wanted="/public-key")
        except NotInRegistryError:
            return b""
        return read_identity(document).public_key_pem

    def health(self) -> dict[str, Any]:
        """The state of a registry: up or not, and its version."""
        return self._open("GET", "/health")

    def push(
        self, ref: ItemRef, content: str, version: str, *, suffix: str, changelog: str = ""
    ) -> dict[str, Any]:
        """Publish a version of an item."""
        body: dict[str, Any] = {
            "item_type": ref.kind.value,
            "item_id": ref.id,
            "content": content,
            "version": version,
            "suffix": suffix,
        }
        if changelog:
            body["changelog"] = changelog
        return self._request("POST", "/v1/push", body=body, max_bytes=MAX_ITEM_REPLY)

    def pull(self, ref: ItemRef, version: str = "") -> PulledReply:
        """A version of an item, the latest without one. Raises NotInRegistryError."""
        self.pin()
        path = f"/v1/pull/{ref.kind.value}/{ref.id}"
        query = [("version", version)] if version else []
        wanted = f"{ref}{f' {version}' if version else ''}"
        reply = self._open("GET", path, query, max_bytes=MAX_ITEM_REPLY, wanted=wanted)
        return read_pulled(reply, self._what(path))

    def info(self, ref: ItemRef) -> dict[str, Any]:
        """The facts of an item, and its versions. Raises NotInRegistryError."""
        path = f"/v1/items/{ref.kind.value}/{ref.id}"
        return self._page(path, (), rows="versions", wanted=str(ref))

    def latest(self, ref: ItemRef) -> str:
        """The highest version of an item.

        Raises NotInRegistryError, RyeError `REMOTE_REPLY_INVALID`.
        """
        what = self._what(f"/v1/items/{ref.kind.value}/{ref.id}")
        try:
            return valid_version(
                unicode_text_at(self.info(ref), "version", what, registry_reply_error)
            )
        except RegistryIdError as error:
            raise registry_reply_error(what, str(error)) from error

    def search(self, query: QueryPairs) -> dict[str, Any]:
        """A page of items: ``results`` and ``total``."""
        return self._page("/v1/search", query)

    def delete(self, ref: ItemRef, version: str = "") -> dict[str, Any]:
        """Take back a version, or all of them. Raises NotInRegistryError."""
        query = [("version", version)] if version else []
        path = f"/v1/delete/{ref.kind.value}/{ref.id}"
        return self._request("DELETE", path, query, wanted=str(ref))

    def set_visibility(self, ref: ItemRef, visibility: str) -> dict[str, Any]:
        """True if searches find an item. Raises NotInRegistryError."""
        path = f"/v1/visibility/{ref.kind.value}/{ref.id}"
        return self._request("POST", path, body={"visibility": visibility}, wanted=str(ref))

    def push_bundle(
        self, bundle_id: str, version: str, manifest: str, files: Mapping[str, Mapping[str, Any]]
    ) -> dict[str, Any]:
        """Publish a version of a bundle."""
        body = {"bundle_id": bundle_id, "version": version, "manifest": manifest, "files": files}
        return self._request("POST", "/v1/bundle/push", body=body)

    def pull_bundle(self, bundle_id: str, version: str = "") -> BundleReply:
        """A version of a bundle, the latest without one. Raises NotInRegistryError."""
        path = f"/v1/bundle/pull/{bundle_id}"
        query = [("version", version)] if version else []
        wanted = f"bundle {bundle_id}{f' {version}' if version else ''}"
        reply = self._request("GET", path, query, max_bytes=MAX_BUNDLE_REPLY, wanted=wanted)
        return read_bundle(reply, self._what(path))

    def search_bundles(self, query: QueryPairs) -> dict[str, Any]:
        """A page of bundles: ``results`` and ``total``."""
        return self._page("/v1/bundle/search", query)

    def set_bundle_visibility(self, bundle_id: str, visibility: str) -> dict[str, Any]:
        """True if searches find a bundle. Raises NotInRegistryError."""
        path = f"/v1/bundle/{bundle_id}/visibility"
        return self._request(
            "POST", path, body={"visibility": visibility}, wanted=f"bundle {bundle_id}"
        )

    def create_key(self, name: str, scopes: list[str], days: int | None) -> dict[str, Any]:
        """A new API key, which is shown this once."""
        body: dict[str, Any] = {"name": name, "scopes": scopes}
        if days is not None:
            body["expires_in_days"] = days
        return self._request("POST", "/v1/api-keys", body=body)

    def keys(self) -> list[dict[str, Any]]:
        """The account's API keys, without themselves."""
        reply = self._raw("GET", "/v1/api-keys", (), None, max_bytes=MAX_SMALL_REPLY)
        return _rows_of_list(reply, self._what("/v1/api-keys"))

    def revoke_key(self, name: str) -> dict[str, Any]:
        """End an API key. Raises NotInRegistryError."""
        return self._request("DELETE", f"/v1/api-keys/{name}", wanted=f"API key {name}")

    def account(self) -> dict[str, Any]:
        """The owner of the API key: its ``name``, ``namespaces`` and ``signing_keys``."""
        reply = self._request("GET", "/v1/account")
        unicode_text_at(reply, "name", self._what("/v1/account"), registry_reply_error)
        return reply

    def namespaces(self) -> list[dict[str, Any]]:
        """The account's namespaces."""
        reply = self._request("GET", "/v1/namespaces")
        what = self._what("/v1/namespaces")
        return list(rows_at(reply, "namespaces", what, registry_reply_error))

    def claim_namespace(self, name: str) -> dict[str, Any]:
        """Claim a free namespace."""
        return self._request("POST", "/v1/namespaces", body={"name": name})

    def add_signing_key(self, key: SigningKey, signed_at: str) -> dict[str, Any]:
        """Have the registry check what is pushed by a key, which shows that it is the account's."""
        from lillux.signing import compute_key_fingerprint
        from ryeos.remote.identity import encode_public_key
        from ryeos.remote.signed_documents import sign_document

        account = self.account()["name"]
        identity_pem = self.pin().identity_pem
        if not identity_pem:  # the claim is for one registry, and this one cannot say which it is
            raise registry_reply_error(
                self._what("/public-key"), "expected an identity, found none"
            )
        document = {
            "kind": KEY_CLAIM,
            "account": account,
            "registry": f"fp:{compute_key_fingerprint(identity_pem)}",
            "public_key": encode_public_key(key.public_pem),
        }
        signed = sign_document(document, key, signed_at)
        return self._request("POST", "/v1/signing-keys", body={"document": signed})

    def remove_signing_key(self, fingerprint: str) -> dict[str, Any]:
        """End the checks of pushes by a key. Raises NotInRegistryError."""
        path = f"/v1/signing-keys/{fingerprint}"
        return self._request("DELETE", path, wanted=f"signing key {fingerprint}")

    def _page(
        self, path: str, query: QueryPairs, *, rows: str = "results", wanted: str = ""
    ) -> dict[str, Any]:
        if self.config.api_key:
            self.pin()  # who asks is shown, so that one's own unlisted ones are found
        reply = self._open("GET", path, query, wanted=wanted)
        rows_at(reply, rows, self._what(path), registry_reply_error)
        return reply

    def _request(
        self,
        method: str,
        path: str,
        query: QueryPairs = (),
        *,
        body: Mapping[str, Any] | None = None,
        max_bytes: int = MAX_SMALL_REPLY,
        wanted: str = "",
    ) -> dict[str, Any]:
        """The JSON object of a request that needs an API key. Raises RyeError `REGISTRY_NO_KEY`."""
        return _parsed(
            self._raw(method, path, query, body, max_bytes=max_bytes, wanted=wanted),
            self._what(path),
        )

    def _raw(
        self,
        method: str,
        path: str,
        query: QueryPairs,
        body: Mapping[str, Any] | None,
        *,
        max_bytes: int,
        wanted: str = "",
    ) -> bytes:
        if not self.config.api_key:
            key_env = self.config.key_env
            problem = f"{key_env} is not set" if key_env else "no variable is named for its API key"
            raise RyeError(
                f"registry {self.name}: this needs an API key, and {problem}",
                code="REGISTRY_NO_KEY",
                hint=f"set {key_env}" if key_env else "rye registry login --key-env VARIABLE",
            )
        self.pin()
        return self._exchange(
            method, path, self._owned(query), body, max_bytes=max_bytes, wanted=wanted
        )

    def _open(
        self,
        method: str,
        path: str,
        query: QueryPairs = (),
        *,
        max_bytes: int = MAX_SMALL_REPLY,
        wanted: str = "",
    ) -> dict[str, Any]:
        return _parsed(
            self._exchange(method, path, query, None, max_bytes=max_bytes, wanted=wanted),
            self._what(path),
        )

    def _exchange(
        self,
        method: str,
        path: str,
        query: QueryPairs,
        body: Mapping[str, Any] | None,
        *,
        max_bytes: int,
        wanted: str = "",
    ) -> bytes:
        """The body of a reply that is no refusal. Raises NotInRegistryError where it is wanted."""
        try:
            return self._reply(
                method,
                path,
                body,
                query=query,
                max_response_bytes=max_bytes,
                may_repeat=method == "GET",
            ).body
        except RemoteError as error:
            if error.status == _NOT_FOUND and wanted:
                raise NotInRegistryError(self.name, wanted) from None
            raise


def _parsed(body: bytes, what: str) -> dict[str, Any]:
    return parse_reply(body, what, registry_reply_error)


def _rows_of_list(body: bytes, what: str) -> list[dict[str, Any]]:
    """Rows of a JSON list, or of the first list in an object."""
    value = parse_json(body, what, registry_reply_error)
    rows = value
    if isinstance(value, dict):
        rows = next((one for one in value.values() if isinstance(one, list)), None)
    return list(rows_at({"keys": rows}, "keys", what, registry_reply_error))


# A registry by its name: configuration, credentials and pins put together.


def registries_of(workspace: Workspace) -> Registries:
    """The registries that are configured. Raises IntegrityError, RyeError `CONFIG_ERROR`."""
    return Registries(workspace.network_layers(CONFIG_PATH), workspace.context.process_env)


def pins_of(workspace: Workspace) -> RegistryPins:
    """The pins of the user."""
    return RegistryPins(workspace.context.spaces.user.base, key_if_any(workspace))


def open_registry(
    workspace: Workspace,
    config: RegistryConfig,
    cancellation: Cancellation | None = None,
    *,
    team: str = "",
) -> RegistryClient:
    """A registry that is configured, for a team or oneself; nothing is asked yet."""
    from lillux.http.client import HttpClient
    from ryeos.remote.transport import HttpTransport

    transport = HttpTransport(
        RemoteConfig(name=config.name, url=config.url, timeout_s=config.timeout_s),
        BearerCredentials(config.api_key),
        HttpClient(workspace.context.process_env, user_agent=f"rye/{__version__}"),
        cancellation=cancellation,
        peer=REGISTRY,
    )
    return RegistryClient(config, transport, pins_of(workspace), team)


def key_if_any(workspace: Workspace) -> SigningKey | None:
    """The user's signing key, or None."""
    try:
        return workspace.signing_key()
    except NoSigningKeyError:
        return None
