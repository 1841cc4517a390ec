"""The keys that may sign requests: a file each, ``<fp>.toml``, signed by the node itself.

So nobody who can only write files lets a key in. Format, as older nodes write it: ``docs/node.md``.
"""

import json
import logging
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from lillux.errors import LilluxError
from lillux.files import file_system_error, locked, make_directory, read_bytes, write_atomic
from lillux.signing import compute_key_fingerprint
from lillux.values import dataclass
from rye_services.keys import NodeKeys
from rye_services.public_keys import typed_public_key
from rye_services.scopes import EVERYTHING, MANAGE, allows, check_scopes
from ryeos.items.context import Clock, utc_now
from ryeos.items.errors import RyeError
from ryeos.items.refs import Kind
from ryeos.remote.requests import decode_public_key, encode_public_key
from ryeos.trust.signature import SignedText, content_hash, decode, form_for, split

MAX_DOCUMENT_BYTES = 64 * 1024
MAX_LABEL_CHARACTERS = 200
_FINGERPRINT = re.compile(r"[0-9a-f]{16}")
_SUFFIX = ".toml"


class AuthorizedKeyError(RyeError):
    """A file of this folder that does not let its key in. ``where`` is its path."""

    code, exit_status = "CONFIG_ERROR", 6

    def __init__(self, where: str, problem: str) -> None:
        self.where, self.problem = where, problem
        super().__init__(f"{where}: {problem}", hint="remove it, and add the key again")


class AuthorizedKeyMissingError(RyeError):
    """A fingerprint that no authorised key has."""

    code, exit_status = "ITEM_NOT_FOUND", 3

    def __init__(self, fingerprint: str) -> None:
        self.fingerprint = fingerprint
        super().__init__(
            f"key {fingerprint[:80]}: expected an authorised key, found none",
            hint="list them with: rye-node.pyz keys list",
        )


class LastManagerError(RyeError):
    """The one key that may manage keys was to be revoked over the network."""

    code, exit_status = "CONFLICT", 1

    def __init__(self, fingerprint: str) -> None:
        self.fingerprint = fingerprint
        super().__init__(
            f"key {fingerprint}: the last one that may manage keys",
            hint="let another one in first, or revoke it on the node: rye-node.pyz keys revoke",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthorizedKey:
    """A key that may sign requests.

    scopes              what for; see `rye_services.scopes`
    publish_namespaces  patterns of the names it may publish under
    expires_at          ISO 8601, None for never
    created_via         ``command``, ``bootstrap`` or ``admin``
    """

    fingerprint: str
    public_pem: bytes
    label: str
    scopes: tuple[str, ...]
    publish_namespaces: tuple[str, ...] = ()
    expires_at: str | None = None
    created_via: str = "command"
    created_at: str = ""
    created_by: str = ""

    @property
    def may_manage(self) -> bool:
        """Whether it may say which keys count."""
        return allows(frozenset(self.scopes), MANAGE)


class AuthorizedKeys:
    """The authorised keys in a folder. Every look is at the files: a change counts at once."""

    def __init__(self, directory: Path, keys: NodeKeys, clock: Clock = utc_now) -> None:
        self._directory = directory
        self._keys = keys
        self._clock = clock

    def find(self, fingerprint: str) -> AuthorizedKey | None:
        """The key that may sign now; None when there is none.

        Raises AuthorizedKeyError for a file that does not count, or whose time is over.
        """
        if not _FINGERPRINT.fullmatch(fingerprint):
            return None
        path = self._path(fingerprint)
        try:
            data = read_bytes(path, MAX_DOCUMENT_BYTES)
        except FileNotFoundError:
            return None
        key = self._read(data, str(path))
        if key.fingerprint != fingerprint:
            raise AuthorizedKeyError(str(path), f"holds the key {key.fingerprint}")
        if key.expires_at and _moment(key.expires_at, str(path)) <= self._clock():
            raise AuthorizedKeyError(str(path), f"expired at {key.expires_at}")
        return key

    def all(self) -> tuple[AuthorizedKey, ...]:
        """The keys that may sign now, by fingerprint. One that does not count is logged."""
        return tuple(self._counting())

    def add(self, key: AuthorizedKey) -> AuthorizedKey:
        """Let a key in, or change what it may; as it was written.

        Raises ScopeError, AuthorizedKeyError for a label of another form, FileSystemError.
        """
        check_scopes(key.scopes)
        if not key.label.isprintable() or len(key.label) > MAX_LABEL_CHARACTERS:
            expected = f"expected at most {MAX_LABEL_CHARACTERS} visible characters"
            raise AuthorizedKeyError("label", expected)
        if key.expires_at:
            _moment(key.expires_at, "the new key")
        body = SignedText(shebang="", signature=None, covers=None, body=_document(key))
        path = self._path(key.fingerprint)
        form = form_for(Kind.TOOL, _SUFFIX)
        make_directory(self._directory, mode=0o700)
        signed = self._keys.signing.signed_text(Kind.TOOL, body, form, str(path))
        write_atomic(path, signed.encode(), mode=0o600)
        return key

    def authorize(
        self,
        public_pem: bytes,
        *,
        label: str,
        scopes: Iterable[str],
        via: str,
        by: str = "",
        expires_at: str | None = None,
        publish_namespaces: Iterable[str] = (),
    ) -> AuthorizedKey:
        """Let the key of a PEM in. Raises PemError, and as `add`."""
        return self.add(
            AuthorizedKey(
                fingerprint=compute_key_fingerprint(public_pem),
                public_pem=public_pem,
                label=label,
                scopes=check_scopes(scopes),
                expires_at=expires_at,
                publish_namespaces=tuple(publish_namespaces),
                created_via=via,
                created_at=self._clock().strftime("%Y-%m-%dT%H:%M:%SZ"),
                created_by=by or self._keys.node_id,
            )
        )

    def revoke(self, fingerprint: str) -> None:
        """Let a key in no longer. Raises AuthorizedKeyMissingError, FileSystemError."""
        if not _FINGERPRINT.fullmatch(fingerprint):
            raise AuthorizedKeyMissingError(fingerprint)
        path = self._path(fingerprint)
        try:
            path.unlink()
        except FileNotFoundError:
            raise AuthorizedKeyMissingError(fingerprint) from None
        except OSError as error:
            raise file_system_error(path, error) from error

    def revoke_unless_last(self, fingerprint: str) -> None:
        """As `revoke`, but one key that may manage keys stays. Raises LastManagerError too."""
        with locked(self._directory / ".lock"):  # two managers may revoke each other
            self._revoke_unless_last(fingerprint)

    def _revoke_unless_last(self, fingerprint: str) -> None:
        managers = {key.fingerprint for key in self._counting() if key.may_manage}
        if managers == {fingerprint}:
            raise LastManagerError(fingerprint)
        self.revoke(fingerprint)

    def bootstrap(self, public_key: str, label: str) -> AuthorizedKey | None:
        """Let the first key in, ``ed25519:...``; None where there are keys already.

        Raises PublicKeyError for a text that is no key, and as `add`.
        """
        if any(self._files()):
            return None
        public_pem = typed_public_key(public_key, "BOOTSTRAP_PUBLIC_KEY")
        return self.authorize(public_pem, label=label, scopes=[EVERYTHING], via="bootstrap")

    def _counting(self) -> Iterator[AuthorizedKey]:
        for path in self._files():
            try:
                key = self.find(path.stem)
            except LilluxError as error:
                logging.getLogger(__name__).warning("%s", error)
                continue
            if key:
                yield key

    def _files(self) -> list[Path]:
        return sorted(path for path in self._directory.glob(f"*{_SUFFIX}"))

    def _path(self, fingerprint: str) -> Path:
        return self._directory / f"{fingerprint}{_SUFFIX}"

    def _read(self, data: bytes, where: str) -> AuthorizedKey:
        from ryeos.remote.requests import principal_id

        signed = split(decode(data, where), form_for(Kind.TOOL, _SUFFIX), where)
        signature = signed.signature
        if signature is None or signature.fingerprint != self._keys.fingerprint:
            node = principal_id(self._keys.fingerprint)
            raise AuthorizedKeyError(where, f"expected the signature of this node, {node}")
        if signature.content_hash != content_hash(signed.body) or not self._is_ours(
            signature.value, signature.content_hash
        ):
            raise AuthorizedKeyError(where, "changed since this node signed it")
        return _key_of(signed.body, where)

    def _is_ours(self, value: str, digest: str) -> bool:
        from lillux.signing import verify_signature

        return verify_signature(digest, value, self._keys.signing.public_pem)


def _key_of(body: str, where: str) -> AuthorizedKey:
    from ryeos.items.header_values import parse_toml

    header = parse_toml(body)
    public_pem = decode_public_key(header.get("public_key"), where)
    fingerprint = compute_key_fingerprint(public_pem)
    if str(header.get("fingerprint", fingerprint)).removeprefix("fp:") != fingerprint:
        raise AuthorizedKeyError(where, "the fingerprint is not that of the key")
    return AuthorizedKey(
        fingerprint=fingerprint,
        public_pem=public_pem,
        label=str(header.get("label") or header.get("owner") or ""),
        # Older nodes wrote none, and let every key do everything.
        scopes=_texts(header, "scopes", where, (EVERYTHING,)),
        publish_namespaces=_texts(header, "publish_namespaces", where, ()),
        expires_at=str(header["expires_at"]) if header.get("expires_at") else None,
        created_via=str(header.get("created_via", "")),
        created_at=str(header.get("created_at", "")),
        created_by=str(header.get("created_by", "")),
    )


def _texts(
    header: Mapping[str, Any], name: str, where: str, default: tuple[str, ...]
) -> tuple[str, ...]:
    found = header.get(name, list(default))
    if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
        raise AuthorizedKeyError(where, f"{name}: expected a list of texts")
    return tuple(found)


def _moment(text: str, where: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        expected = "expected a moment like 2027-01-31T00:00:00Z"
        raise AuthorizedKeyError(where, f"expires_at: {expected}, found {text[:80]!r}") from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _document(key: AuthorizedKey) -> str:
    fields: dict[str, str | tuple[str, ...] | None] = {
        "fingerprint": key.fingerprint,
        "public_key": encode_public_key(key.public_pem),
        "label": key.label,
        "scopes": key.scopes,
        "publish_namespaces": key.publish_namespaces or None,
        "expires_at": key.expires_at,
        "created_via": key.created_via,
        "created_at": key.created_at,
        "created_by": key.created_by,
    }
    lines = (f"{name} = {_toml(value)}\n" for name, value in fields.items() if value is not None)
    return "".join(lines)


def _toml(value: str | tuple[str, ...]) -> str:
    """A text or a list of texts. JSON's escapes are TOML's too, but for those of pairs."""
    words = list(value) if isinstance(value, tuple) else value
    return json.dumps(words, ensure_ascii=False).replace("\x7f", "\\u007f")
