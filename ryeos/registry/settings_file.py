"""The user's own ``registry.yaml``: registries added and removed, the file signed as it was."""

from collections.abc import Callable, Mapping

from ryeos.items import Space
from ryeos.metadata.yaml_documents import parse_yaml
from ryeos.metadata.yaml_entries import with_entry, without_entry
from ryeos.registry.errors import RegistryNotConfiguredError
from ryeos.registry.settings import CONFIG_PATH, SECTION
from ryeos.signing_key import SigningKey
from ryeos.user_config_file import UserConfigFile
from ryeos.verify import Verifier

_NEW_TEXT = """\
version: "1.0.0"
category: registry

# Registries, by name; each has a url, and may have key_env, fingerprint, timeout.
registry:
"""


class RegistriesFile:
    """The file of a user space. ``key`` gives the user's signing key, None if there is none."""

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
        """What the file says of a registry; empty where it says nothing."""
        text, _ = self._file.read()
        section = parse_yaml(text, str(self.path)).get(SECTION)
        said = section.get(name) if isinstance(section, dict) else None
        return said if isinstance(said, dict) else {}

    def remove(self, name: str) -> None:
        """Remove a registry. Raises RegistryNotConfiguredError, and as `put`."""
        with self._file.alone():
            text, is_signed = self._file.read()
            known = parse_yaml(text, str(self.path)).get(SECTION) or {}
            if name not in known:
                raise RegistryNotConfiguredError(name, tuple(sorted(known)))
            self._file.write(without_entry(text, SECTION, name), is_signed=is_signed)
