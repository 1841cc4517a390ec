"""The registries of ``registry/registry.yaml``, from bundles and user space. Pure.

What a project says is never used: an address that only a project names is shown, nothing is sent
there. Rules, with examples: docs/registry.md.
"""

import re
from collections.abc import Callable, Mapping, Sequence

from lillux.values import dataclass, field
from ryeos.items.refs import PROJECT, Space
from ryeos.items.yaml import parse_yaml
from ryeos.items.yaml_entries import entries_of, with_entry, without_entry
from ryeos.remote.peers import REGISTRY
from ryeos.remote.registry_errors import config_error, not_configured
from ryeos.remote.remote_values import RemoteValues, is_name, netloc_of, normal_url
from ryeos.remote.settings import DEFAULT_NAME, api_key_of, require_encrypted
from ryeos.trust.config import Layer
from ryeos.trust.signing_key import SigningKey
from ryeos.trust.user_config_file import UserConfigFile
from ryeos.trust.verify import Verifier

CONFIG_PATH = REGISTRY.config_path
SECTION = REGISTRY.section
DEFAULT_TIMEOUT_S = REGISTRY.default_timeout_s
_FINGERPRINT = re.compile(r"[0-9a-f]{16}")


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryConfig:
    """One registry, ready to be spoken to.

    url          normal: see `ryeos.remote.remote_values.normal_url`
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
    """The registries of user space and bundles; each is checked when it is asked for."""

    def __init__(self, layers: Sequence[Layer], environ: Mapping[str, str]) -> None:
        self._environ = environ
        self._own = _merge_layers([layer for layer in layers if layer.label != PROJECT])
        self._projects = [layer.values for layer in layers if layer.label == PROJECT]

    @property
    def names(self) -> tuple[str, ...]:
        """Of every registry, sorted."""
        return tuple(sorted(self._own))

    def resolve(self, name: str | None = None) -> RegistryConfig:
        """A registry by name; ``default`` without one.

        Raises RyeError `REGISTRY_NOT_CONFIGURED`, `CONFIG_ERROR` or `REMOTE_INSECURE`.
        """
        name = name or DEFAULT_NAME
        if name not in self._own:
            raise not_configured(name, self.names, self._offered_url(name))
        values = RemoteValues(f"{SECTION}.{name}", self._own[name], {}, REGISTRY)
        url, key_env = values.url(), values.variable("key_env")
        config = RegistryConfig(
            name=name,
            url=url,
            key_env=key_env,
            api_key=api_key_of(self._environ, key_env, REGISTRY),
            fingerprint=values.plain_text("fingerprint"),
            timeout_s=values.timeout_s(DEFAULT_TIMEOUT_S),
        )
        if config.fingerprint and not _FINGERPRINT.fullmatch(config.fingerprint):
            raise config_error(f"{SECTION}.{name}.fingerprint", "expected 16 hex digits")
        require_encrypted(REGISTRY, name, url, config.api_key, values)
        return config

    def at(self, url: str) -> RegistryConfig:
        """The registry of an address that a lock names. Raises as `resolve`."""
        for name in self.names:
            if self._own[name].get("url") and self._url_of(name) == url:
                return self.resolve(name)
        raise not_configured(netloc_of(url), self.names, url)

    def _url_of(self, name: str) -> str:
        try:
            return normal_url(str(self._own[name]["url"]))
        except ValueError:
            return ""

    def _offered_url(self, name: str) -> str:
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


def _merge_layers(layers: Sequence[Layer]) -> dict[str, dict[str, object]]:
    merged: dict[str, dict[str, object]] = {}
    for layer in layers:
        declared = layer.values.get(SECTION)
        if declared is not None and not isinstance(declared, Mapping):
            raise config_error(str(layer.path), f"{SECTION}: expected a mapping of names")
        for name, values in (declared or {}).items():
            if not is_name(str(name)) or not isinstance(values, Mapping):
                raise config_error(
                    str(layer.path), f"{SECTION}.{name}: expected a name with its settings"
                )
            said = {str(key): value for key, value in values.items() if value is not None}
            merged.setdefault(str(name), {}).update(said)
    return merged


# The user's own ``registry.yaml``: registries added and removed, the file signed as it was.

_NEW_TEXT = """\
version: "1.0.0"
category: registry

# Registries, by name; each has a url, and may have key_env, fingerprint, timeout.
registry:
"""


class RegistriesFile:
    """The file of a user space. ``key`` gives the user's signing key, or None."""

    def __init__(
        self, user: Space, verifier: Verifier, key: Callable[[], SigningKey | None]
    ) -> None:
        self._file = UserConfigFile(user, CONFIG_PATH, _NEW_TEXT, verifier, key)
        self.path = self._file.path

    def put(self, name: str, settings: Mapping[str, object]) -> None:
        """Write a registry, or replace it. Raises UneditableYamlError, IntegrityError."""
        with self._file.alone():
            text, is_signed = self._file.read()
            self._file.write(with_entry(text, SECTION, name, settings), is_signed=is_signed)

    def entry(self, name: str) -> Mapping[str, object]:
        """The file's entry of a registry; empty where it has none."""
        text, _ = self._file.read()
        section = parse_yaml(text, str(self.path)).get(SECTION)
        said = section.get(name) if isinstance(section, dict) else None
        return said if isinstance(said, dict) else {}

    def remove(self, name: str) -> None:
        """Remove a registry. Raises RyeError `REGISTRY_NOT_CONFIGURED`, and as `put`."""
        with self._file.alone():
            text, is_signed = self._file.read()
            known = entries_of(parse_yaml(text, str(self.path)), SECTION)
            if name not in known:
                raise not_configured(name, tuple(sorted(known)))
            self._file.write(without_entry(text, SECTION, name), is_signed=is_signed)
