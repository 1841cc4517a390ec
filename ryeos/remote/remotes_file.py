"""The user's own ``remotes.yaml``: remotes added and removed, the file signed as it was before."""

from collections.abc import Callable, Mapping
from shlex import quote

from ryeos.errors import TargetExistsError
from ryeos.items import Space
from ryeos.metadata.yaml_documents import parse_yaml
from ryeos.remote.remote_values import CONFIG_PATH, check_name, check_setting
from ryeos.remote.remotes import RemoteNotFoundError
from ryeos.remote.remotes_text import NEW_TEXT, with_remote, without_remote
from ryeos.signing_key import SigningKey
from ryeos.user_config_file import UserConfigFile
from ryeos.verify import Verifier


class RemotesFile:
    """The file of a user space. ``key`` gives the user's signing key, None if there is none."""

    def __init__(
        self, user: Space, verifier: Verifier, key: Callable[[], SigningKey | None]
    ) -> None:
        self._file = UserConfigFile(user, CONFIG_PATH, NEW_TEXT, verifier, key)
        self.path = self._file.path

    def add(self, name: str, settings: Mapping[str, object], *, replace: bool = False) -> None:
        """Write a remote. Raises TargetExistsError, RemoteConfigError, IntegrityError."""
        check_name(name)
        for key, value in settings.items():
            check_setting(f"remotes.{name}", key, value)
        with self._file.alone():
            text, is_signed = self._file.read()
            known = parse_yaml(text, str(self.path)).get("remotes") or {}
            if name in known and not replace:
                url = quote(str(settings.get("url", "URL")))
                hint = f"replace it: rye remote add {name} {url} --replace"
                raise TargetExistsError(str(self.path), f"remote {name}", hint)
            self._file.write(with_remote(text, name, settings), is_signed=is_signed)

    def remove(self, name: str) -> None:
        """Remove a remote. Raises RemoteNotFoundError, RemoteConfigError, IntegrityError."""
        with self._file.alone():
            text, is_signed = self._file.read()
            known = parse_yaml(text, str(self.path)).get("remotes") or {}
            if name not in known:
                raise RemoteNotFoundError(
                    name, tuple(sorted(known)), otherwise="see: rye remote list"
                )
            self._file.write(without_remote(text, name), is_signed=is_signed)
