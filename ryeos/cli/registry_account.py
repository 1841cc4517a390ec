"""``rye registry keys|namespaces``: what an account has on a registry."""

from collections.abc import Mapping
from typing import Any

from ryeos.cli.plain_arguments import Arguments
from ryeos.cli.registry_words import registry_of, take_registry, word
from ryeos.cli.session import Command, Session
from ryeos.errors import UsageError
from ryeos.remote.remote_values import is_name

KEY_ACTIONS = ("create", "list", "revoke")
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

COMMANDS = {
    "registry keys": Command(
        _configure_keys,
        _keys,
        ["rye registry keys list", "rye registry keys create ci --days 90"],
    ),
}
