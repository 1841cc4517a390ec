"""The user's own ``remotes.yaml``: remotes added and removed.

It is edited as text, so that what people wrote around an entry stays, and signed as it was before.
"""

from collections.abc import Callable, Mapping
from shlex import quote

from ryeos.items.errors import target_exists_error
from ryeos.items.refs import Space
from ryeos.items.yaml import parse_yaml
from ryeos.items.yaml_entries import UneditableYamlError, entries_of, with_entry, without_entry
from ryeos.remote.remote_values import (
    CONFIG_PATH,
    RemoteConfigError,
    valid_remote_name,
    validate_setting,
)
from ryeos.remote.settings import RemoteNotFoundError
from ryeos.trust.signing_key import SigningKey
from ryeos.trust.user_config_file import UserConfigFile
from ryeos.trust.verify import Verifier


class RemotesFile:
    """The file of a user space. ``key`` gives the user's signing key, or None."""

    def __init__(
        self, user: Space, verifier: Verifier, key: Callable[[], SigningKey | None]
    ) -> None:
        self._file = UserConfigFile(user, CONFIG_PATH, NEW_TEXT, verifier, key)
        self.path = self._file.path

    def add(self, name: str, settings: Mapping[str, object], *, replace: bool = False) -> None:
        """Write a remote. Raises RyeError `CONFLICT`, RemoteConfigError, IntegrityError."""
        valid_remote_name(name)
        for key, value in settings.items():
            validate_setting(f"remotes.{name}", key, value)
        with self._file.alone():
            text, is_signed = self._file.read()
            known = entries_of(parse_yaml(text, str(self.path)), "remotes")
            if name in known and not replace:
                url = quote(str(settings.get("url", "URL")))
                hint = f"replace it: rye remote add {name} {url} --replace"
                raise target_exists_error(str(self.path), f"remote {name}", hint)
            self._file.write(with_remote(text, name, settings), is_signed=is_signed)

    def remove(self, name: str) -> None:
        """Remove a remote. Raises RemoteNotFoundError, RemoteConfigError, IntegrityError."""
        with self._file.alone():
            text, is_signed = self._file.read()
            known = entries_of(parse_yaml(text, str(self.path)), "remotes")
            if name not in known:
                raise RemoteNotFoundError(
                    name, tuple(sorted(known)), otherwise="see: rye remote list"
                )
            self._file.write(without_remote(text, name), is_signed=is_signed)


NEW_TEXT = """\
version: "1.0.0"
category: remotes

# Nodes to run on, by name; each has a url, and may have key_env, node_id, timeout, roles.
remotes:
"""

_SECTION = "remotes"


def with_remote(text: str, name: str, settings: Mapping[str, object]) -> str:
    """The text with an entry, added or replaced as a whole. Raises RemoteConfigError."""
    try:
        return with_entry(text, _SECTION, name, settings)
    except UneditableYamlError as error:
        raise _uneditable(error) from error


def without_remote(text: str, name: str) -> str:
    """The text without an entry, which must be there. Raises RemoteConfigError."""
    try:
        return without_entry(text, _SECTION, name)
    except UneditableYamlError as error:
        raise _uneditable(error) from error


def _uneditable(error: UneditableYamlError) -> RemoteConfigError:
    return RemoteConfigError(
        _SECTION,
        "expected one entry below the other, each with lines of its own",
        hint=error.hint,
    )
