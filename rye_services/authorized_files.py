"""The authorised keys of an older node, which kept a file for each, become rows of its database.

Such a file, ``config/authorized_keys/FINGERPRINT.toml``, is a document that the node has signed.
The first process that finds files which verify takes all of them over, in one transaction; from
then on the table alone counts. The files stay as they are: servers of the older version, which may
still run beside this one, read them. A file of its own as it goes once no such node is left.
"""

import logging
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from sqlalchemy import select, update

from lillux.errors import LilluxError
from lillux.files import read_bytes
from lillux.signing import compute_key_fingerprint, verify_signature
from lillux.values import dataclass
from rye_services.audit import Audit
from rye_services.credentials import EVERYTHING, AuthorizedKey, AuthorizedKeys, expiry_of
from rye_services.database import Database, node_identity, require_texts, stamp
from rye_services.keys import NodeKeys, open_keys
from rye_services.settings import Settings
from ryeos.items.errors import RyeError
from ryeos.items.header_values import parse_toml
from ryeos.items.refs import Kind
from ryeos.remote.requests import decode_public_key
from ryeos.trust.signature import content_hash, decode, form_for, split

_MAX_BYTES = 64 * 1024
_SUFFIX = ".toml"
_log = logging.getLogger(__name__)


def take_over_files(settings: Settings, database: Database) -> int:
    """Make a row for each authorised key that has a file only, once; how many were taken over.

    A file that the node has not signed, or that was changed, is named in the log and left out.
    Raises RyeError `CONFIG_ERROR`, PemError, KeyMismatchError, FileSystemError, SQLAlchemyError.
    """
    files = sorted(settings.authorized_keys_dir.glob(f"*{_SUFFIX}"))
    if not files:
        return 0
    taken_at = select(node_identity.c.keys_taken_over_at)
    with database.reading() as connection:
        if connection.scalar(taken_at):
            return 0
    found = tuple(_sound(files, open_keys(settings.signing_key_dir)))
    if not found:
        return 0
    with database.writing(lock="authorised keys") as connection:
        if connection.scalar(taken_at):  # another process was faster
            return 0
        count = AuthorizedKeys(database).take_over(connection, found)
        now = stamp(database.now(connection))
        connection.execute(update(node_identity).values(keys_taken_over_at=now))
        facts = {"keys": count, "folder": str(settings.authorized_keys_dir)}
        Audit(database).write(connection, "keys.take-over", "files", facts)
    _log.info("took over %s authorised keys of %s", count, settings.authorized_keys_dir)
    return count


def _sound(files: list[Path], keys: NodeKeys) -> Iterator[AuthorizedKey]:
    for path in files:
        try:
            yield _read(path, keys)
        except (LilluxError, FileNotFoundError) as error:
            _log.warning("not taken over: %s", error)


@dataclass(frozen=True, slots=True)
class _File:
    """A file whose text is being read, for what is wrong with it."""

    path: Path

    def error(self, problem: str) -> RyeError:
        """What is raised for a file that lets no key in."""
        hint = "add the key again: rye-node.pyz keys add KEY"
        return RyeError(f"{self.path}: {problem}", code="CONFIG_ERROR", hint=hint)

    def texts(
        self, header: Mapping[str, Any], name: str, default: tuple[str, ...]
    ) -> tuple[str, ...]:
        """A list of texts of the document."""
        found = header.get(name, list(default))
        if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
            raise self.error(f"{name}: expected a list of texts")
        return tuple(found)


def _read(path: Path, keys: NodeKeys) -> AuthorizedKey:
    """The key of a file.

    1. the node has signed the text, and it is as it was then
    2. its fields have the right form
    3. the file has the name of the key that it holds
    """
    file, where = _File(path), str(path)
    signed = split(decode(read_bytes(path, _MAX_BYTES), where), form_for(Kind.TOOL, _SUFFIX), where)
    signature = signed.signature
    if signature is None or signature.fingerprint != keys.fingerprint:  # (1)
        raise file.error(f"expected the signature of this node, {keys.node_id}")
    digest = content_hash(signed.body)
    is_ours = verify_signature(digest, signature.value, keys.signing.public_pem)
    if signature.content_hash != digest or not is_ours:
        raise file.error("changed since this node signed it")
    header = parse_toml(signed.body)  # (2)
    require_texts(header)
    pem = decode_public_key(header.get("public_key"), where)
    fingerprint = compute_key_fingerprint(pem)
    if str(header.get("fingerprint", fingerprint)).removeprefix("fp:") != fingerprint:
        raise file.error("the fingerprint is not that of the key")
    if path.stem != fingerprint:  # (3)
        raise file.error(f"holds the key {fingerprint}")
    expires_at = str(header["expires_at"]) if header.get("expires_at") else None
    if expires_at:
        expiry_of(expires_at)
    return AuthorizedKey(
        fingerprint=fingerprint,
        public_pem=pem,
        label=str(header.get("label") or header.get("owner") or ""),
        # The oldest nodes wrote none, and let every key do everything.
        scopes=file.texts(header, "scopes", (EVERYTHING,)),
        publish_namespaces=file.texts(header, "publish_namespaces", ()),
        expires_at=expires_at,
        created_via=str(header.get("created_via", "")),
        created_at=str(header.get("created_at", "")),
        created_by=str(header.get("created_by", "")),
    )
