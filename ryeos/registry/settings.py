"""The registries of ``registry/registry.yaml``, from bundles and user space. Pure.

What a project says is never used: an address that only a project names is told, and nothing is sent
there. Rules, with examples: docs/registries.md.
"""

import re
from collections.abc import Mapping, Sequence

from lillux.values import dataclass, field
from ryeos.config import Layer
from ryeos.items import PROJECT
from ryeos.registry.errors import (
    InsecureRegistryError,
    RegistryConfigError,
    RegistryNotConfiguredError,
)
from ryeos.remote.remote_url import is_loopback, netloc_of, normal_url
from ryeos.remote.remote_values import RemoteConfigError, RemoteValues, is_name

CONFIG_PATH = "registry/registry.yaml"
SECTION = "registry"
DEFAULT_NAME = "default"
DEFAULT_TIMEOUT_S = 60.0
_FINGERPRINT = re.compile(r"[0-9a-f]{16}")


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryConfig:
    """One registry, ready to be spoken to.

    url          normal: see `ryeos.remote.remote_url.normal_url`
    api_key      the value of ``key_env``; ``""`` where it is not set
    fingerprint  of the key that it must have; ``""`` where the first one counts
    """

    name: str
    url: str
    key_env: str = ""
    api_key: str = field(default="", repr=False)
    fingerprint: str = ""
    timeout_s: float = DEFAULT_TIMEOUT_S

    @property
    def netloc(self) -> str:
        """Host and port, which its pin is kept under."""
        return netloc_of(self.url)


class Registries:
    """What user space and bundles say together; each registry is checked when it is asked for."""

    def __init__(self, layers: Sequence[Layer], environ: Mapping[str, str]) -> None:
        self._environ = environ
        self._own = _merged([layer for layer in layers if layer.label != PROJECT])
        self._projects = [layer.values for layer in layers if layer.label == PROJECT]

    @property
    def names(self) -> tuple[str, ...]:
        """Of every registry, sorted."""
        return tuple(sorted(self._own))

    def resolve(self, name: str | None = None) -> RegistryConfig:
        """A registry by name; ``default`` without one.

        Raises RegistryNotConfiguredError, RegistryConfigError, InsecureRegistryError.
        """
        name = name or DEFAULT_NAME
        if name not in self._own:
            raise RegistryNotConfiguredError(name, self.names, self._offered(name))
        values = RemoteValues(f"{SECTION}.{name}", self._own[name], {})
        try:
            url, key_env = values.url(), values.variable("key_env")
            config = RegistryConfig(
                name=name,
                url=url,
                key_env=key_env,
                api_key=self._api_key(key_env),
                fingerprint=values.text("fingerprint"),
                timeout_s=values.timeout_s(DEFAULT_TIMEOUT_S),
            )
            may_be_plain = values.flag("allow_insecure") or is_loopback(url)
        except RemoteConfigError as error:
            raise RegistryConfigError(error.where, error.problem) from None
        if config.fingerprint and not _FINGERPRINT.fullmatch(config.fingerprint):
            raise RegistryConfigError(f"{SECTION}.{name}.fingerprint", "expected 16 hex digits")
        if config.api_key and url.startswith("http:") and not may_be_plain:
            raise InsecureRegistryError(name, url)
        return config

    def at(self, url: str) -> RegistryConfig:
        """The registry of an address that a lock names. Raises as `resolve`."""
        for name in self.names:
            if self._own[name].get("url") and self._url_of(name) == url:
                return self.resolve(name)
        raise RegistryNotConfiguredError(netloc_of(url), self.names, url)

    def _url_of(self, name: str) -> str:
        try:
            return normal_url(str(self._own[name]["url"]))
        except ValueError:
            return ""

    def _offered(self, name: str) -> str:
        """The address that a project names, to be shown; ``""`` where none can be."""
        for values in self._projects:
            section = values.get(SECTION)
            entry = section.get(name) if isinstance(section, Mapping) else None
            url = entry.get("url") if isinstance(entry, Mapping) else None
            try:
                return normal_url(url) if isinstance(url, str) else ""
            except ValueError:
                return ""
        return ""

    def _api_key(self, key_env: str) -> str:
        api_key = self._environ.get(key_env, "").strip() if key_env else ""
        if not (api_key.isascii() and api_key.isprintable()) or " " in api_key:
            raise RegistryConfigError(key_env, "expected an API key of visible ASCII characters")
        return api_key


def _merged(layers: Sequence[Layer]) -> dict[str, dict[str, object]]:
    merged: dict[str, dict[str, object]] = {}
    for layer in layers:
        declared = layer.values.get(SECTION)
        if declared is not None and not isinstance(declared, Mapping):
            raise RegistryConfigError(str(layer.path), f"{SECTION}: expected a mapping of names")
        for name, values in (declared or {}).items():
            if not is_name(str(name)) or not isinstance(values, Mapping):
                raise RegistryConfigError(
                    str(layer.path), f"{SECTION}.{name}: expected a name with its settings"
                )
            said = {str(key): value for key, value in values.items() if value is not None}
            merged.setdefault(str(name), {}).update(said)
    return merged
