"""The user's own secrets, sealed on disk: what goes to a node with an execution.

File: ``<user>/.ai/secrets/store.enc``, docs/remote-settings.md. Its key is derived from the bytes
of the private key's file, so it opens only beside that file. No message here shows a value.
"""

import json
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path

from lillux.errors import LilluxError
from lillux.files import locked, make_directory, read_bytes, write_atomic
from lillux.sealing import SealingError, decrypt, encrypt
from ryeos.errors import RyeError
from ryeos.items import AI_DIRECTORY
from ryeos.remote.secret_names import (
    MAX_TOTAL_BYTES,
    SecretValuesError,
    check_values,
    is_variable_name,
    require_safe,
)

STORE_PATH = "secrets/store.enc"
_INFO = b"ryeos-secret-store-v1"
_MAX_FILE_BYTES = 8 * MAX_TOTAL_BYTES
_MAX_ENV_FILE_BYTES = 2 * MAX_TOTAL_BYTES


class SecretStoreError(RyeError):
    """The store of secrets cannot be opened. ``path`` is its file."""

    code, exit_status = "INTEGRITY", 4

    def __init__(self, path: str, problem: str) -> None:
        self.path, self.problem = path, problem
        super().__init__(
            f"{path}: {problem}",
            hint="it opens with the private key it was written with; keys that were replaced are"
            " kept beside it as .bak. To start anew, remove the file",
        )


class EnvFileError(RyeError):
    """A file of ``NAME=VALUE`` lines that is none. ``line`` counts from 1, 0 for the whole file."""

    code, exit_status = "VALIDATION_FAILED", 6

    def __init__(self, path: str, line: int, problem: str) -> None:
        self.path, self.line, self.problem = path, line, problem
        where = f"{path}:{line}" if line else path
        super().__init__(f"{where}: {problem}", hint="nothing was taken from the file")


class LocalSecrets:
    """The store of a user. ``private_pem`` are the bytes of the private key's file."""

    def __init__(self, user_space: Path, private_pem: bytes) -> None:
        self.path = user_space / AI_DIRECTORY / STORE_PATH
        self._private_pem = private_pem

    def values(self) -> dict[str, str]:
        """Every secret by name; none where there is no store.

        Raises SecretStoreError, FileTooLargeError, FileSystemError.
        """
        try:
            data = read_bytes(self.path, _MAX_FILE_BYTES)
        except FileNotFoundError:
            return {}
        try:
            return _values_in(decrypt(self._private_pem, data, info=_INFO))
        except (SealingError, SecretValuesError) as error:
            raise SecretStoreError(str(self.path), error.problem) from None

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
        """Remove a secret; False if there is none of that name."""
        with self._alone():
            values = self.values()
            if name not in values:
                return False
            del values[name]
            self._write(values)
        return True

    def _write(self, values: Mapping[str, str]) -> None:
        text = json.dumps(check_values(values), sort_keys=True).encode()
        write_atomic(self.path, encrypt(self._private_pem, text, info=_INFO), mode=0o600)

    def _alone(self) -> AbstractContextManager[None]:
        make_directory(self.path.parent, mode=0o700)
        return locked(self.path.with_name(".lock"))


def _values_in(text: bytes) -> dict[str, str]:
    try:
        values = json.loads(text)
    except (ValueError, RecursionError):
        values = None
    if not isinstance(values, dict):
        raise SecretValuesError("expected a JSON object")
    return check_values(values)


def read_env_file(path: Path) -> dict[str, str]:
    """The secrets of a file of ``NAME=VALUE`` lines.

    Blank lines and lines that begin with ``#`` say nothing. Blanks around name and value are
    dropped; quotes stay and nothing is expanded, so a value is what stands there. A name that
    comes twice counts as it comes last. Reserved names are among them: see `injectable`.

    Raises EnvFileError, FileNotFoundError, FileTooLargeError, FileSystemError.
    """
    try:
        text = read_bytes(path, _MAX_ENV_FILE_BYTES).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise EnvFileError(str(path), 0, "expected UTF-8") from None
    values: dict[str, str] = {}
    for number, line in enumerate(text.split("\n"), 1):
        bare = line.strip()
        if not bare or bare.startswith("#"):
            continue
        name, equals, value = bare.partition("=")
        if not equals or not is_variable_name(name.rstrip()):
            raise EnvFileError(str(path), number, "expected NAME=VALUE")
        values[name.rstrip()] = value.lstrip()
    try:
        return check_values(values)
    except LilluxError as error:
        raise EnvFileError(str(path), 0, str(error).removeprefix("secrets: ")) from None
