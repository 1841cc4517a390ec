"""A client of registries that lie or redirect."""

from pathlib import Path
from typing import Any

import pytest

from lillux.signing import generate_keypair
from lillux.values import replace
from ryeos.items.errors import RyeError
from ryeos.items.refs import ItemRef, Kind
from ryeos.remote.errors import RemoteError
from ryeos.remote.pins import PinMismatchError, PinState, RegistryPins
from ryeos.remote.registry import RegistryClient, open_registry
from ryeos.remote.registry_errors import NotInRegistryError
from ryeos.remote.registry_settings import RegistryConfig
from ryeos.trust.signing_key import SigningKey
from tests.support.errors import coded
from tests.support.http_servers import Exchange, Server, closed_port
from tests.support.registry import Registry as LiveRegistry
from tests.support.registry_replies import Forge, as_json, as_text, serving
from tests.support.workspace import Workspace

REF = ItemRef(Kind.TOOL, "ada/text/upper")
PULL = f"/v1/pull/tool/{REF.id}"
KEY = "rye_sk_secret"


def client(
    workspace: Workspace,
    server: Server | str,
    *,
    api_key: str = KEY,
    **more: Any,  # noqa: ANN401
) -> RegistryClient:
    """A client of a server."""
    url = server if isinstance(server, str) else server.url
    config = RegistryConfig(name="default", url=url, key_env="K", api_key=api_key, **more)
    return open_registry(workspace.rye(), config)


def is_of_no_registry(error: RyeError) -> bool:
    """Whether an error says that the answer is not of a registry."""
    is_named = str(error).startswith("registry default: ")
    return is_named and error.code == "REMOTE_REPLY_INVALID"


def shown_keys(server: Server) -> list[str]:
    """The paths of the requests that showed the API key."""
    return [seen.target for seen in server.requests if KEY in str(seen.headers)]


def redirect(url: str) -> Any:  # noqa: ANN401 - an answer
    def answer(exchange: Exchange) -> None:
        exchange.answer(307, b"", Location=url)

    return answer


def test_credentials_are_not_sent_to_a_registry_with_another_key(workspace: Workspace) -> None:
    forge, other = Forge(), Forge()
    routes = {"/v1/public-key": as_text(forge.key.public_pem), PULL: as_json({})}
    with serving(routes) as server:
        client(workspace, server).pin()
        routes["/v1/public-key"] = as_text(other.key.public_pem)

        with pytest.raises(PinMismatchError) as error:
            client(workspace, server).pull(REF)

        assert error.value.pinned == forge.pin.fingerprint
        assert error.value.found == other.pin.fingerprint
        assert shown_keys(server) == []


def test_the_registry_must_have_the_configured_key(workspace: Workspace) -> None:
    with serving({"/v1/public-key": as_text(Forge().key.public_pem)}) as server:
        named = client(workspace, server, fingerprint="0" * 16)

        with pytest.raises(PinMismatchError):
            named.pin()

        assert not list((workspace.user.space.ai / "node").rglob("*.toml"))


def test_no_redirect_is_followed(workspace: Workspace) -> None:
    with Server(lambda exchange: exchange.answer(200, b"{}")) as elsewhere:
        pem = as_text(Forge().key.public_pem)
        with serving({"/v1/public-key": pem, PULL: redirect(elsewhere.url)}) as server:
            with pytest.raises(RyeError, check=is_of_no_registry):
                client(workspace, server).pull(REF)

            assert elsewhere.requests == []


@pytest.mark.parametrize("body", [b"", b"hello", b"{", b'{"public_key_pem": 1}', b"\xff" * 100])
def test_another_kind_of_server_is_reported(workspace: Workspace, body: bytes) -> None:
    with serving({"/v1/public-key": as_text(body)}) as server:
        with pytest.raises(RyeError, check=is_of_no_registry) as error:
            client(workspace, server).pin()

        assert "expected a public key as PEM" in str(error.value)


def test_an_older_form_of_the_key_is_read(workspace: Workspace) -> None:
    forge = Forge()
    form = as_json({"public_key_pem": forge.key.public_pem.decode()})
    with serving({"/v1/public-key": form}) as server:
        assert client(workspace, server).pin().fingerprint == forge.pin.fingerprint


def test_a_changed_pin_is_refused(tmp_path: Path) -> None:
    forge, other = Forge(), Forge()
    pins = RegistryPins(tmp_path, SigningKey(generate_keypair()))
    path = pins.check("default", "registry.example", forge.key.public_pem).path
    old, new = forge.key.public_pem.decode(), other.key.public_pem.decode()
    path.write_text(path.read_text("utf-8").replace(old, new), "utf-8")

    with pytest.raises(RyeError, check=coded("INTEGRITY"), match=r": changed since it was signed$"):
        pins.check("default", "registry.example", other.key.public_pem)


def test_two_names_for_one_address_share_its_pin(workspace: Workspace) -> None:
    forge, other = Forge(), Forge()
    routes = {"/v1/public-key": as_text(forge.key.public_pem)}
    with serving(routes) as server:
        client(workspace, server).pin()
        routes["/v1/public-key"] = as_text(other.key.public_pem)
        second = RegistryConfig(name="second", url=server.url)

        with pytest.raises(PinMismatchError):
            open_registry(workspace.rye(), second).pin()


@pytest.mark.parametrize(
    "value",
    [{}, [], "text", {"item_type": "tool"}, {"content": 1}, None],
)
def test_an_answer_of_another_shape_is_reported(workspace: Workspace, value: object) -> None:
    pem = as_text(Forge().key.public_pem)
    with (
        serving({"/v1/public-key": pem, PULL: as_json(value)}) as server,
        pytest.raises(RyeError, check=is_of_no_registry),
    ):
        client(workspace, server).pull(REF)


def test_an_endless_answer_is_not_read(workspace: Workspace) -> None:
    def endless(exchange: Exchange) -> None:
        exchange.begin()
        while exchange.write(b"x" * 65536):
            pass

    with (
        serving({"/v1/public-key": endless}) as server,
        pytest.raises(RyeError, check=is_of_no_registry),
    ):
        client(workspace, server).pin()


def test_refusals_include_the_message_of_the_registry(workspace: Workspace) -> None:
    pem = as_text(Forge().key.public_pem)
    detail = {"detail": {"status": "error", "error": "Validation failed", "issues": ["a", "b"]}}
    routes = {"/v1/public-key": pem, "/v1/push": as_json(detail, 400)}
    with serving(routes) as server:
        with pytest.raises(RemoteError) as error:
            client(workspace, server).push(REF, "text", "1.0.0", suffix=".py")

        message = "registry default: /v1/push: refused with status 400: Validation failed; a; b"
        assert str(error.value) == message


def test_a_missing_item_is_reported_by_name(workspace: Workspace) -> None:
    with serving({"/v1/public-key": as_text(Forge().key.public_pem)}) as server:
        with pytest.raises(NotInRegistryError) as error:
            client(workspace, server).pull(REF, "1.2.3")

        assert str(error.value) == "registry default: not found: tool:ada/text/upper 1.2.3"


def test_publishing_needs_an_api_key(workspace: Workspace) -> None:
    with serving({}) as server:
        with pytest.raises(RyeError, check=coded("REGISTRY_NO_KEY")):
            client(workspace, server, api_key="").push(REF, "text", "1.0.0", suffix=".py")

        assert server.requests == []


@pytest.mark.heavy
def test_a_registry_that_is_down_is_reported(workspace: Workspace) -> None:
    with pytest.raises(RyeError, check=coded("REMOTE_UNREACHABLE")):
        client(workspace, f"http://127.0.0.1:{closed_port()}", timeout_s=5).health()


def test_an_api_key_is_not_sent_in_plain_text() -> None:
    from ryeos.remote.registry_settings import Registries
    from ryeos.trust.config import Layer

    settings = {"registry": {"default": {"url": "http://registry.example", "key_env": "K"}}}
    layers = [Layer("user", Path("registry.yaml"), settings)]

    with pytest.raises(RyeError, check=coded("REMOTE_INSECURE")):
        Registries(layers, {"K": KEY}).resolve()
    assert Registries(layers, {}).resolve().api_key == ""


def test_the_identity_key_of_a_registry_is_pinned_too(
    workspace: Workspace, shared_registry: LiveRegistry
) -> None:
    pin = client(workspace, shared_registry.url, api_key="").pin()

    assert pin.identity_pem
    assert pin.identity_pem != pin.public_pem
    assert client(workspace, shared_registry.url, api_key="").pin().identity_pem == pin.identity_pem
    assert RegistryPins(workspace.user.space.base).list() == (replace(pin, state=PinState.KNOWN),)
