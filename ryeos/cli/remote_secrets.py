"""``rye remote secrets`` and ``rye remote webhooks``.

A value is typed, or comes from standard input, a file or the environment: never from the command
line, which every user of the machine can read. None is ever shown.
"""

import json
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from lillux.errors import as_word
from lillux.foreign_text import one_line
from lillux.key_files import KeyNotFoundError, load_keypair
from ryeos.app.command_line import Action, Arguments, CommandSpec
from ryeos.cli import run
from ryeos.cli.remote_run import linked, remote_environment, take_remote, take_team, team_of
from ryeos.cli.session import Session
from ryeos.items.errors import NoSigningKeyError, UsageError, failed_run_status
from ryeos.remote.envelopes import FOR_EXECUTION, seal_secrets
from ryeos.remote.link import RemoteEnvironment, open_node, remotes_of
from ryeos.remote.local_secrets import LocalSecrets, read_env_file
from ryeos.remote.run_answers import verified_item
from ryeos.remote.secret_names import MAX_VALUE_BYTES, injectable
from ryeos.remote.secrets import NodeVault, secret_missing_error
from ryeos.remote.webhooks import DeliveryCredentials, WebhookClient, deliver

_LOCAL = "your own store"


class Keeper(Protocol):
    """Where secrets are kept: a node, or the user's own store."""

    def set(self, values: Mapping[str, str]) -> object:
        """Add secrets, or replace them."""

    def names(self) -> tuple[str, ...]:
        """The names, sorted."""

    def delete(self, name: str) -> object:
        """Remove one. Without it: False, or RyeError `ITEM_NOT_FOUND`."""


def _configure_secrets(parser: Arguments) -> None:
    add = parser.add_argument
    add("words", metavar="NAME|FILE", nargs="*", help="NAME; for import a file of NAME=VALUE lines")
    add("--stdin", action="store_true", help="set, seal: the value is standard input")
    add("--env", action="store_true", help="import: the words are variables of your environment")
    add("--local", action="store_true", help="in your own store: sent along with each run")
    take_team(parser)
    take_remote(parser)


def _require_one_keeper(session: Session) -> None:
    arguments = session.arguments
    if arguments.local and (arguments.remote or arguments.team):
        raise UsageError("--local, --remote or --team: expected one of them")


def _set(session: Session, name: str) -> int:
    _require_one_keeper(session)
    values = {name: _value(session, name)}
    with _kept(session) as (keeper, where):
        keeper.set(values)
    _show_stored(session, (name,), (), where)
    return 0


def _seal(session: Session, name: str) -> int:
    """Print the envelope of a secret, for requests that another user makes."""
    if session.arguments.local:
        raise UsageError("--local: a secret is sealed to a node, expected none or --remote")
    value = _value(session, name)
    with remote_environment(session) as around:
        remote = remotes_of(around).resolve(session.arguments.remote)
        sealed = NodeVault(open_node(around, remote, owner=team_of(session)), remote.url).seal(
            name, value
        )
    envelope = {"status": "success", "secret": name, "remote": remote.name, "envelope": sealed}
    session.output.answer(envelope, json.dumps(sealed))
    return 0


def _import(session: Session, *words: str) -> int:
    _require_one_keeper(session)
    values, skipped = injectable(_imported_secrets(session, words))
    for name in skipped:
        session.output.warn(f"{name}: reserved, so it is left out")
    with _kept(session) as (keeper, where):
        keeper.set(values)
    _show_stored(session, tuple(values), skipped, where)
    return 0


def _list_secrets(session: Session) -> int:
    with _kept(session) as (keeper, where):
        names = keeper.names()
    envelope = {"status": "success", "secrets": list(names), "kept_by": where}
    session.output.answer(envelope, "\n".join(names))
    if not names and not session.output.as_json:
        session.output.note(f"no secrets in {where}")
    return 0


def _delete_secret(session: Session, name: str) -> int:
    with _kept(session) as (keeper, where):
        if keeper.delete(name) is False:
            raise secret_missing_error(name, where, flag=" --local")
    envelope = {"status": "success", "deleted": name, "kept_by": where}
    session.output.answer(envelope, f"deleted {name} from {where}")
    return 0


_NEVER_TYPED = "a value is never typed on the command line, where other users see it"
_SECRET_ACTIONS = {
    "set": Action(_set, "NAME", about_more=_NEVER_TYPED),
    "seal": Action(_seal, "NAME", about_more=_NEVER_TYPED),
    "import": Action(_import, "FILE|NAME..."),
    "list": Action(_list_secrets),
    "delete": Action(_delete_secret, "NAME"),
}


@contextmanager
def _kept(session: Session) -> Iterator[tuple[Keeper, str]]:
    """What keeps the secrets, and what to call it."""
    _require_one_keeper(session)
    if session.arguments.local:
        yield local_secrets(session), _LOCAL
        return
    with remote_environment(session) as around:
        remote = remotes_of(around).resolve(session.arguments.remote)
        yield (
            NodeVault(open_node(around, remote, owner=team_of(session)), remote.url),
            f"remote {remote.name}",
        )


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

    return getpass(f"value of {name}: ", stream=sys.stderr)


def _imported_secrets(session: Session, words: tuple[str, ...]) -> Mapping[str, str]:
    if not session.arguments.env:
        if len(words) != 1:
            raise UsageError(f"rye remote secrets import: expected one FILE, found {len(words)}")
        try:
            return read_env_file(Path(words[0]))
        except FileNotFoundError:
            command = f"rye remote secrets import {as_word(words[0])} --env"
            hint = f"for variables of your environment: {command}"
            raise UsageError(f"{words[0]}: expected a file, found none", hint=hint) from None
    missing = [name for name in words if not session.environ.get(name)]
    if missing or not words:
        found = f"{', '.join(missing)}: not set" if missing else "found no name"
        raise UsageError(f"--env: expected names of variables that are set, {found}")
    return {name: session.environ[name] for name in words}


# --- remote webhooks ------------------------------------------------------------------------------
# ``rye remote webhooks list|create|delete|trigger``: runs that others may start with a secret.

SECRET_VARIABLE = "WEBHOOK_SECRET"  # noqa: S105 - a name, no secret


def _configure_webhooks(parser: Arguments) -> None:
    add = parser.add_argument
    add(
        "words",
        metavar="REF|HOOK",
        nargs="*",
        help="create REF, delete HOOK, trigger HOOK [k=v...]",
    )
    add("--description", metavar="TEXT", help="create: what it is for")
    add("--vault-keys", metavar="NAME,...", help="create: secrets of the node that its runs see")
    add("--with-secrets", action="store_true", help="create: its runs see your own secrets of now")
    add("--params", metavar="JSON|@FILE|-", help="trigger: all parameters as one JSON object")
    add("--delivery-id", metavar="ID", help="trigger: the same again is not run again")
    take_team(parser)
    take_remote(parser)


def _list_webhooks(session: Session) -> int:
    with remote_environment(session) as around:
        rows = _hooks(session, around).list()
    session.output.answer(
        {"status": "success", "bindings": list(rows)}, "\n".join(_webhook_line(row) for row in rows)
    )
    if not rows and not session.output.as_json:
        session.output.note("no webhooks; make one with: rye remote webhooks create REF")
    return 0


def _webhook_line(row: Mapping[str, Any]) -> str:
    state = "revoked" if row.get("revoked_at") else "active"
    about = f"  ({one_line(str(row['description']), 60)})" if row.get("description") else ""
    item, project = (one_line(str(row.get(key))) for key in ("item_id", "project_path"))
    return f"{one_line(str(row.get('hook_id')))}  {state:<7}  {item} of {project}{about}"


def _create(session: Session, typed: str) -> int:
    """The item is verified here first, as it would be for a run."""
    arguments = session.arguments
    item_ref, _ = verified_item(session.rye, session.rye.reference(typed))
    names = tuple(name.strip() for name in (arguments.vault_keys or "").split(",") if name.strip())
    with linked(session) as link:
        envelope = None
        if arguments.with_secrets:
            values = local_secrets(session).values()
            box_public = link.node.verify().box_public
            envelope = seal_secrets(
                values, box_public, user=link.node.sealed_for, purpose=FOR_EXECUTION
            )
        made = WebhookClient(link.node).create(
            item_ref,
            link.project_path,
            description=arguments.description or "",
            vault_keys=names,
            secret_envelope=envelope,
        )
    session.output.note("its secret is shown this once; who has it can run the item")
    text = f"{one_line(made['hook_id'])}\n{one_line(made['hmac_secret'])}"
    session.output.answer({"status": "success", **made}, text)
    return 0


def _delete_webhook(session: Session, hook_id: str) -> int:
    with remote_environment(session) as around:
        _hooks(session, around).revoke(hook_id)
    session.output.answer({"status": "success", "revoked": hook_id}, f"revoked {hook_id}")
    return 0


def _trigger(session: Session, hook_id: str, *pairs: str) -> int:
    arguments = session.arguments
    given = run.json_object(arguments.params, "--params") if arguments.params else {}
    parameters = given | run.pairs(pairs)
    secret = session.environ.get(SECRET_VARIABLE, "")
    if not secret:
        raise UsageError(
            f"{SECRET_VARIABLE}: expected the secret of the webhook in this variable, found none"
        )
    delivery_id = arguments.delivery_id or os.urandom(16).hex()
    credentials = DeliveryCredentials(secret, delivery_id)
    with remote_environment(session) as around:
        remote = remotes_of(around).resolve(arguments.remote)
        node = open_node(around, remote, credentials)
        answer = deliver(node, hook_id, parameters, delivery_id=delivery_id)
    was_run = "detail" not in answer
    failed = answer.get("status") == "error"
    envelope: dict[str, Any] = {
        "status": "error" if failed else "success",
        "triggered": was_run,
        "hook_id": hook_id,
        "delivery_id": delivery_id,
        "result": answer,
    }
    words = f"delivered {delivery_id}" if was_run else f"{delivery_id} was delivered before"
    if failed:
        envelope |= _failure(answer)
        words = f"{words}; the run failed"
    thread_id = one_line(str(answer.get("thread_id", "")))
    session.output.answer(envelope, f"{words}: {thread_id}" if thread_id else words)
    if failed and not session.output.as_json:
        session.output.note(f"error: {one_line(envelope['error'])}")
    return failed_run_status(envelope["code"]) if failed else 0


def _failure(answer: Mapping[str, Any]) -> dict[str, str]:
    """What the envelope of a run that failed says of it, at the top of ours."""
    result = answer.get("result")
    found = result if isinstance(result, Mapping) else answer
    error, code = found.get("error") or "the run failed", found.get("code") or "EXECUTION_FAILED"
    return {"error": str(error), "code": str(code)}


_WEBHOOK_ACTIONS = {
    "list": Action(_list_webhooks),
    "create": Action(_create, "REF"),
    "delete": Action(_delete_webhook, "HOOK"),
    "trigger": Action(_trigger, "HOOK", "k=v..."),
}


def _hooks(session: Session, around: RemoteEnvironment) -> WebhookClient:
    remote = remotes_of(around).resolve(session.arguments.remote)
    return WebhookClient(open_node(around, remote, owner=team_of(session)))


SECRETS = CommandSpec(
    _configure_secrets,
    _SECRET_ACTIONS,
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
WEBHOOKS = CommandSpec(
    _configure_webhooks,
    _WEBHOOK_ACTIONS,
    [
        "rye remote webhooks create tool:mine/deploy --vault-keys DEPLOY_TOKEN",
        "rye remote webhooks list",
        "WEBHOOK_SECRET=whsec_... rye remote webhooks trigger wh_0a1b tag=v1",
        "rye remote webhooks delete wh_0a1b",
    ],
)
