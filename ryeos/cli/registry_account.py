"""``rye registry keys|signers|namespaces``: what an account has on a registry."""

import re
from collections.abc import Mapping
from typing import Any

from ryeos.cli.plain_arguments import Arguments
from ryeos.cli.registry_words import registry_of, take_registry, word
from ryeos.cli.session import Command, Session
from ryeos.errors import UsageError
from ryeos.moments import utc_now
from ryeos.registry.ids import check_namespace
from ryeos.remote.remote_values import is_name

KEY_ACTIONS = ("create", "list", "revoke")
SIGNING_ACTIONS = ("add", "list", "remove")
NAMESPACE_ACTIONS = ("claim", "list")
_FINGERPRINT = re.compile(r"[0-9a-f]{16}")
SCOPES = ("registry:read", "registry:write")


def _configure_keys(parser: Arguments) -> None:
    add = parser.add_argument
    add("action", metavar="ACTION", choices=KEY_ACTIONS, help=", ".join(KEY_ACTIONS))
    add("name", metavar="NAME", nargs="?", help="create, revoke: what the key is called")
    add("--read-only", action="store_true", help="create: it may not publish")
    add("--days", metavar="N", type=int, help="create: it ends after so many days")
    take_registry(parser)


def _keys(session: Session) -> int:
    return _DO[session.arguments.action](session)


def _create(session: Session) -> int:
    arguments = session.arguments
    if arguments.days is not None and arguments.days < 1:
        raise UsageError(f"--days: expected a number from 1 up, found {arguments.days}")
    scopes = list(SCOPES[:1] if arguments.read_only else SCOPES)
    reply = registry_of(session).create_key(_name(session), scopes, arguments.days)
    session.output.note("it is shown this once: put it where your shell finds it")
    session.output.answer({"status": "success", **_without_status(reply)}, word(reply, "key"))
    return 0


def _list(session: Session) -> int:
    if session.arguments.name:
        raise UsageError("NAME: expected none for list")
    rows = registry_of(session).keys()
    session.output.answer({"status": "success", "keys": rows}, "\n".join(map(_line, rows)))
    return 0


def _line(row: Mapping[str, Any]) -> str:
    scopes = row.get("scopes")
    said = ",".join(map(str, scopes)) if isinstance(scopes, list) else ""
    state = "revoked" if row.get("revoked_at") else f"until {word(row, 'expires_at')}"
    return f"{word(row, 'name'):<16}  {word(row, 'key_prefix')}  {word({'s': said}, 's')}  {state}"


def _revoke(session: Session) -> int:
    name = _name(session)
    reply = registry_of(session).revoke_key(name)
    session.output.answer({"status": "success", **_without_status(reply)}, f"revoked {name}")
    return 0


def _name(session: Session) -> str:
    name = session.arguments.name
    if not name or not is_name(name):
        raise UsageError(
            f"NAME: expected the name of an API key, of letters, digits, . _ -, found {name!a:.80}"
        )
    return str(name)


def _without_status(reply: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in reply.items() if key != "status"}


_DO = {"create": _create, "list": _list, "revoke": _revoke}


# --- keys that the account signs with -------------------------------------------------------------


def _configure_signing(parser: Arguments) -> None:
    add = parser.add_argument
    add("action", metavar="ACTION", choices=SIGNING_ACTIONS, help=", ".join(SIGNING_ACTIONS))
    add("fingerprint", metavar="FINGERPRINT", nargs="?", help="remove: which key")
    take_registry(parser)


def _signing(session: Session) -> int:
    arguments = session.arguments
    if (arguments.action == "remove") is not bool(arguments.fingerprint):
        raise UsageError("FINGERPRINT: expected for remove, and only there")
    registry = registry_of(session)
    envelope: dict[str, Any] = {"status": "success"}
    if arguments.action == "add":
        now = utc_now().strftime("%Y-%m-%dT%H:%M:%SZ")
        key = session.rye.signing_key()
        envelope["fingerprint"] = word(registry.add_signing_key(key, now), "fingerprint")
        text = f"what you push is checked by your key {key.fingerprint} from now on"
    elif arguments.action == "remove":
        fingerprint = arguments.fingerprint.lower()
        if not _FINGERPRINT.fullmatch(fingerprint):
            raise UsageError(f"FINGERPRINT: expected 16 hex digits, found {fingerprint[:60]!a}")
        registry.remove_signing_key(fingerprint)
        envelope["fingerprint"] = fingerprint
        text = f"{fingerprint} is no key of your account any more"
    else:
        envelope["signing_keys"] = registry.account().get("signing_keys", [])
        text = "\n".join(word({"f": one}, "f") for one in envelope["signing_keys"])
    session.output.answer(envelope, text)
    return 0


# --- namespaces -----------------------------------------------------------------------------------


def _configure_namespaces(parser: Arguments) -> None:
    add = parser.add_argument
    add("action", metavar="ACTION", choices=NAMESPACE_ACTIONS, help=", ".join(NAMESPACE_ACTIONS))
    add("name", metavar="NAME", nargs="?", help="claim: which one")
    take_registry(parser)


def _namespaces(session: Session) -> int:
    arguments = session.arguments
    if (arguments.action == "claim") is not bool(arguments.name):
        raise UsageError("NAME: expected for claim, and only there")
    if arguments.action == "claim":
        name = check_namespace(arguments.name)
        is_known = registry_of(session).claim_namespace(name).get("skipped") is True
        envelope = {"status": "success", "name": name, "unchanged": is_known}
        session.output.answer(envelope, f"{name} is yours")
        return 0
    rows = registry_of(session).namespaces()
    lines = (f"{word(row, 'name'):<24}  {word(row, 'claimed_at')}" for row in rows)
    session.output.answer({"status": "success", "namespaces": rows}, "\n".join(lines))
    return 0


COMMANDS = {
    "registry keys": Command(
        _configure_keys,
        _keys,
        ["rye registry keys list", "rye registry keys create ci --days 90"],
    ),
    "registry signers": Command(
        _configure_signing, _signing, ["rye registry signers add", "rye registry signers list"]
    ),
    "registry namespaces": Command(
        _configure_namespaces,
        _namespaces,
        ["rye registry namespaces list", "rye registry namespaces claim ada"],
    ),
}
