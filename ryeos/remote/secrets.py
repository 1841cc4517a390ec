"""The user's secrets on a node: set, list, delete. They are never read back.

A secret travels sealed to the node's own key, on top of whatever carries it. Nodes of an older kind
know no sealed ones: those are sent plain, where the connection itself is encrypted or goes nowhere.
"""

import json
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from lillux.digests import canonical_json, decode_base64url
from lillux.errors import LilluxError
from lillux.files import locked, make_directory, read_bytes, write_atomic
from lillux.http.model import is_unencrypted
from lillux.patterns import pattern
from lillux.sealing import (
    SealingError,
    box_fingerprint,
    box_public,
    decrypt,
    encrypt,
    open_sealed,
    seal,
)
from lillux.variables import NEVER_FROM_DOTENV
from ryeos.items.errors import RyeError
from ryeos.items.refs import AI_DIRECTORY, user_lock
from ryeos.remote.errors import RemoteError, RemoteReplyError
from ryeos.remote.node import Node
from ryeos.remote.replies import rows_at
from ryeos.remote.requests import principal_id

# --- vault ----------------------------------------------------------------------------------------

_NOT_FOUND = 404
_NO_ROUTE = "Not Found"
"""What a node says of an address that it does not know; of a missing secret it says more."""


def secret_missing_error(name: str, keeper: str, *, flag: str = "") -> RyeError:
    """``keeper`` keeps no secret of this name: ``remote NAME``, or the user's own store."""
    return RyeError(
        f"secret {name[:80]!a}: not kept by {keeper}",
        code="ITEM_NOT_FOUND",
        hint=f"see those that are: rye remote secrets list{flag}",
    )


class NodeVault:
    """The secrets that one node keeps for this user. ``url`` is the node's normal address."""

    def __init__(self, node: Node, url: str) -> None:
        self._node, self._url = node, url

    def set(self, values: Mapping[str, str]) -> tuple[str, ...]:
        """Keep secrets, each one by itself; their names.

        Raises SecretNameError and SecretValuesError before anything is sent, RyeError
        `REMOTE_INSECURE`, RemoteError.
        """
        for name in values:
            require_safe(name)
        checked = valid_secrets(values)
        for name, value in checked.items():
            self._set(name, value)
        return tuple(checked)

    def seal(self, name: str, value: str, purpose: str = "") -> dict[str, Any]:
        """The envelope that holds one secret, which only this node opens; nothing is sent.

        Raises SecretNameError, SecretValuesError, RemoteError.
        """
        require_safe(name)
        values = valid_secrets({name: value})
        box_public = self._node.verify().box_public
        return seal_secrets(values, box_public, user=self._node.sealed_for, purpose=purpose)

    def names(self) -> tuple[str, ...]:
        """The names of the secrets, sorted."""
        try:
            reply = self._node.ask("GET", "/vault/list")
        except RemoteError as error:
            if not _is_unknown_route(error):
                raise
            rows = rows_at(self._node.ask("GET", "/secrets"), "secrets", self._what("/secrets"))
            return _names([row.get("name") for row in rows], self._what("/secrets"))
        return _names(reply.get("names"), self._what("/vault/list"))

    def delete(self, name: str) -> None:
        """Forget a secret. Raises RyeError `ITEM_NOT_FOUND`, RemoteError."""
        if not is_variable_name(name):
            raise secret_missing_error(name, f"remote {self._node.name}")
        try:
            self._delete(name)
        except RemoteError as error:
            if error.status == _NOT_FOUND:
                raise secret_missing_error(name, f"remote {self._node.name}") from None
            raise

    def _set(self, name: str, value: str) -> None:
        envelope = self.seal(name, value, FOR_VAULT)
        try:
            self._node.ask("POST", "/vault/set", {"name": name, "envelope": envelope})
        except RemoteError as error:
            if not _is_unknown_route(error):
                raise
            if is_unencrypted(self._url):
                raise RyeError(
                    f"remote {self._node.name}: it takes no sealed secrets, and they are not sent"
                    " over plain http:"
                    f" {self._url}",
                    code="REMOTE_INSECURE",
                    hint="use https for this node",
                ) from None
            self._node.ask("POST", "/secrets", {"secrets": [{"name": name, "value": value}]})

    def _delete(self, name: str) -> None:
        try:
            self._node.ask("POST", "/vault/delete", {"name": name})
        except RemoteError as error:
            if not _is_unknown_route(error):
                raise
            self._node.ask("DELETE", f"/secrets/{name}")

    def _what(self, path: str) -> str:
        return f"remote {self._node.name}: {path}"


def _is_unknown_route(error: RemoteError) -> bool:
    return error.status == _NOT_FOUND and error.detail == _NO_ROUTE


def _names(found: object, what: str) -> tuple[str, ...]:
    if not isinstance(found, list) or not all(isinstance(name, str) for name in found):
        raise RemoteReplyError(what, "expected a list of names")
    return tuple(sorted(found))


# --- secret names ---------------------------------------------------------------------------------
# Which secrets may become environment variables of a tool, and how many. Pure.
#
# A secret is a variable by its name, so a name decides what it can do: one that programs load code
# by, or that says where things are, is never set. No message here shows a value.

MAX_SECRETS = 256
MAX_VALUE_BYTES = 64 * 1024
MAX_TOTAL_BYTES = 1024 * 1024
MAX_NAME_CHARACTERS = 256

_NAME = pattern(r"[A-Za-z_][A-Za-z0-9_]*")

RESERVED_ENV_NAMES = frozenset(
    {
        # who and where the process is
        *("PATH", "HOME", "USER", "SHELL", "LANG", "LC_ALL", "LC_CTYPE", "TERM", "TZ", "IFS"),
        *("TMPDIR", "TEMP", "TMP", "VIRTUAL_ENV", "CONDA_PREFIX", "LOGNAME", "PWD"),
        *("COMSPEC", "PATHEXT", "SYSTEMROOT", "USERPROFILE", "WINDIR", "APPDATA", "LOCALAPPDATA"),
        # this program's own
        *("USER_SPACE", "RYE_BASH", "RYE_BUNDLE_ENTRY_POINTS", "RYE_BUNDLE_PATH", "RYE_CACHE_DIR"),
        *("RYE_DEBUG", "RYE_DEV_MODE", "RYE_KERNEL_PYTHON", "RYE_LOCK", "RYE_LOG", "RYE_NODE"),
        *("RYE_NODE_CONFIG", "RYE_PARENT_THREAD_ID", "RYE_PROJECT", "RYE_PROJECT_PATH"),
        *("RYE_PROTECT_CORE", "RYE_PYTHON", "RYE_REMOTE_NAME", "RYE_SIGNING_KEY"),
        *("RYE_SIGNING_KEY_DIR", "RYE_TOOL_ID", "RYE_TOOL_PATH", "PROJECT_VENV_PYTHON"),
    }
)
RESERVED_ENV_PREFIXES = (
    # what belongs to the machine that runs a node, and to its owner
    *("SUPABASE_", "MODAL_", "SSL_", "AWS_", "GOOGLE_", "AZURE_", "GITHUB_", "CI_", "DOCKER_"),
    *("RYE_INTERNAL_", "LILLUX_"),
    # what programs load code by
    *("LD_", "DYLD_", "PYTHON", "GIT_SSH", "GIT_CONFIG"),
    *(pattern[:-1] for pattern in NEVER_FROM_DOTENV if pattern.endswith("*")),
)
_NAMES = RESERVED_ENV_NAMES | {name for name in NEVER_FROM_DOTENV if not name.endswith("*")}


class SecretNameError(RyeError):
    """A name that no secret may have, as no node would inject it."""

    code = "VALIDATION_FAILED"

    def __init__(self, name: str, problem: str) -> None:
        self.name, self.problem = name, problem
        super().__init__(f"secret {name[:80]!a}: {problem}", hint="give it another name")


class SecretValuesError(RyeError):
    """Secrets that cannot be sealed or injected: too many, too large, or not text."""

    code = "VALIDATION_FAILED"

    def __init__(self, problem: str, *, hint: str = "") -> None:
        self.problem = problem
        super().__init__(f"secrets: {problem}", hint=hint)


def is_variable_name(text: str) -> bool:
    """Whether a text can be the name of a secret at all: ASCII letters, digits and ``_``."""
    return len(text) <= MAX_NAME_CHARACTERS and _NAME.fullmatch(text) is not None


def why_unsafe(name: str) -> str | None:
    """Why a secret of this name is never injected; None when it may be.

    Names are compared in upper case, as some systems do.
    """
    if len(name) > MAX_NAME_CHARACTERS:
        return f"longer than {MAX_NAME_CHARACTERS} characters"
    if not _NAME.fullmatch(name):
        return "expected letters, digits and _, not starting with a digit"
    upper = name.upper()
    if upper in _NAMES:
        return "reserved: programs, or this one, are steered by it"
    prefix = next((prefix for prefix in RESERVED_ENV_PREFIXES if upper.startswith(prefix)), "")
    return f"reserved: names that begin with {prefix}" if prefix else None


def require_safe(name: str) -> None:
    """Refuse a name that no secret may have. Raises SecretNameError."""
    problem = why_unsafe(name)
    if problem:
        raise SecretNameError(name, problem)


def injectable(values: Mapping[str, str]) -> tuple[dict[str, str], tuple[str, ...]]:
    """The secrets that may be injected, and the names of the others, which are left out."""
    safe = {name: value for name, value in values.items() if why_unsafe(name) is None}
    return safe, tuple(name for name in values if name not in safe)


def valid_secrets(values: Mapping[str, object]) -> dict[str, str]:
    """The same values, text within the limits. Raises SecretValuesError: one breach fails all."""
    if len(values) > MAX_SECRETS:
        raise SecretValuesError(f"expected at most {MAX_SECRETS}, found {len(values)}")
    checked = {name: _validated_value(name, value) for name, value in values.items()}
    total = sum(_size(name) + _size(value) for name, value in checked.items())
    if total > MAX_TOTAL_BYTES:
        raise SecretValuesError(f"expected at most {MAX_TOTAL_BYTES} bytes in all, found {total}")
    return checked


def _validated_value(name: str, value: object) -> str:
    shown = ascii(name[:80])
    if not isinstance(value, str):
        raise SecretValuesError(f"{shown}: expected text, found {type(value).__name__}")
    if "\0" in name or "\0" in value:
        raise SecretValuesError(f"{shown}: expected no NUL character")
    if not name or "=" in name:
        raise SecretValuesError(f"{shown}: expected a name of an environment variable")
    size = _size(value)
    if size > MAX_VALUE_BYTES:
        raise SecretValuesError(f"{shown}: expected at most {MAX_VALUE_BYTES} bytes, found {size}")
    return value


def _size(text: str) -> int:
    """Its bytes of UTF-8. Raises SecretValuesError for half characters, which have none."""
    try:
        return len(text.encode())
    except UnicodeEncodeError:
        raise SecretValuesError("expected text, found half of a surrogate pair") from None


# --- local secrets --------------------------------------------------------------------------------
# The user's own secrets, sealed on disk: what goes to a node with an execution.
#
# File: ``<user>/.ai/secrets/store.enc``, docs/remote.md. Its key is derived from the bytes
# of the private key's file, so it opens only beside that file. No message here shows a value.

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


# --- envelopes ------------------------------------------------------------------------------------
# Secrets on their way to a node: sealed to its box key, bound to it and to their purpose. Pure.
#
# Format, with a vector: docs/remote.md. An envelope does not say who sealed it; the signed
# request around it does. No message here shows a value.

KIND = "execution-secrets/v1"
VERSION = 1
FOR_VAULT, FOR_EXECUTION = "vault", "execution"

_ENVELOPE_INFO = KIND.encode()
_MAX_CIPHERTEXT_CHARACTERS = 16 * MAX_TOTAL_BYTES
"""Every byte of a value may become six characters of JSON, and those four thirds in base64."""
_MAX_AAD_BYTES = 4096


class EnvelopeError(RyeError):
    """A sealed envelope that cannot be opened here. ``field`` is which part of it is wrong."""

    code = "ENVELOPE_INVALID"

    def __init__(self, field: str, problem: str) -> None:
        self.field, self.problem = field, problem
        super().__init__(f"secret envelope: {field}: {problem}")


def seal_secrets(
    values: Mapping[str, str], box_public: bytes, *, user: str = "", purpose: str = ""
) -> dict[str, Any]:
    """The envelope of secrets for the node with this box key; another one every time.

    ``user`` is who alone may have it opened there, ``purpose`` is `FOR_VAULT` or `FOR_EXECUTION`.
    Raises SecretValuesError for what no node would take, SealingError for an invalid key.
    """
    recipient = principal_id(box_fingerprint(box_public))
    bound = {"user": user, "purpose": purpose}
    aad_fields = {"kind": KIND, "recipient": recipient}
    aad_fields |= {name: value for name, value in bound.items() if value}
    plaintext = canonical_json(valid_secrets(values))
    enc, ciphertext = seal(
        plaintext, box_public, aad=canonical_json(aad_fields), info=_ENVELOPE_INFO
    )
    return {
        "version": VERSION,
        "recipient": recipient,
        "enc": _padded(enc),
        "ciphertext": _padded(ciphertext),
        "aad_fields": aad_fields,
    }


def open_envelope(
    envelope: object, box_private: bytes, *, user: str = "", purpose: str = ""
) -> dict[str, str]:
    """The secrets in an envelope. Raises EnvelopeError; nothing of a wrong one is given.

    One that names a user or a purpose opens for no other than ``user`` and ``purpose``.
    """
    if not isinstance(envelope, Mapping):
        raise EnvelopeError("envelope", "expected a JSON object")
    aad = _checked_aad(envelope, principal_id(box_fingerprint(box_public(box_private))))
    bound = envelope.get("aad_fields", {})
    for name, expected in (("user", user), ("purpose", purpose)):
        if expected and bound.get(name, expected) != expected:
            raise EnvelopeError(f"aad_fields.{name}", "sealed for another one")
    enc, ciphertext = _bytes(envelope, "enc"), _bytes(envelope, "ciphertext")
    try:
        plaintext = open_sealed(enc, ciphertext, box_private, aad=aad, info=_ENVELOPE_INFO)
    except SealingError as error:
        raise EnvelopeError("ciphertext", error.problem) from None
    return _values(plaintext)


def _checked_aad(envelope: Mapping[str, Any], recipient: str) -> bytes:
    """The canonical JSON of ``aad_fields``, once they say that the envelope is ours."""
    version, aad_fields = envelope.get("version"), envelope.get("aad_fields")
    if type(version) is not int or version != VERSION:
        raise EnvelopeError("version", f"expected {VERSION}")
    if not isinstance(aad_fields, Mapping):
        raise EnvelopeError("aad_fields", "expected a JSON object")
    if aad_fields.get("kind") != KIND:
        raise EnvelopeError("aad_fields.kind", f"expected {KIND}")
    for where, found in (("recipient", envelope), ("aad_fields.recipient", aad_fields)):
        if found.get("recipient") != recipient:
            raise EnvelopeError(where, f"expected {recipient}: sealed for another key")
    try:
        aad = canonical_json(aad_fields)
    except LilluxError as error:
        raise EnvelopeError("aad_fields", str(error)) from None
    if len(aad) > _MAX_AAD_BYTES:
        raise EnvelopeError("aad_fields", f"expected at most {_MAX_AAD_BYTES} bytes")
    return aad


def _bytes(envelope: Mapping[str, Any], field: str) -> bytes:
    text = envelope.get(field)
    if not isinstance(text, str) or len(text) > _MAX_CIPHERTEXT_CHARACTERS:
        raise EnvelopeError(field, "expected base64url text of a bounded size")
    data = decode_base64url(text)
    if data is None:
        raise EnvelopeError(field, "expected base64url")
    return data


def _values(plaintext: bytes) -> dict[str, str]:
    try:
        values = json.loads(plaintext)
    except (ValueError, RecursionError):
        raise EnvelopeError("ciphertext", "expected JSON inside, found something else") from None
    if not isinstance(values, dict):
        raise EnvelopeError("ciphertext", "expected a JSON object inside")
    try:
        return valid_secrets(values)
    except SecretValuesError as error:
        raise EnvelopeError("ciphertext", error.problem) from None


def _padded(data: bytes) -> str:
    """As other programs write it; they read both."""
    from base64 import urlsafe_b64encode

    return urlsafe_b64encode(data).decode("ascii")
