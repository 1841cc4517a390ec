"""``rye remote add|list|remove|pins|forget``: the settings of remotes; no node is asked."""

from collections.abc import Mapping
from typing import Any

from lillux.errors import LilluxError
from lillux.foreign_text import one_line
from lillux.http.model import is_unencrypted
from ryeos.app.command_line import Arguments, CommandSpec, no_arguments
from ryeos.cli.session import Session
from ryeos.items.errors import NoSigningKeyError, RyeError, UsageError
from ryeos.remote.pins import Pins
from ryeos.remote.remote_values import (
    CONFIG_PATH,
    RemoteConfigError,
    is_name,
    normal_url,
    validate_setting,
)
from ryeos.remote.remotes_file import RemotesFile
from ryeos.remote.settings import Remotes, read_remotes
from ryeos.trust.keys import require_user_space
from ryeos.trust.signing_key import SigningKey


def _configure_name(parser: Arguments) -> None:
    parser.add_argument("name", metavar="NAME", help="the name of a remote")


# --- add, remove ----------------------------------------------------------------------------------


def _configure_add(parser: Arguments) -> None:
    add = parser.add_argument
    add("name", metavar="NAME", help="what you call it; default is the one that needs no name")
    add("url", metavar="URL", help="its address, https://...")
    add("--key-env", metavar="VARIABLE", help="holds your API key for it; else requests are signed")
    add("--node-id", metavar="ID", help="fp:..., as the node showed when it was first started")
    add("--timeout", metavar="S", type=float, help="seconds for one request (default: 300)")
    add("--role", metavar="ROLE", action="append", help="what it is for, like registry")
    add("--allow-insecure", action="store_true", help="send the API key over plain http, too")
    add("--replace", action="store_true", help="replace a remote of this name")


def _add(session: Session) -> int:
    arguments = session.arguments
    file = _file(session)
    if not is_name(arguments.name):
        raise UsageError(
            "NAME: expected letters, digits, . _ - (at most 64, a letter or digit first),"
            f" found {arguments.name[:80]!a}"
        )
    settings = _settings(session)
    file.add(arguments.name, settings, replace=arguments.replace)
    url = str(settings["url"])
    if is_unencrypted(url):
        session.output.warn(f"{url}: what is sent there can be read on the way; use https")
    variable = arguments.key_env
    if variable and not session.environ.get(variable):
        session.output.note(f"{variable} is not set: without it, requests are signed")
    if not arguments.node_id:
        session.output.note("the node that answers first is pinned; --node-id names it beforehand")
    envelope = {
        "status": "success",
        "name": arguments.name,
        "remote": settings,
        "path": str(file.path),
    }
    session.output.answer(envelope, f"added remote {arguments.name}: {url}")
    return 0


def _settings(session: Session) -> Mapping[str, object]:
    arguments = session.arguments
    try:
        url = normal_url(arguments.url)
    except ValueError as error:
        raise UsageError(
            f"URL: {error}, found {arguments.url[:200]!a}", hint="like https://node.example"
        ) from None
    said = {
        "url": url,
        "key_env": arguments.key_env,
        "node_id": arguments.node_id,
        "timeout": arguments.timeout,
        "roles": arguments.role,
        "allow_insecure": arguments.allow_insecure or None,
    }
    given = {key: value for key, value in said.items() if value is not None}
    for key, value in given.items():
        try:
            validate_setting("", key, value)
        except RemoteConfigError as error:  # not shown: some would type the API key itself
            raise UsageError(f"--{key.replace('_', '-')}: {error.problem}") from None
    return given


def _remove(session: Session) -> int:
    name = session.arguments.name
    file = _file(session)
    file.remove(name)
    if name in _remotes(session).names:
        session.output.note(f"a remote {name} is still configured: rye remote list")
    envelope = {"status": "success", "name": name, "path": str(file.path)}
    session.output.answer(envelope, f"removed remote {name}; its pin stays, see: rye remote pins")
    return 0


# --- list -----------------------------------------------------------------------------------------


def _list_remotes(session: Session) -> int:
    remotes = _remotes(session)
    pins = {(pin.name, pin.netloc): pin.fingerprint for pin in _pins(session).list()}
    rows = [_row(remotes, name, pins) for name in remotes.names]
    session.output.answer(
        {"status": "success", "remotes": rows},
        "\n".join(_remote_line(session, row) for row in rows),
    )
    if not rows and not session.output.as_json:
        session.output.note("no remotes; add one with: rye remote add NAME URL")
    return 0


def _row(remotes: Remotes, name: str, pins: Mapping[tuple[str, str], str]) -> dict[str, Any]:
    """What is known of a remote, usable or not."""
    row: dict[str, Any] = {"name": name}
    try:
        row["url"], row["source"] = remotes.address(name)
        remote = remotes.resolve(name)
    except LilluxError as error:
        return {**row, "usable": False, "problem": str(error), "hint": error.hint}
    pinned = pins.get((name, remote.netloc))
    return {
        **row,
        "usable": True,
        "auth": "bearer" if remote.api_key else "signed",
        "key_env": remote.key_env or None,
        "node_id": remote.node_id or None,
        "pinned": f"fp:{pinned}" if pinned else None,
        "timeout_s": remote.timeout_s,
        "roles": list(remote.roles),
    }


def _remote_line(session: Session, row: Mapping[str, Any]) -> str:
    head = f"{row['name']:<12}  {one_line(row.get('url', '-'), 200)}"
    if not row["usable"]:
        mark = session.output.paint("not used", "red")
        return f"{head}  {mark}: {one_line(row['problem'])}\n{'':14}hint: {row['hint']}"
    auth = f"API key of {row['key_env']}" if row["auth"] == "bearer" else "signed requests"
    node = row["pinned"] or (f"{row['node_id']} expected" if row["node_id"] else "not yet pinned")
    return f"{head}  {node}  {auth}  ({row['source']})"


# --- pins -----------------------------------------------------------------------------------------


def _list_pins(session: Session) -> int:
    pins = _pins(session).list()
    rows = [
        {
            "name": pin.name,
            "netloc": pin.netloc,
            "node_id": f"fp:{pin.fingerprint}",
            "path": str(pin.path),
        }
        for pin in pins
    ]
    lines = (
        f"{one_line(row['name']):<12}  {row['node_id']}  {one_line(row['netloc'])}" for row in rows
    )
    session.output.answer({"status": "success", "pins": rows}, "\n".join(lines))
    if not rows and not session.output.as_json:
        session.output.note("no node is pinned; the first answer of a node pins it")
    return 0


def _forget(session: Session) -> int:
    name = session.arguments.name
    removed = _pins(session).forget(name)
    if not removed:
        raise RyeError(
            f"remote {name[:80]!a}: no node is pinned under this name",
            code="ITEM_NOT_FOUND",
            hint="see those that are: rye remote pins",
        )
    envelope = {"status": "success", "name": name, "removed": [str(path) for path in removed]}
    session.output.answer(envelope, f"forgot the node of {name}; the next that answers is pinned")
    return 0


def _remotes(session: Session) -> Remotes:
    return read_remotes(session.rye.network_layers(CONFIG_PATH), session.environ)


def _pins(session: Session) -> Pins:
    return Pins(session.context.spaces.user.base)


def _file(session: Session) -> RemotesFile:
    user = require_user_space(session.context)

    def key() -> SigningKey | None:
        try:
            return session.rye.signing_key()
        except NoSigningKeyError:
            return None

    return RemotesFile(user, session.rye.verifier, key)


ADD = CommandSpec(
    _configure_add,
    _add,
    [
        "rye remote add default https://node.example --node-id fp:07097e6443239d36",
        "rye remote add gpu https://gpu.example --key-env GPU_API_KEY --timeout 600",
    ],
)
LIST = CommandSpec(no_arguments, _list_remotes, ["rye remote list", "rye remote list --json"])
REMOVE = CommandSpec(_configure_name, _remove, ["rye remote remove gpu"])
PINS = CommandSpec(no_arguments, _list_pins, ["rye remote pins"])
FORGET = CommandSpec(_configure_name, _forget, ["rye remote forget gpu"])
