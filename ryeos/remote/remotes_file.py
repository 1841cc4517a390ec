"""The user's own ``remotes.yaml``: remotes added and removed, the file signed as it was before."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from shlex import quote

from lillux.file_locks import locked
from lillux.files import make_directory, write_atomic
from ryeos.errors import TargetExistsError
from ryeos.items import Kind, Space
from ryeos.metadata.yaml_documents import parse_yaml
from ryeos.remote.remote_values import CONFIG_PATH, check_name, check_setting
from ryeos.remote.remotes import RemoteNotFoundError
from ryeos.remote.remotes_text import NEW_TEXT, with_remote, without_remote
from ryeos.signature import SignedText, form_for, split
from ryeos.signing_key import SigningKey
from ryeos.verify import Target, Verifier


class RemotesFile:
    """The file of a user space. ``key`` gives the user's signing key, None if there is none.

    A file that was signed is verified before it is edited, and signed again; one that somebody
    wrote by hand stays unsigned. A new one is signed where there is a key.
    """

    def __init__(
        self, user: Space, verifier: Verifier, key: Callable[[], SigningKey | None]
    ) -> None:
        self.path = user.directory(Kind.CONFIG) / CONFIG_PATH
        self._user, self._verifier, self._key = user, verifier, key

    def add(self, name: str, settings: Mapping[str, object], *, replace: bool = False) -> None:
        """Write a remote. Raises TargetExistsError, RemoteConfigError, IntegrityError."""
        check_name(name)
        for key, value in settings.items():
            check_setting(f"remotes.{name}", key, value)
        with self._alone():
            text, is_signed = self._read()
            known = parse_yaml(text, str(self.path)).get("remotes") or {}
            if name in known and not replace:
                url = quote(str(settings.get("url", "URL")))
                hint = f"replace it: rye remote add {name} {url} --replace"
                raise TargetExistsError(str(self.path), f"remote {name}", hint)
            self._write(with_remote(text, name, settings), is_signed=is_signed)

    def remove(self, name: str) -> None:
        """Remove a remote. Raises RemoteNotFoundError, RemoteConfigError, IntegrityError."""
        with self._alone():
            text, is_signed = self._read()
            known = parse_yaml(text, str(self.path)).get("remotes") or {}
            if name not in known:
                raise RemoteNotFoundError(
                    name, tuple(sorted(known)), otherwise="see: rye remote list"
                )
            self._write(without_remote(text, name), is_signed=is_signed)

    def _read(self) -> tuple[str, bool]:
        """The text below the signature line, and whether the file is to be signed."""
        if not self.path.exists():
            return NEW_TEXT, True
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
        return locked(self._user.ai / "state" / "remotes.lock")
