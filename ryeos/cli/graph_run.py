"""``rye graph run``, ``step`` and ``resume``. ``rye run`` of a graph is the first of them."""

from typing import Any

from ryeos.cli import run
from ryeos.cli.plain_arguments import Arguments
from ryeos.cli.session import Command, Session
from ryeos.errors import UsageError
from ryeos.executor.model import Request
from ryeos.items import Kind, Reference, parse_reference


def _configure_step(parser: Arguments) -> None:
    add = parser.add_argument
    add("ref", metavar="REF", help="a graph")
    add("node", metavar="NODE", help="the node to work on")
    add("pairs", metavar="k=v", nargs="*", help="inputs, as for run")
    add("--params", metavar="JSON|@FILE|-", help="all inputs as one JSON object")
    add("--stdin", action="store_true", help="inputs as JSON on standard input")
    add("--state", metavar="JSON|@FILE", help="laid over the state before the step")
    add("--from", dest="run_id", metavar="ID", help="the run whose state it begins with")
    add("--timeout", metavar="S", type=float, help="seconds; 0 for no limit")


def _configure_resume(parser: Arguments) -> None:
    add = parser.add_argument
    add("run_id", metavar="ID", help="a run, or as much of its id as is needed")
    add("pairs", metavar="k=v", nargs="*", help="with --override-inputs: inputs, as for run")
    add("--override-inputs", action="store_true", help="lay inputs over those of the first run")
    add("--state", metavar="JSON|@FILE", help="laid over the state before it goes on")
    add("--force", action="store_true", help="also if the graph has changed since")
    add("--max-steps", metavar="N", type=int, help="how many further steps it may take")
    add("--timeout", metavar="S", type=float, help="seconds; 0 for no limit")


def _step(session: Session) -> int:
    arguments = session.arguments
    reference = session.rye.reference(arguments.ref)
    parameters = run.parameters(arguments) | {"node": arguments.node}
    if arguments.run_id:
        registry = session.rye.threads
        parameters |= {"resume_run_id": registry.find(arguments.run_id)}
    return _execute(session, reference, parameters | _state(session))


def _resume(session: Session) -> int:
    arguments, registry = session.arguments, session.rye.threads
    if arguments.pairs and not arguments.override_inputs:
        raise UsageError(
            "inputs: a resumed run has those of the first one",
            hint="lay others over them with --override-inputs",
        )
    thread = registry.get(registry.find(arguments.run_id))
    given: dict[str, Any] = run.pairs(arguments.pairs) | _state(session)
    given |= {"resume_run_id": thread.thread_id}
    if arguments.override_inputs:
        given["override_inputs"] = True
    if arguments.force:
        given["force"] = True
    if arguments.max_steps is not None:
        given["max_steps"] = arguments.max_steps
    return _execute(session, parse_reference(thread.item_id or thread.directive), given)


def _state(session: Session) -> dict[str, Any]:
    text = session.arguments.state
    return {"inject_state": run.json_object(text, "--state")} if text else {}


def _run(session: Session) -> int:
    _require_graph(session, session.rye.reference(session.arguments.ref))
    return run.run(session)


def _require_graph(session: Session, reference: Reference) -> None:
    """Refuse what is no graph: any other tool would be run, and take our words for its inputs."""
    from ryeos.executor.primitives import is_graph

    rye = session.rye
    kind = reference.kind or rye.resolver.resolve(reference).location.ref.kind
    if kind is not Kind.TOOL or not is_graph(rye.executor.build_chain(reference.id)):
        raise UsageError(f"{reference}: expected a graph", hint=f"run it with: rye run {reference}")


def _execute(session: Session, reference: Reference, parameters: dict[str, Any]) -> int:
    _require_graph(session, reference)
    request = Request(
        item_id=reference.id,
        parameters=parameters,
        timeout_s=run.timeout(session.arguments.timeout),
    )
    run.undo_ignored_child_signals()
    return run.execute(session, reference, request)


COMMANDS = {
    "graph run": Command(
        run.configure,
        _run,
        ["rye graph run mine/build", "rye graph run mine/build target=docs --async"],
    ),
    "graph step": Command(
        _configure_step,
        _step,
        ["rye graph step mine/build compile", "rye graph step mine/build test --from build-17"],
    ),
    "graph resume": Command(
        _configure_resume, _resume, ["rye graph resume build-17", "rye graph resume 9f2c --force"]
    ),
}
