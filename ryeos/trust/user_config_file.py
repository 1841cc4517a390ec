"""A configuration file of user space that commands edit, and that stays signed as it was.

A file of its own: commands that edit settings sign no items.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager

from lillux.file_locks import locked
from lillux.files import make_directory, write_atomic
from ryeos.items.refs import Kind, Space, user_lock
from ryeos.trust.signature import form_for, split
from ryeos.trust.signing_key import SigningKey
from ryeos.trust.verify import Target, Verifier

_FORM = form_for(Kind.CONFIG, ".yaml")


class UserConfigFile:
    """The file at ``name`` below ``config/`` of a user space, ``new_text`` where there is none.

    A file that was signed is verified before it is edited, and signed again; one that was
    written by hand stays unsigned. A new one is signed where there is a key, which ``key`` gives.
    """

    def __init__(
        self,
        user: Space,
        name: str,
        new_text: str,
        verifier: Verifier,
        key: Callable[[], SigningKey | None],
    ) -> None:
        self.path = user.directory(Kind.CONFIG) / name
        self._user, self._new_text = user, new_text
        self._verifier, self._key = verifier, key

    def alone(self) -> AbstractContextManager[None]:
        """Held while the file is read, changed and written: commands take turns."""
        return locked(user_lock(self._user.ai, self.path.stem))

    def read(self) -> tuple[str, bool]:
        """The text below the signature line, and whether the file is to be signed.

        Raises IntegrityError.
        """
        if not self.path.exists():
            return self._new_text, True
        target = Target(path=self.path, kind=Kind.CONFIG, space=self._user)
        item = self._verifier.verify_unless_unsigned(target)
        return split(item.text, _FORM, str(self.path)).body, item.signature is not None

    def write(self, text: str, *, is_signed: bool) -> None:
        """Replace the file. Raises FileSystemError."""
        key = self._key() if is_signed else None
        if key:
            text = key.signed_config(text, self.path)
        make_directory(self.path.parent)
        write_atomic(self.path, text.encode())
