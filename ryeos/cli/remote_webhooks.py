"""``rye remote webhooks list|create|delete|trigger``: runs that others may start with a secret."""

import os
from collections.abc import Callable, Mapping
from typing import Any

from ryeos.cli import run
from ryeos.cli.output import one_line
from ryeos.cli.plain_arguments import Arguments
from ryeos.cli.remote_secrets import local_secrets
from ryeos.cli.remote_words import linked, surroundings, take_remote
from ryeos.cli.session import Command, Session
from ryeos.envelope import EXIT_BY_CODE, TOOL_FAILED
from ryeos.errors import UsageError
from ryeos.remote.envelopes import seal_secrets
from ryeos.remote.opening import Surroundings, open_node, remotes_of
from ryeos.remote.running import verified_reference
from ryeos.remote.webhooks import DeliveryCredentials, Webhooks, deliver

ACTIONS = ("list", "create", "delete", "trigger")
SECRET_VARIABLE = "WEBHOOK_SECRET"  # noqa: S105 - a name, no secret


def _configure(parser: Arguments) -> None:
    add = parser.add_argument
    add("action", metavar="ACTION", choices=ACTIONS, help=", ".join(ACTIONS))
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
    take_remote(parser)


def _webhooks(session: Session) -> int:
    return _DO[session.arguments.action](session)


def _list(session: Session) -> int:
    _words(session, 0, "nothing behind it")
    with surroundings(session) as around:
        rows = _hooks(session, around).list()
    session.output.answer(
        {"status": "success", "bindings": list(rows)}, "\n".join(_line(row) for row in rows)
    )
    if not rows and not session.output.as_json:
        session.output.note("no webhooks; make one with: rye remote webhooks create REF")
    return 0


def _line(row: Mapping[str, Any]) -> str:
    state = "revoked" if row.get("revoked_at") else "active"
    about = f"  ({one_line(str(row['description']), 60)})" if row.get("description") else ""
    item, project = (one_line(str(row.get(key))) for key in ("item_id", "project_path"))
    return f"{one_line(str(row.get('hook_id')))}  {state:<7}  {item} of {project}{about}"


def _create(session: Session) -> int:
    """The item is verified here first, as it would be for a run."""
    arguments = session.arguments
    (typed,) = _words(session, 1, "one REF")
    item_ref = verified_reference(session.rye, session.rye.reference(typed))
    names = tuple(name.strip() for name in (arguments.vault_keys or "").split(",") if name.strip())
    with linked(session) as link:
        envelope = None
        if arguments.with_secrets:
            values = local_secrets(session).values()
            envelope = seal_secrets(values, link.node.verify().box_public)
        made = Webhooks(link.node).create(
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


def _delete(session: Session) -> int:
    (hook_id,) = _words(session, 1, "one HOOK")
    with surroundings(session) as around:
        _hooks(session, around).revoke(hook_id)
    session.output.answer({"status": "success", "revoked": hook_id}, f"revoked {hook_id}")
    return 0


def _trigger(session: Session) -> int:
    arguments = session.arguments
    if not arguments.words:
        raise UsageError("rye remote webhooks trigger: expected a HOOK, found none")
    hook_id, *pairs = arguments.words
    given = run.json_object(arguments.params, "--params") if arguments.params else {}
    parameters = given | run.pairs(pairs)
    secret = session.environ.get(SECRET_VARIABLE, "")
    if not secret:
        raise UsageError(
            f"{SECRET_VARIABLE}: expected the secret of the webhook in this variable, found none"
        )
    delivery_id = arguments.delivery_id or os.urandom(16).hex()
    credentials = DeliveryCredentials(secret, delivery_id)
    with surroundings(session) as around:
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
    return EXIT_BY_CODE.get(envelope["code"], TOOL_FAILED) if failed else 0


def _failure(answer: Mapping[str, Any]) -> dict[str, str]:
    """What the envelope of a run that failed says of it, at the top of ours."""
    result = answer.get("result")
    found = result if isinstance(result, Mapping) else answer
    error, code = found.get("error") or "the run failed", found.get("code") or "EXECUTION_FAILED"
    return {"error": str(error), "code": str(code)}


_DO: Mapping[str, Callable[[Session], int]] = {
    "list": _list,
    "create": _create,
    "delete": _delete,
    "trigger": _trigger,
}


def _hooks(session: Session, around: Surroundings) -> Webhooks:
    remote = remotes_of(around).resolve(session.arguments.remote)
    return Webhooks(open_node(around, remote))


def _words(session: Session, count: int, what: str) -> tuple[str, ...]:
    words = session.arguments.words
    if len(words) != count:
        action = f"rye remote webhooks {session.arguments.action}"
        raise UsageError(f"{action}: expected {what}, found {len(words)}")
    return tuple(words)


COMMANDS = {
    "remote webhooks": Command(
        _configure,
        _webhooks,
        [
            "rye remote webhooks create tool:mine/deploy --vault-keys DEPLOY_TOKEN",
            "rye remote webhooks list",
            "WEBHOOK_SECRET=whsec_... rye remote webhooks trigger wh_0a1b tag=v1",
            "rye remote webhooks delete wh_0a1b",
        ],
    )
}
