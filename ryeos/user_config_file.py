"""A configuration file of user space that commands edit, and that stays signed as it was."""

from collections.abc import Callable
from contextlib import AbstractContextManager

from lillux.files import locked, make_directory, write_atomic
from ryeos.items import Kind, Space
from ryeos.signature import SignedText, form_for, split
from ryeos.signing_key import SigningKey
from ryeos.verify import Target, Verifier

_FORM = form_for(Kind.CONFIG, ".yaml")


class UserConfigFile:
    """The file at ``name`` below ``config/`` of a user space, ``new_text`` where there is none.

    A file that was signed is verified before it is edited, and signed again; one that somebody
    wrote by hand stays unsigned. A new one is signed where there is a key, which ``key`` gives.
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
        return locked(self._user.ai / "state" / f"{self.path.stem}.lock")

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
            body = SignedText(shebang="", signature=None, covers=None, body=text)
            text = key.signed_text(Kind.CONFIG, body, _FORM, str(self.path))
        make_directory(self.path.parent)
        write_atomic(self.path, text.encode())
