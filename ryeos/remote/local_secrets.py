"""The user's own secrets, sealed on disk, for executions on nodes.

File: ``<user>/.ai/secrets/store.enc``, docs/remote.md. Its key is derived from the bytes
of the private key's file, so it opens only beside that file. No message here shows a value.
"""

import json
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path

from lillux.errors import LilluxError
from lillux.file_locks import locked
from lillux.files import make_directory, read_bytes, write_atomic
from lillux.sealing import SealingError, decrypt, encrypt
from ryeos.items.errors import RyeError
from ryeos.items.refs import AI_DIRECTORY, user_lock
from ryeos.remote.secret_names import (
    MAX_TOTAL_BYTES,
    SecretValuesError,
    is_variable_name,
    require_safe,
    valid_secrets,
)

STORE_PATH = "secrets/store.enc"
_FILE_INFO = b"ryeos-secret-store-v1"
_MAX_FILE_BYTES = 8 * MAX_TOTAL_BYTES
_MAX_ENV_FILE_BYTES = 2 * MAX_TOTAL_BYTES


def _env_file_error(path: Path, problem: str, line: int = 0) -> RyeError:
    """A file is not one of ``NAME=VALUE`` lines; ``line`` is 0 for the whole file."""
    where = f"{path!s}:{line}" if line else str(path)
    return RyeError(
        f"{where}: {problem}",
        code="VALIDATION_FAILED",
        hint="nothing was taken from the file",
        path=str(path),
    )


class LocalSecrets:
    """The store of a user. ``private_pem`` are the bytes of the private key's file."""

    def __init__(self, user_space: Path, private_pem: bytes) -> None:
        self.path = user_space / AI_DIRECTORY / STORE_PATH
        self._lock = user_lock(user_space / AI_DIRECTORY, "secrets")
        self._private_pem = private_pem

    def values(self) -> dict[str, str]:
        """Every secret by name; none where there is no store.

        Raises RyeError `INTEGRITY`, FileTooLargeError, FileSystemError.
        """
        try:
            data = read_bytes(self.path, _MAX_FILE_BYTES)
        except FileNotFoundError:
            return {}
        try:
            return _values_in(decrypt(self._private_pem, data, info=_FILE_INFO))
        except (SealingError, SecretValuesError) as error:
            raise RyeError(
                f"{self.path!s}: {error.problem}",
                code="INTEGRITY",
                hint="it opens with the private key it was written with; keys that were replaced"
                " are"
                " kept beside it as .bak. To start over, remove the file",
                path=str(self.path),
            ) from None

    def names(self) -> tuple[str, ...]:
        """The names alone, sorted."""
        return tuple(sorted(self.values()))

    def set(self, values: Mapping[str, str]) -> None:
        """Add secrets, or replace them: all of them or none.

        Raises SecretNameError, SecretValuesError, and as `values`.
        """
        for name in values:
            require_safe(name)
        with self._alone():
            self._write({**self.values(), **values})

    def delete(self, name: str) -> bool:
        """Remove a secret; False if there was no such secret."""
        with self._alone():
            values = self.values()
            if name not in values:
                return False
            del values[name]
            self._write(values)
        return True

    def _write(self, values: Mapping[str, str]) -> None:
        text = json.dumps(valid_secrets(values), sort_keys=True).encode()
        write_atomic(self.path, encrypt(self._private_pem, text, info=_FILE_INFO), mode=0o600)

    def _alone(self) -> AbstractContextManager[None]:
        make_directory(self.path.parent, mode=0o700)
        return locked(self._lock)


def _values_in(text: bytes) -> dict[str, str]:
    try:
        values = json.loads(text)
    except (ValueError, RecursionError):
        values = None
    if not isinstance(values, dict):
        raise SecretValuesError("expected a JSON object")
    return valid_secrets(values)


def read_env_file(path: Path) -> dict[str, str]:
    """The secrets of a file of ``NAME=VALUE`` lines.

    Blank lines and lines that begin with ``#`` say nothing. Blanks around name and value are
    dropped; quotes stay and nothing is expanded, so a value is what stands there. A name that
    comes twice counts as it comes last. Reserved names are among them: see `injectable`.

    Raises RyeError `VALIDATION_FAILED`, FileNotFoundError, FileTooLargeError, FileSystemError.
    """
    try:
        text = read_bytes(path, _MAX_ENV_FILE_BYTES).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise _env_file_error(path, "expected UTF-8") from None
    values: dict[str, str] = {}
    for number, line in enumerate(text.split("\n"), 1):
        bare = line.strip()
        if not bare or bare.startswith("#"):
            continue
        name, equals, value = bare.partition("=")
        if not equals or not is_variable_name(name.rstrip()):
            raise _env_file_error(path, "expected NAME=VALUE", number)
        values[name.rstrip()] = value.lstrip()
    try:
        return valid_secrets(values)
    except LilluxError as error:
        raise _env_file_error(path, str(error).removeprefix("secrets: ")) from None
