"""``rye graph run|validate|show|step|resume``."""

from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lillux.errors import LilluxError
from lillux.files import read_bytes
from lillux.foreign_text import one_line
from lillux.values import dataclass, field, replace
from ryeos.app.command_line import Arguments, CommandSpec
from ryeos.cli import run
from ryeos.cli.session import Session
from ryeos.graph.errors import GraphInvalidError
from ryeos.graph.model import Graph, edges_of, error_target
from ryeos.graph.problems import GraphProblem, lines_of, position_of
from ryeos.graph.reading import GraphReading, read_graph
from ryeos.graph.subgraphs import subgraph_problems
from ryeos.items.errors import InvalidRefError, RyeError, UsageError
from ryeos.items.header_values import MetadataError
from ryeos.items.headers import parse_header
from ryeos.items.refs import Kind, Reference, parse_reference
from ryeos.run.model import ExecutionRequest
from ryeos.trust.signature import MAX_ITEM_BYTES

if TYPE_CHECKING:
    from ryeos.graph.pictures import NodeState


_SHOWN_RUNS = 10


# --- graph run ------------------------------------------------------------------------------------


def _configure_run(parser: Arguments) -> None:
    run.configure(parser, refs="tools")


def _configure_step(parser: Arguments) -> None:
    add = parser.add_argument
    add("ref", metavar="REF", help="a graph", offers="tools")
    add("node", metavar="NODE", help="the node to work on")
    add("pairs", metavar="k=v", nargs="*", help="inputs, as for run")
    add("--params", metavar="JSON|@FILE|-", help="all inputs as one JSON object")
    add("--stdin", action="store_true", help="inputs as JSON on standard input")
    add("--state", metavar="JSON|@FILE", help="laid over the state before the step")
    add("--from", dest="run_id", metavar="ID", help="the run whose state it begins with")
    add("--timeout", metavar="S", type=float, help="seconds; 0 for no limit")


def _configure_resume(parser: Arguments) -> None:
    add = parser.add_argument
    what = "a run, or as much of its id as is needed; without it the only one that can go on"
    add("run_id", metavar="ID", nargs="?", help=what, offers="threads")
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
    if arguments.run_id and "=" in arguments.run_id:  # no id has one: it is the first input
        arguments.pairs = [arguments.run_id, *arguments.pairs]
        arguments.run_id = None
    if arguments.pairs and not arguments.override_inputs:
        raise UsageError(
            "inputs: a resumed run has those of the first one",
            hint="lay others over them with --override-inputs",
        )
    run_id = registry.find(arguments.run_id) if arguments.run_id else _only_resumable(session)
    thread = registry.get(run_id)
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


def _only_resumable(session: Session) -> str:
    """The id of the only run that can go on. Raises RyeError `RUN_NOT_FOUND`, UsageError."""
    from ryeos.graph.resumable_runs import resumable_runs

    found = list(islice(resumable_runs(session.rye, session.rye.threads), _SHOWN_RUNS + 1))
    if not found:
        raise RyeError(
            "no run of a graph stopped here that can go on",
            code="RUN_NOT_FOUND",
            hint="list the latest runs with: rye threads list",
        )
    if len(found) > 1:
        ids = [one.thread.thread_id for one in found[:_SHOWN_RUNS]]
        more = " and more" if len(found) > _SHOWN_RUNS else ""
        raise UsageError(
            f"ID: expected one of {', '.join(ids)}{more}, found none",
            hint=f"rye graph resume {ids[0]}",
        )
    session.output.note(f"resuming {found[0].thread.thread_id} at {one_line(found[0].node, 60)}")
    return found[0].thread.thread_id


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
    what = "a graph, or a file that is to be one"
    parser.add_argument("ref", metavar="REF|PATH", help=what, offers="tools")


def _configure_show(parser: Arguments) -> None:
    add = parser.add_argument
    what = "a graph, a file that is to be one, or the id of a run"
    add("ref", metavar="REF|PATH", help=what, offers="tools")
    add("--run", metavar="ID", help="colour the nodes as this run has left them")
    add("--mermaid", action="store_true", help="as Mermaid text")
    add("--dot", action="store_true", help="as Graphviz text")
    add("--svg", action="store_true", help="as an SVG picture")


def _validate(session: Session) -> int:
    source = _source(session, session.arguments.ref)
    try:
        where, reading = source.name, source.read().before_signing
    except MetadataError as error:
        return _show_unread(session, source, error)
    if reading.graph:
        reading = _with_called(session, reading.graph, reading)
    envelope: dict[str, Any] = {
        "status": "error" if reading.errors else "success",
        "graph": where,
        "node_count": len(reading.graph.nodes) if reading.graph else 0,
        "path": str(source.path),
        "errors": [source.described(problem) for problem in reading.errors],
        "warnings": [source.described(problem) for problem in reading.warnings],
    }
    if reading.errors:
        count = len(reading.errors)
        envelope |= {"error": f"{where}: {count} error{'s' * (count > 1)}"}
        envelope |= {"code": "VALIDATION_FAILED"}
    session.output.answer(envelope, "\n".join(_verdict(session, source, reading)))
    return 1 if reading.errors else 0


def _show_unread(session: Session, source: "_Source", error: MetadataError) -> int:
    """The verdict on a text that is no YAML: what is wrong, where its reader stopped."""
    line, column = error.line or 1, error.column or 1
    found = {"path": "", "message": error.problem, "line": line, "column": column}
    envelope = {
        "status": "error",
        "graph": source.name,
        "node_count": 0,
        "path": str(source.path),
        "errors": [found],
        "warnings": [],
        "error": f"{source.name}: 1 error",
        "code": "VALIDATION_FAILED",
    }
    at, word = f"{one_line(str(source.path))}:{line}:{column}", session.output.paint("error", "red")
    session.output.answer(envelope, f"{at}: {word}: {one_line(error.problem)}")
    return 1


def _with_called(session: Session, graph: Graph, reading: GraphReading) -> GraphReading:
    """The reading, with what it takes from graphs that it calls and that those do not give."""

    def called(item_id: str) -> Graph | None:
        try:
            source = _source(session, f"{Kind.TOOL}:{item_id}")
            return source.read().graph
        except LilluxError:  # it may come later; a run says that it is missing
            return None

    more = subgraph_problems(graph, called)
    return replace(reading, errors=(*reading.errors, *more))


def _verdict(session: Session, source: "_Source", reading: GraphReading) -> Iterator[str]:
    """A line for each problem, ``FILE:LINE:COLUMN: error: ...``, as editors and CI read them."""
    paint = session.output.paint
    for problem in reading.errors:
        yield f"{source.position(problem)}: {paint('error', 'red')}: {one_line(str(problem))}"
    for problem in reading.warnings:
        yield f"{source.position(problem)}: {paint('warning', 'yellow')}: {one_line(str(problem))}"
    if reading.graph and not reading.errors:
        yield f"{source.name}: valid, {len(reading.graph.nodes)} nodes"


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
            from ryeos.graph.mermaid import mermaid

            return mermaid(picture)
        case "dot":
            from ryeos.graph.graphviz import dot

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


@dataclass(frozen=True, slots=True)
class _Source:
    """A graph file. An unsigned one may be looked at, not run.

    name      what the user calls it
    path      as it is shown: relative where it is below the working directory
    graph_id  the id that it has, or would have
    """

    name: str
    path: Path
    graph_id: str
    text: str = field(repr=False)
    _lines: dict[str, tuple[int, int]] = field(default_factory=dict, repr=False)

    def read(self) -> GraphReading:
        """What is in it. Raises MetadataError."""
        header = parse_header(self.path.suffix, self.text, str(self.path))
        return read_graph(header, self.graph_id)

    def position(self, problem: GraphProblem) -> str:
        """``FILE:LINE:COLUMN`` of a problem."""
        line, column = self._place(problem)
        return f"{one_line(str(self.path))}:{line}:{column}"

    def described(self, problem: GraphProblem) -> dict[str, Any]:
        """The problem as JSON."""
        line, column = self._place(problem)
        return {**problem.described(), "line": line, "column": column}

    def _place(self, problem: GraphProblem) -> tuple[int, int]:
        if not self._lines:
            self._lines.update(lines_of(self.text))
        return position_of(problem.path, self._lines)


def _source(session: Session, text: str) -> _Source:
    """The file that is meant. Raises UsageError, ItemNotFoundError, FileSystemError."""
    path = Path(text)
    if path.suffix in _SUFFIXES and path.is_file():
        data = read_bytes(path, MAX_ITEM_BYTES).decode("utf-8", "replace")
        return _Source(text, path, _id_of(session, path), data)
    reference = session.rye.reference(text)
    if reference.kind not in (None, Kind.TOOL):
        raise UsageError(f"{reference}: only a tool can be a graph")
    location = session.rye.resolver.resolve(Reference(Kind.TOOL, reference.id)).location
    if location.suffix not in _SUFFIXES:
        raise UsageError(f"{location.ref}: expected a graph, a YAML file, found {location.path}")
    found = read_bytes(location.path, MAX_ITEM_BYTES, within=location.space.within)
    cwd, path = session.context.cwd, location.path
    shown = path.relative_to(cwd) if path.is_relative_to(cwd) else path
    return _Source(location.ref.id, shown, location.ref.id, found.decode("utf-8", "replace"))


def _read(session: Session, text: str) -> tuple[str, GraphReading]:
    """What it is called, and what is in it."""
    source = _source(session, text)
    return source.name, source.read()


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
    from ryeos.run.threads.errors import ThreadNotFoundError
    from ryeos.run.threads.watch import refreshed

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
    from ryeos.graph.errors import RunIdError, RunPlaceError
    from ryeos.graph.run_places import TRANSCRIPT, run_place

    try:
        return run_place(session.context.spaces).run_file(run_id, TRANSCRIPT).is_file()
    except (RunIdError, RunPlaceError):
        return False


RUN = CommandSpec(
    _configure_run,
    _run,
    ["rye graph run mine/build", "rye graph run mine/build target=docs --async"],
)
STEP = CommandSpec(
    _configure_step,
    _step,
    ["rye graph step mine/build compile", "rye graph step mine/build test --from build-17"],
)
RESUME = CommandSpec(
    _configure_resume, _resume, ["rye graph resume build-17", "rye graph resume 9f2c --force"]
)
VALIDATE = CommandSpec(
    _configure_validate,
    _validate,
    ["rye graph validate mine/build", "rye graph validate x.yaml"],
)
SHOW = CommandSpec(
    _configure_show,
    _show,
    [
        "rye graph show mine/build --mermaid",
        "rye graph show mine/build --run build-17 --svg > run.svg",
    ],
)
