"""The user's own ``registry.yaml``: registries added and removed, the file signed as it was."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager

from lillux.file_locks import locked
from lillux.files import make_directory, write_atomic
from ryeos.items import Kind, Space
from ryeos.metadata.yaml_documents import parse_yaml
from ryeos.metadata.yaml_entries import with_entry, without_entry
from ryeos.registry.errors import RegistryNotConfiguredError
from ryeos.registry.settings import CONFIG_PATH, SECTION
from ryeos.signature import SignedText, form_for, split
from ryeos.signing_key import SigningKey
from ryeos.verify import Target, Verifier

_NEW_TEXT = """\
version: "1.0.0"
category: registry

# Registries, by name; each has a url, and may have key_env, fingerprint, timeout.
registry:
"""


class RegistriesFile:
    """The file of a user space. ``key`` gives the user's signing key, None if there is none.

    A file that was signed is verified before it is edited, and signed again; one that somebody
    wrote by hand stays unsigned. A new one is signed where there is a key.
    """

    def __init__(
        self, user: Space, verifier: Verifier, key: Callable[[], SigningKey | None]
    ) -> None:
        self.path = user.directory(Kind.CONFIG) / CONFIG_PATH
        self._user, self._verifier, self._key = user, verifier, key

    def put(self, name: str, settings: Mapping[str, object]) -> None:
        """Write a registry, or replace it. Raises UneditableYamlError, IntegrityError."""
        with self._alone():
            text, is_signed = self._read()
            self._write(with_entry(text, SECTION, name, settings), is_signed=is_signed)

    def entry(self, name: str) -> Mapping[str, object]:
        """What the file says of a registry; empty where it says nothing."""
        text, _ = self._read()
        section = parse_yaml(text, str(self.path)).get(SECTION)
        said = section.get(name) if isinstance(section, dict) else None
        return said if isinstance(said, dict) else {}

    def remove(self, name: str) -> None:
        """Remove a registry. Raises RegistryNotConfiguredError, and as `put`."""
        with self._alone():
            text, is_signed = self._read()
            known = parse_yaml(text, str(self.path)).get(SECTION) or {}
            if name not in known:
                raise RegistryNotConfiguredError(name, tuple(sorted(known)))
            self._write(without_entry(text, SECTION, name), is_signed=is_signed)

    def _read(self) -> tuple[str, bool]:
        """The text below the signature line, and whether the file is to be signed."""
        if not self.path.exists():
            return _NEW_TEXT, True
        target = Target(path=self.path, kind=Kind.CONFIG, space=self._user)
        item = self._verifier.verify_unless_unsigned(target)
        signed = split(item.text, form_for(Kind.CONFIG, ".yaml"), str(self.path))
        return signed.body, item.signature is not None

    def _write(self, text: str, *, is_signed: bool) -> None:
        key = self._key() if is_signed else None
        if key:
            body = SignedText(shebang="", signature=None, covers=None, body=text)
            form = form_for(Kind.CONFIG, ".yaml")
            text = key.signed_text(Kind.CONFIG, body, form, str(self.path))
        make_directory(self.path.parent)
        write_atomic(self.path, text.encode())

    def _alone(self) -> AbstractContextManager[None]:
        return locked(self._user.ai / "state" / "registry.lock")
