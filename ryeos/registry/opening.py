"""A registry by its name: configuration, credentials and pins put together."""

from typing import Protocol

from lillux.process.cancellation import Cancellation
from ryeos import __version__
from ryeos.config import ConfigReader
from ryeos.context import Context
from ryeos.errors import NoSigningKeyError
from ryeos.registry.client import Registry
from ryeos.registry.pins import RegistryPins
from ryeos.registry.settings import CONFIG_PATH, Registries, RegistryConfig
from ryeos.remote.credentials import BearerCredentials
from ryeos.remote.remotes import RemoteConfig
from ryeos.signing_key import SigningKey


class RegistryWorkspace(Protocol):
    """What registries are opened for: the public API. See `ryeos.app.Rye`."""

    context: Context
    config: ConfigReader

    def signing_key(self) -> SigningKey:
        """The user's private key at work. Raises NoSigningKeyError where there is none."""


def registries_of(workspace: RegistryWorkspace) -> Registries:
    """The registries that are configured. Raises IntegrityError, RegistryConfigError."""
    return Registries(workspace.config.layers(CONFIG_PATH), workspace.context.process_env)


def pins_of(workspace: RegistryWorkspace) -> RegistryPins:
    """The pins of the user."""
    return RegistryPins(workspace.context.spaces.user.base, key_if_any(workspace))


def open_registry(
    workspace: RegistryWorkspace,
    config: RegistryConfig,
    cancellation: Cancellation | None = None,
) -> Registry:
    """A registry that is configured; nothing is asked yet."""
    from lillux.http.client import HttpClient
    from ryeos.remote.http_transport import HttpTransport

    transport = HttpTransport(
        RemoteConfig(name=config.name, url=config.url, timeout_s=config.timeout_s),
        BearerCredentials(config.api_key),
        HttpClient(workspace.context.process_env, user_agent=f"rye/{__version__}"),
        cancellation=cancellation,
    )
    return Registry(config, transport, pins_of(workspace))


def key_if_any(workspace: RegistryWorkspace) -> SigningKey | None:
    """The user's signing key, None where there is none."""
    try:
        return workspace.signing_key()
    except NoSigningKeyError:
        return None
