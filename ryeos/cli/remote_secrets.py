"""``rye remote secrets set|seal|import|list|delete``: what tools on a node get as variables.

A value is typed, or comes from standard input, a file or the environment: never from the command
line, which every user of the machine can read. None is ever shown.
"""

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from lillux.signing import KeyNotFoundError, load_keypair
from ryeos.cli.plain_arguments import Arguments
from ryeos.cli.remote_words import surroundings, take_remote
from ryeos.cli.session import Command, Session
from ryeos.errors import NoSigningKeyError, UsageError
from ryeos.remote.local_secrets import LocalSecrets, read_env_file
from ryeos.remote.opening import open_node, remotes_of
from ryeos.remote.secret_names import MAX_VALUE_BYTES, injectable
from ryeos.remote.vault import NodeVault, SecretMissingError

ACTIONS = ("set", "seal", "import", "list", "delete")
_LOCAL = "your own store"


class Keeper(Protocol):
    """Where secrets are kept: a node, or the user's own store."""

    def set(self, values: Mapping[str, str]) -> object:
        """Add secrets, or replace them."""

    def names(self) -> tuple[str, ...]:
        """The names, sorted."""

    def delete(self, name: str) -> object:
        """Remove one; False, or a SecretMissingError, if there is none."""


def _configure(parser: Arguments) -> None:
    add = parser.add_argument
    add("action", metavar="ACTION", choices=ACTIONS, help=", ".join(ACTIONS))
    add("words", metavar="NAME|FILE", nargs="*", help="NAME; for import a file of NAME=VALUE lines")
    add("--stdin", action="store_true", help="set, seal: the value is standard input")
    add("--env", action="store_true", help="import: the words are variables of your environment")
    add("--local", action="store_true", help="in your own store: sent along with each run")
    take_remote(parser)


def _secrets(session: Session) -> int:
    arguments = session.arguments
    if arguments.local and arguments.remote:
        raise UsageError("--local, --remote: expected one of them")
    return _DO[arguments.action](session)


def _set(session: Session) -> int:
    name = _one_word(session, "NAME")
    values = {name: _value(session, name)}
    with _kept(session) as (keeper, where):
        keeper.set(values)
    _show_stored(session, (name,), (), where)
    return 0


def _seal(session: Session) -> int:
    """Print the envelope of a secret, for requests that somebody else makes."""
    if session.arguments.local:
        raise UsageError("--local: a secret is sealed to a node, expected none or --remote")
    name = _one_word(session, "NAME")
    value = _value(session, name)
    with surroundings(session) as around:
        remote = remotes_of(around).resolve(session.arguments.remote)
        sealed = NodeVault(open_node(around, remote), remote.url).seal(name, value)
    envelope = {"status": "success", "secret": name, "remote": remote.name, "envelope": sealed}
    session.output.answer(envelope, json.dumps(sealed))
    return 0


def _import(session: Session) -> int:
    values, skipped = injectable(_imported(session))
    for name in skipped:
        session.output.warn(f"{name}: reserved, so it is left out")
    with _kept(session) as (keeper, where):
        keeper.set(values)
    _show_stored(session, tuple(values), skipped, where)
    return 0


def _list(session: Session) -> int:
    _no_words(session)
    with _kept(session) as (keeper, where):
        names = keeper.names()
    envelope = {"status": "success", "secrets": list(names), "kept_by": where}
    session.output.answer(envelope, "\n".join(names))
    if not names and not session.output.as_json:
        session.output.note(f"no secrets in {where}")
    return 0


def _delete(session: Session) -> int:
    name = _one_word(session, "NAME")
    with _kept(session) as (keeper, where):
        if keeper.delete(name) is False:
            raise SecretMissingError(name, where)
    envelope = {"status": "success", "deleted": name, "kept_by": where}
    session.output.answer(envelope, f"deleted {name} from {where}")
    return 0


_DO: Mapping[str, Callable[[Session], int]] = {
    "set": _set,
    "seal": _seal,
    "import": _import,
    "list": _list,
    "delete": _delete,
}


@contextmanager
def _kept(session: Session) -> Iterator[tuple[Keeper, str]]:
    """What keeps the secrets, and what to call it."""
    if session.arguments.local:
        yield local_secrets(session), _LOCAL
        return
    with surroundings(session) as around:
        remote = remotes_of(around).resolve(session.arguments.remote)
        yield NodeVault(open_node(around, remote), remote.url), f"remote {remote.name}"


def local_secrets(session: Session) -> LocalSecrets:
    """The user's own store. Raises NoSigningKeyError: it opens with the signing key."""
    directory = session.context.key_directory
    try:
        private_pem = load_keypair(directory).private_pem
    except KeyNotFoundError:
        raise NoSigningKeyError(str(directory)) from None
    return LocalSecrets(session.context.spaces.user.base, private_pem)


def _show_stored(
    session: Session, names: tuple[str, ...], skipped: tuple[str, ...], where: str
) -> None:
    envelope = {
        "status": "success",
        "stored": list(names),
        "count": len(names),
        "skipped": list(skipped),
        "kept_by": where,
    }
    session.output.answer(envelope, f"{where} keeps {', '.join(names) or 'nothing new'}")


# --- where values come from -----------------------------------------------------------------------


def _value(session: Session, name: str) -> str:
    if session.arguments.stdin:
        data = sys.stdin.buffer.read(MAX_VALUE_BYTES + 2)
        try:
            return data.decode("utf-8").removesuffix("\n").removesuffix("\r")
        except UnicodeDecodeError:
            raise UsageError("standard input: expected UTF-8") from None
    if session.arguments.no_input or not sys.stdin.isatty():
        raise UsageError(
            "expected a terminal to type the value at, or --stdin",
            hint=f"rye remote secrets {session.arguments.action} {name} --stdin < FILE",
        )
    from getpass import getpass

    return getpass(f"value of {name}: ")


def _imported(session: Session) -> Mapping[str, str]:
    words = session.arguments.words
    if not session.arguments.env:
        path = _one_word(session, "FILE")
        try:
            return read_env_file(Path(path))
        except FileNotFoundError:
            hint = f"for variables of your environment: rye remote secrets import {path} --env"
            raise UsageError(f"{path}: expected a file, found none", hint=hint) from None
    missing = [name for name in words if not session.environ.get(name)]
    if missing or not words:
        found = f"{', '.join(missing)}: not set" if missing else "found no name"
        raise UsageError(f"--env: expected names of variables that are set, {found}")
    return {name: session.environ[name] for name in words}


def _one_word(session: Session, what: str) -> str:
    words = session.arguments.words
    if len(words) != 1:
        hint = ""
        if session.arguments.action in ("set", "seal") and words:
            hint = "a value is never typed on the command line, where other users see it"
        action = f"rye remote secrets {session.arguments.action}"
        raise UsageError(f"{action}: expected one {what}, found {len(words)}", hint=hint)
    return str(words[0])


def _no_words(session: Session) -> None:
    if session.arguments.words:
        raise UsageError("rye remote secrets list: expected nothing behind it")


COMMANDS = {
    "remote secrets": Command(
        _configure,
        _secrets,
        [
            "rye remote secrets set OPENAI_API_KEY",
            "rye remote secrets set TOKEN --stdin --remote gpu < token.txt",
            "rye remote secrets seal TOKEN --stdin < token.txt > envelope.json",
            "rye remote secrets import .env",
            "rye remote secrets import OPENAI_API_KEY --env",
            "rye remote secrets list --local",
            "rye remote secrets delete TOKEN",
        ],
    )
}
