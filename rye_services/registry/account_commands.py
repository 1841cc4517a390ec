"""``accounts``: who may publish in a registry, said by whoever can write its files."""

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lillux.files import read_bytes
from lillux.signing import MAX_PEM_BYTES
from rye_services.key_commands import Answer, Declare
from ryeos.items.errors import UsageError

_FIRST_KEY = "first"
_SCOPES = ("registry:read", "registry:write")


def declare_accounts(declare: Declare) -> None:
    """The actions of ``accounts``."""
    add = declare("add", _add, "make an account, and show its first API key once")
    add.add_argument("name", metavar="NAME", help="2 to 39 of a-z, 0-9, - and _")
    add.add_argument("--key", metavar="FILE", help="the public key that it signs with, PEM")
    add.add_argument("--reserved", action="store_true", help="also under a reserved name")
    declare("list", _list, "all there are, with their namespaces and keys")
    for name, run, words in (
        ("disable", _disable, "let one publish no longer; what it published stays"),
        ("enable", _enable, "let one publish again"),
    ):
        declare(name, run, words).add_argument("name", metavar="NAME")
    add_key = declare("add-key", _add_key, "let one sign with a key")
    add_key.add_argument("name", metavar="NAME")
    add_key.add_argument("key", metavar="FILE", help="a public key, PEM")
    grant = declare("grant", _grant, "give one a namespace, also one that is reserved")
    grant.add_argument("name", metavar="NAME")
    grant.add_argument("namespace", metavar="NAMESPACE")


def declare_take_down(declare: Declare) -> None:
    """The command ``take-down``."""
    command = declare("take-down", _take_down, "delete what somebody published in a registry")
    command.add_argument("ref", metavar="REF", help="like tool:ada/text/count, or bundle:shapes")
    command.add_argument("--version", metavar="V", help="this one only")


def _take_down(parsed: argparse.Namespace, environ: Mapping[str, str]) -> Answer:
    from rye_services.registry.names import bundle_name, item_name, version_of

    kind, _, item_id = parsed.ref.partition(":")
    version = None if parsed.version is None else version_of(parsed.version).text
    services = _services(parsed, environ)
    if kind == "bundle":
        gone = services.bundles.take_down(bundle_name(item_id), version)
    else:
        gone = services.items.take_down(item_name(kind, item_id), version)
    envelope = {"status": "success", "ref": parsed.ref, "deleted_versions": list(gone)}
    return Answer(envelope, f"deleted {parsed.ref}: {', '.join(gone)}")


def _add(parsed: argparse.Namespace, environ: Mapping[str, str]) -> Answer:
    pem = None if parsed.key is None else _pem(parsed.key)
    services = _services(parsed, environ, make=True)
    account = services.accounts.add(parsed.name, reserved=parsed.reserved)
    if pem is not None:
        services.accounts.add_key(account.name, pem)
    token, _ = services.api_keys.create(account.name, name=_FIRST_KEY, scopes=_SCOPES)
    envelope = {"status": "success", "account": account.name, "key": token, "name": _FIRST_KEY}
    return Answer(envelope, token, ("keep it safe: nobody can show it again",))


def _list(parsed: argparse.Namespace, environ: Mapping[str, str]) -> Answer:
    services = _services(parsed, environ)
    shown = [
        {
            "name": account.name,
            "created_at": account.created_at,
            "disabled_at": account.disabled_at,
            "stored_bytes": account.stored_bytes,
            "namespaces": [one.name for one in services.namespaces.of(account.name)],
            "keys": list(services.accounts.keys_of(account.name)),
        }
        for account in services.accounts.all()
    ]
    lines = [
        "  ".join(
            (
                one["name"],
                "disabled" if one["disabled_at"] else "open",
                f"{one['stored_bytes']} bytes",
                ",".join(one["namespaces"]) or "no namespace",
            )
        )
        for one in shown
    ]
    return Answer({"status": "success", "accounts": shown}, "\n".join(lines) or "no accounts")


def _disable(parsed: argparse.Namespace, environ: Mapping[str, str]) -> Answer:
    _services(parsed, environ).accounts.disable(parsed.name)
    return Answer({"status": "success", "disabled": parsed.name}, f"disabled {parsed.name}")


def _enable(parsed: argparse.Namespace, environ: Mapping[str, str]) -> Answer:
    _services(parsed, environ).accounts.enable(parsed.name)
    return Answer({"status": "success", "enabled": parsed.name}, f"enabled {parsed.name}")


def _add_key(parsed: argparse.Namespace, environ: Mapping[str, str]) -> Answer:
    pem = _pem(parsed.key)
    fingerprint = _services(parsed, environ).accounts.add_key(parsed.name, pem)
    envelope = {"status": "success", "account": parsed.name, "fingerprint": fingerprint}
    return Answer(envelope, f"{parsed.name} signs with {fingerprint}")


def _grant(parsed: argparse.Namespace, environ: Mapping[str, str]) -> Answer:
    services = _services(parsed, environ)
    account = services.accounts.open_account(parsed.name).name
    services.namespaces.claim(parsed.namespace, account, reserved=True)
    envelope = {"status": "success", "account": account, "namespace": parsed.namespace}
    return Answer(envelope, f"{parsed.namespace} belongs to {account}")


def _pem(path: str) -> bytes:
    try:
        return read_bytes(Path(path).expanduser(), MAX_PEM_BYTES)
    except FileNotFoundError:
        hint = "a client's is ~/.ai/config/keys/signing/public_key.pem: rye keys show"
        raise UsageError(f"{path}: expected a PEM file, found none", hint=hint) from None


def _services(parsed: argparse.Namespace, environ: Mapping[str, str], *, make: bool = False) -> Any:  # noqa: ANN401 - imported late
    """The services on the data. Only what makes an account may be the first to write there."""
    from rye_services.data_folder import make_data, require_data
    from rye_services.registry.services import open_registry_alone
    from rye_services.settings import settings_of

    looked_at = make_data if make else require_data
    return open_registry_alone(looked_at(settings_of(parsed, environ)))
