"""``rye lock``: show, write anew and remove what pins a tool's chain."""

import json

from lillux.lockfile import dump_lockfile
from ryeos.cli.plain_arguments import Arguments
from ryeos.cli.session import Command, Session
from ryeos.errors import ItemNotFoundError, NoProjectError
from ryeos.executor.lockfiles import version_of


def _configure(parser: Arguments) -> None:
    parser.add_argument("ref", metavar="REF", help="a tool")


def _show(session: Session) -> int:
    item_id, version = _tool(session)
    found = session.rye.executor.lockfiles.get_lockfile(item_id, version)
    if found is None:
        raise ItemNotFoundError(f"lockfile of {item_id}@{version}", _searched(session))
    text = dump_lockfile(found.lockfile).decode()
    envelope = {
        "status": "success",
        "item_id": item_id,
        "path": str(found.path),
        "lockfile": json.loads(text),
    }
    session.output.note(str(found.path))
    session.output.answer(envelope, text)
    return 0


def _update(session: Session) -> int:
    reference = session.rye.reference(session.arguments.ref)
    path = session.rye.executor.lock(reference.id)
    if path is None:
        raise NoProjectError("no .ai folder to keep the lockfile in")
    item_id, _ = _tool(session)
    envelope = {"status": "success", "item_id": item_id, "path": str(path)}
    session.output.answer(envelope, f"wrote {path}")
    return 0


def _delete(session: Session) -> int:
    item_id, version = _tool(session)
    path = session.rye.executor.lockfiles.delete_lockfile(item_id, version)
    if path is None:
        raise ItemNotFoundError(f"lockfile of {item_id}@{version}", _searched(session))
    envelope = {"status": "success", "item_id": item_id, "path": str(path)}
    session.output.answer(envelope, f"removed {path}")
    return 0


def _tool(session: Session) -> tuple[str, str]:
    reference = session.rye.reference(session.arguments.ref)
    tool = session.rye.executor.build_chain(reference.id).tool
    return tool.item_id, version_of(tool)


def _searched(session: Session) -> tuple[str, ...]:
    return session.rye.resolver.searched()


COMMANDS = {
    "lock show": Command(_configure, _show, ["rye lock show mine/hello"]),
    "lock update": Command(_configure, _update, ["rye lock update mine/hello"]),
    "lock delete": Command(_configure, _delete, ["rye lock delete mine/hello"]),
}
