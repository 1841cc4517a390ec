"""``keys`` and ``api-keys``: who may use a node, said by whoever can write its files."""

import argparse
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

from lillux.files import read_bytes
from lillux.signing import MAX_PEM_BYTES
from lillux.values import dataclass
from rye_services.scopes import EVERYTHING
from ryeos.items.context import utc_now
from ryeos.items.errors import RyeError, UsageError

_REMOTE = "remote:*"
_LONGEST_DAYS = 36_500

Declare = Callable[[str, Any, str], argparse.ArgumentParser]


@dataclass(frozen=True, slots=True)
class Answer:
    """What a command answers: as JSON, as text; and what it says besides."""

    envelope: Mapping[str, Any]
    text: str
    notes: tuple[str, ...] = ()


class NoUserError(RyeError):
    """An API key was to be made, and nobody said for whom."""

    code, exit_status = "INVALID_PARAMS", 2

    def __init__(self, known: tuple[str, ...]) -> None:
        self.known = known
        found = ", ".join(known) or "none"
        super().__init__(
            f"user: expected one, as there is not exactly one authorised key (found {found})",
            hint="name one: --user FINGERPRINT, so that both ways to authenticate see one store",
        )


# --- keys -----------------------------------------------------------------------------------------


def declare_keys(declare: Declare) -> None:
    """The actions of ``keys``."""
    add = declare("add", _add_key, "let a key sign requests")
    add.add_argument(
        "key", metavar="KEY", help="a PEM file, or ed25519:... as /public-key shows it"
    )
    add.add_argument("--label", metavar="TEXT", default="", help="whose it is")
    add.add_argument(
        "--scope", metavar="S", action="append", help="what for (default *: everything)"
    )
    add.add_argument("--expires-days", metavar="N", type=_days, help="let it in for so long")
    add.add_argument(
        "--publish", metavar="PATTERN", action="append", help="namespaces it may publish below"
    )
    declare("list", _list_keys, "the keys that may sign requests")
    revoke = declare("revoke", _revoke_key, "let a key in no longer")
    revoke.add_argument("fingerprint", metavar="FINGERPRINT")


def _add_key(parsed: argparse.Namespace, environ: Mapping[str, str]) -> Answer:
    public_pem = _public_pem(parsed.key)  # first: a slip is no reason to make the node's own keys
    key = _authorized_keys(parsed, environ).authorize(
        public_pem,
        label=parsed.label,
        scopes=parsed.scope or [EVERYTHING],
        via="command",
        expires_at=_expires_at(parsed.expires_days),
        publish_namespaces=parsed.publish or (),
    )
    shown = {"fingerprint": f"fp:{key.fingerprint}", "label": key.label, "scopes": list(key.scopes)}
    return Answer({"status": "success", **shown}, f"authorised fp:{key.fingerprint}")


def _list_keys(parsed: argparse.Namespace, environ: Mapping[str, str]) -> Answer:
    found = _authorized_keys(parsed, environ).all()
    rows = [(f"fp:{key.fingerprint}", ",".join(key.scopes), key.label) for key in found]
    shown = [
        {
            "fingerprint": f"fp:{key.fingerprint}",
            "label": key.label,
            "scopes": list(key.scopes),
            "created_via": key.created_via,
            "created_at": key.created_at,
            "expires_at": key.expires_at,
        }
        for key in found
    ]
    return Answer({"status": "success", "keys": shown}, _table(rows) or "no keys")


def _revoke_key(parsed: argparse.Namespace, environ: Mapping[str, str]) -> Answer:
    fingerprint = parsed.fingerprint.removeprefix("fp:")
    _authorized_keys(parsed, environ).revoke(fingerprint)
    text = f"revoked fp:{fingerprint}"
    return Answer({"status": "success", "revoked": f"fp:{fingerprint}"}, text)


def _public_pem(key: str) -> bytes:
    """The PEM of a key as it was typed. Raises PublicKeyError, UsageError, FileSystemError."""
    if key.startswith("ed25519:"):
        from rye_services.public_keys import typed_public_key

        return typed_public_key(key, "KEY")
    try:
        return read_bytes(Path(key).expanduser(), MAX_PEM_BYTES)
    except FileNotFoundError:
        raise UsageError(
            f"{key}: expected a PEM file, found none",
            hint="a client's is ~/.ai/config/keys/signing/public_key.pem: rye keys show",
        ) from None


# --- API keys -------------------------------------------------------------------------------------


def declare_api_keys(declare: Declare) -> None:
    """The actions of ``api-keys``."""
    create = declare("create", _create_api_key, "make one, and show it once")
    create.add_argument("--user", metavar="ID", help="default: the one authorised key there is")
    create.add_argument("--name", metavar="TEXT", required=True, help="what it is for")
    create.add_argument("--scope", metavar="S", action="append", help="default remote:*")
    create.add_argument("--expires-days", metavar="N", type=_days, help="let it count for so long")
    declare("list", _list_api_keys, "all there ever were")
    revoke = declare("revoke", _revoke_api_key, "let one count no longer")
    revoke.add_argument("id", metavar="ID", help="its id, or the 8 characters it is listed with")


def _create_api_key(parsed: argparse.Namespace, environ: Mapping[str, str]) -> Answer:
    token, key = _api_keys(parsed, environ).create(
        parsed.user or _only_user(parsed, environ),
        name=parsed.name,
        scopes=tuple(parsed.scope or [_REMOTE]),
        expires_after=timedelta(days=parsed.expires_days) if parsed.expires_days else None,
    )
    shown = {"key": token, "id": key.id, "user_id": key.user_id, "name": key.name}
    envelope = {"status": "success", **shown, "expires_at": key.expires_at}
    return Answer(envelope, token, ("keep it safe: nobody can show it again",))


def _list_api_keys(parsed: argparse.Namespace, environ: Mapping[str, str]) -> Answer:
    found = _api_keys(parsed, environ).all()
    shown = [
        {
            "id": key.id,
            "user_id": key.user_id,
            "name": key.name,
            "key_prefix": key.key_prefix,
            "scopes": None if key.scopes is None else list(key.scopes),
            "created_at": key.created_at,
            "expires_at": key.expires_at,
            "revoked_at": key.revoked_at,
            "last_used_at": key.last_used_at,
        }
        for key in found
    ]
    rows = [
        (
            key.id,
            key.key_prefix,
            key.user_id,
            "revoked" if key.revoked_at else "counts",
            _scopes(key.scopes),
            key.name,
        )
        for key in found
    ]
    return Answer({"status": "success", "keys": shown}, _table(rows) or "no API keys")


def _scopes(scopes: Sequence[str] | None) -> str:
    return EVERYTHING if scopes is None else ",".join(scopes)


def _revoke_api_key(parsed: argparse.Namespace, environ: Mapping[str, str]) -> Answer:
    key = _api_keys(parsed, environ).revoke(parsed.id)
    return Answer({"status": "success", "revoked": key.id}, f"revoked {key.id} ({key.name})")


def _only_user(parsed: argparse.Namespace, environ: Mapping[str, str]) -> str:
    known = tuple(key.fingerprint for key in _authorized_keys(parsed, environ).all())
    if len(known) != 1:
        raise NoUserError(known)
    only: str = known[0]
    return only


# --- what both stand on ---------------------------------------------------------------------------


def _authorized_keys(parsed: argparse.Namespace, environ: Mapping[str, str]) -> Any:  # noqa: ANN401 - imported late
    from rye_services.authorized_keys import AuthorizedKeys
    from rye_services.keys import open_keys

    settings = _settings(parsed, environ)
    return AuthorizedKeys(settings.authorized_keys_dir, open_keys(settings.signing_key_dir))


def _api_keys(parsed: argparse.Namespace, environ: Mapping[str, str]) -> Any:  # noqa: ANN401 - imported late
    from rye_services.api_keys import ApiKeys
    from rye_services.database import Database

    return ApiKeys(Database(_settings(parsed, environ).database_url))


def _settings(parsed: argparse.Namespace, environ: Mapping[str, str]) -> Any:  # noqa: ANN401 - imported late
    """The settings. Only what adds something may be the first to write to the data folder."""
    from rye_services.data_folder import make_data, require_data
    from rye_services.settings import settings_of

    looked_at = make_data if parsed.run in (_add_key, _create_api_key) else require_data
    return looked_at(settings_of(parsed, environ))


def _days(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 0 < int(text[:9]) <= _LONGEST_DAYS:
        raise argparse.ArgumentTypeError(f"expected days from 1 to {_LONGEST_DAYS}, found {text!r}")
    return int(text)


def _expires_at(days: int | None) -> str | None:
    if days is None:
        return None
    return (utc_now() + timedelta(days=days)).strftime("%Y-%m-%dT%H:%M:%SZ")


def _table(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = (
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )
    return "\n".join(lines)
