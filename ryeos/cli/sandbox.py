"""``rye sandbox``: show the rights of a tool, or propose them."""

from pathlib import Path

from lillux.values import replace
from ryeos.app.suggest import block, suggest
from ryeos.cli.arguments import Arguments
from ryeos.cli.chain import rights_text
from ryeos.cli.run import parameters, timeout
from ryeos.cli.session import CommandSpec, Session
from ryeos.items.errors import UsageError
from ryeos.items.refs import Kind, Reference
from ryeos.run.model import ExecutionRequest


def _configure_show(parser: Arguments) -> None:
    parser.add_argument("ref", metavar="REF", help="a tool")


def _show(session: Session) -> int:
    reference = _tool(session)
    rights = session.rye.executor.rights(reference.id)
    described = rights.describe()
    envelope = {"status": "success", "item_id": reference.id, "sandbox": described}
    session.output.answer(envelope, "\n".join(rights_text(described)))
    return 0


def _configure_suggest(parser: Arguments) -> None:
    add = parser.add_argument
    add("ref", metavar="TOOL", help="a signed tool; it is run once, with all rights that you have")
    add("pairs", metavar="k=v", nargs="*", help="its parameters, as of: rye run")
    add("--params", metavar="JSON|@FILE|-", help="all parameters as one JSON object")
    add("--stdin", action="store_true", help="parameters as JSON on standard input")
    add("--timeout", metavar="S", type=float, help="seconds; 0 for no limit")


def _suggest(session: Session) -> int:
    arguments = session.arguments
    reference = _tool(session)
    request = ExecutionRequest(
        item_id=reference.id,
        parameters=parameters(arguments, lambda: session.rye.schema_of(reference)),
        timeout_s=timeout(arguments.timeout),
    )
    found = suggest(session.rye, reference, request)
    path = session.rye.executor.build_chain(reference.id).tool.path or Path("x.yaml")
    text = block(found.rights, path.suffix)
    envelope = {
        "status": "success",
        "item_id": reference.id,
        "sandbox": found.rights.describe(),
        "block": text,
        "run": found.answer.envelope["status"],
        "notes": list(found.notes),
    }
    session.output.answer(envelope, text)
    for note in found.notes:
        session.output.warn(note)
    if found.answer.exit_status:
        error = found.answer.envelope.get("error")
        session.output.warn(f"the run failed, so something may be missing: {error}")
    session.output.note(f"next: write it into {path}, then: rye sign tool:{reference.id}")
    return 0


def _tool(session: Session) -> Reference:
    reference = session.rye.reference(session.arguments.ref)
    if reference.kind not in (None, Kind.TOOL):
        raise UsageError(f"{reference}: only tools have rights")
    chain = session.rye.executor.build_chain(reference.id)
    return replace(reference, kind=Kind.TOOL, id=chain.tool.item_id)


COMMANDS = {
    "sandbox show": CommandSpec(_configure_show, _show, ["rye sandbox show rye/web/fetch"]),
    "sandbox suggest": CommandSpec(
        _configure_suggest, _suggest, ["rye sandbox suggest mine/report month=2026-10"]
    ),
}
