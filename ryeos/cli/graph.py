"""``rye graph run|validate|show|step|resume``."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lillux.errors import LilluxError
from lillux.files import read_bytes
from ryeos.app.output import one_line
from ryeos.cli import run
from ryeos.cli.arguments import Arguments
from ryeos.cli.session import CommandSpec, Session
from ryeos.graph.model import Graph, edges_of, error_target
from ryeos.graph.problems import GraphInvalidError
from ryeos.graph.reading import GraphReading, read_graph
from ryeos.items.errors import InvalidRefError, UsageError
from ryeos.items.headers import parse_header
from ryeos.items.refs import Kind, Reference, parse_reference
from ryeos.run.model import ExecutionRequest
from ryeos.trust.signature import MAX_ITEM_BYTES

if TYPE_CHECKING:
    from ryeos.graph.pictures import NodeState


# --- graph run ------------------------------------------------------------------------------------


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
    add(
        "--state",
        metavar="JSON|@FILE",
        help="values that replace those of the state before the run resumes",
    )
    add("--force", action="store_true", help="also if the graph has changed since")
    add("--max-steps", metavar="N", type=int, help="how many further steps it may take")
    add("--timeout", metavar="S", type=float, help="seconds; 0 for no limit")


def _step(session: Session) -> int:
    arguments = session.arguments
    reference = session.rye.reference(arguments.ref)
    rye = session.rye
    given = run.parameters(arguments, lambda: rye.schema_of(reference))
    parameters = given | {"node": arguments.node}
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
    reference = parse_reference(thread.item_id or thread.directive)
    typed = run.values_of(arguments.pairs, lambda: session.rye.schema_of(reference))
    given: dict[str, Any] = typed | _state(session) | {"resume_run_id": thread.thread_id}
    if arguments.override_inputs:
        given["override_inputs"] = True
    if arguments.force:
        given["force"] = True
    if arguments.max_steps is not None:
        given["max_steps"] = arguments.max_steps
    return _execute(session, reference, given)


def _state(session: Session) -> dict[str, Any]:
    text = session.arguments.state
    return {"inject_state": run.json_object(text, "--state")} if text else {}


def _run(session: Session) -> int:
    _require_graph(session, session.rye.reference(session.arguments.ref))
    return run.run(session)


def _require_graph(session: Session, reference: Reference) -> None:
    """Refuse what is no graph: any other tool would be run, and take our words for its inputs."""
    from ryeos.run.primitives import is_graph

    rye = session.rye
    kind = reference.kind or rye.resolver.resolve(reference).location.ref.kind
    if kind is not Kind.TOOL or not is_graph(rye.executor.build_chain(reference.id)):
        raise UsageError(f"{reference}: expected a graph", hint=f"run it with: rye run {reference}")


def _execute(session: Session, reference: Reference, parameters: dict[str, Any]) -> int:
    _require_graph(session, reference)
    request = ExecutionRequest(
        item_id=reference.id,
        parameters=parameters,
        timeout_s=run.timeout(session.arguments.timeout),
    )
    run.undo_ignored_child_signals()
    return run.execute(session, reference, request)


# --- graph show -----------------------------------------------------------------------------------
# ``rye graph validate`` and ``show``: a graph file, and how far a run of it is.

_SUFFIXES = (".yaml", ".yml")
_NAME_WIDTH = 20


def _configure_validate(parser: Arguments) -> None:
    parser.add_argument("ref", metavar="REF|PATH", help="a graph, or a file that is to be one")


def _configure_show(parser: Arguments) -> None:
    add = parser.add_argument
    add("ref", metavar="REF|PATH", help="a graph, a file that is to be one, or the id of a run")
    add("--run", metavar="ID", help="colour the nodes as this run has left them")
    add("--mermaid", action="store_true", help="as Mermaid text")
    add("--dot", action="store_true", help="as Graphviz text")
    add("--svg", action="store_true", help="as an SVG picture")


def _validate(session: Session) -> int:
    where, reading = _read(session, session.arguments.ref)
    reading = reading.before_signing
    envelope: dict[str, Any] = {
        "status": "error" if reading.errors else "success",
        "graph": where,
        "node_count": len(reading.graph.nodes) if reading.graph else 0,
        "errors": [problem.described() for problem in reading.errors],
        "warnings": [problem.described() for problem in reading.warnings],
    }
    if reading.errors:
        count = len(reading.errors)
        envelope |= {"error": f"{where}: {count} error{'s' * (count > 1)}"}
        envelope |= {"code": "VALIDATION_FAILED"}
    session.output.answer(envelope, "\n".join(_verdict(session, where, reading)))
    return 1 if reading.errors else 0


def _verdict(session: Session, where: str, reading: GraphReading) -> Iterator[str]:
    paint = session.output.paint
    for problem in reading.errors:
        yield f"{paint('error', 'red')}    {one_line(str(problem))}"
    for problem in reading.warnings:
        yield f"{paint('warning', 'yellow')}  {one_line(str(problem))}"
    if reading.graph and not reading.errors:
        yield f"{where}: valid, {len(reading.graph.nodes)} nodes"


def _show(session: Session) -> int:
    arguments = session.arguments
    forms = [name for name in ("mermaid", "dot", "svg") if getattr(arguments, name)]
    if len(forms) > 1:
        raise UsageError(f"--{', --'.join(forms)}: expected one of them")
    ref, run_id = arguments.ref, arguments.run
    if not run_id and _is_run(session, ref):
        ref, run_id = _graph_of(session, ref), ref
    where, reading = _read(session, ref)
    if reading.graph is None:
        raise GraphInvalidError(where, reading.errors)
    states = _states(session, run_id) if run_id else None
    envelope: dict[str, Any] = {
        "status": "success",
        "graph": where,
        "start": reading.graph.start,
        "nodes": [dict(node) for node in _nodes(reading.graph, states)],
    }
    if forms:
        text = _draw(forms[0], reading.graph, states)
        envelope[forms[0]] = text
    else:
        text = "\n".join(_lines(reading.graph, states))
    session.output.answer(envelope, text)
    return 0


def _draw(form: str, graph: Graph, states: "Mapping[str, NodeState] | None") -> str:
    from ryeos.graph.pictures import picture_of

    picture = picture_of(graph, states)
    match form:
        case "mermaid":
            from ryeos.graph.pictures import mermaid

            return mermaid(picture)
        case "dot":
            from ryeos.graph.pictures import dot

            return dot(picture)
        case _:
            from ryeos.graph.svg import svg

            return svg(picture)


def _nodes(
    graph: Graph, states: "Mapping[str, NodeState] | None"
) -> Iterator[Mapping[str, object]]:
    for name, node in graph.nodes.items():
        described: dict[str, object] = {
            "node": name,
            "type": node.type,
            "next": [edge.to for edge in edges_of(node)],
        }
        target = error_target(node)
        described |= {"on_error": target} if target else {}
        described |= {"state": str(states.get(name, "pending"))} if states is not None else {}
        yield described


def _lines(graph: Graph, states: "Mapping[str, NodeState] | None") -> Iterator[str]:
    for described in _nodes(graph, states):
        name = str(described["node"])
        mark = ">" if name == graph.start else " "
        nexts = described["next"]
        leads = ", ".join(nexts) if isinstance(nexts, list) and nexts else ""
        line = f"{mark} {one_line(name, _NAME_WIDTH):<{_NAME_WIDTH}}  {described['type']:<8}"
        line += f"  -> {one_line(leads)}" if leads else ""
        line += f"  on error -> {described['on_error']}" if "on_error" in described else ""
        yield line + (f"  [{described['state']}]" if "state" in described else "")


def _read(session: Session, text: str) -> tuple[str, GraphReading]:
    """What it is called, and what is in it. An unsigned file may be looked at, not run."""
    path = Path(text)
    if path.suffix in _SUFFIXES and path.is_file():
        data = read_bytes(path, MAX_ITEM_BYTES).decode("utf-8", "replace")
        return text, read_graph(parse_header(path.suffix, data, text), _id_of(session, path))
    reference = session.rye.reference(text)
    if reference.kind not in (None, Kind.TOOL):
        raise UsageError(f"{reference}: only a tool can be a graph")
    resolution, item = session.rye.load(reference)
    location = resolution.location
    header = item.header or parse_header(location.suffix, item.text, str(location.path))
    return location.ref.id, read_graph(header, location.ref.id)


def _id_of(session: Session, path: Path) -> str:
    """The id that the file has in a space, else its name."""
    try:
        reference = session.rye.reference(str(path))
    except InvalidRefError:  # it is in none
        return path.stem
    return reference.id if reference.kind else path.stem


def _is_run(session: Session, text: str) -> bool:
    """Whether a text is the id of a run, in full."""
    try:
        session.rye.threads.get(text)
    except LilluxError:
        return False
    return True


def _graph_of(session: Session, run_id: str) -> str:
    thread = session.rye.threads.get(run_id)
    return thread.item_id or thread.directive


def _states(session: Session, text: str) -> "Mapping[str, NodeState]":
    from ryeos.graph.pictures import recorded_node_states
    from ryeos.run.thread_control import refreshed
    from ryeos.run.threads import ThreadNotFoundError

    registry = session.rye.threads
    try:
        thread = refreshed(registry, registry.get(registry.find(text)))
    except ThreadNotFoundError:
        if not _is_written_down(session, text):
            raise
        return recorded_node_states(session.rye, text, "error")
    return recorded_node_states(session.rye, thread.thread_id, thread.status)


def _is_written_down(session: Session, run_id: str) -> bool:
    """Whether there is a run of this whole id that is no thread: one that a node has walked."""
    from ryeos.graph.problems import RunIdError, RunPlaceError
    from ryeos.graph.run_log import TRANSCRIPT, run_place

    try:
        return run_place(session.context.spaces).run_file(run_id, TRANSCRIPT).is_file()
    except (RunIdError, RunPlaceError):
        return False


COMMANDS = {
    "graph run": CommandSpec(
        run.configure,
        _run,
        ["rye graph run mine/build", "rye graph run mine/build target=docs --async"],
    ),
    "graph step": CommandSpec(
        _configure_step,
        _step,
        ["rye graph step mine/build compile", "rye graph step mine/build test --from build-17"],
    ),
    "graph resume": CommandSpec(
        _configure_resume, _resume, ["rye graph resume build-17", "rye graph resume 9f2c --force"]
    ),
    "graph validate": CommandSpec(
        _configure_validate,
        _validate,
        ["rye graph validate mine/build", "rye graph validate x.yaml"],
    ),
    "graph show": CommandSpec(
        _configure_show,
        _show,
        [
            "rye graph show mine/build --mermaid",
            "rye graph show mine/build --run build-17 --svg > run.svg",
        ],
    ),
}
