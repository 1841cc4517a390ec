"""The page of a run, for people and for search: a knowledge item.

Names and errors come from foreign graphs and tools: none of them can end the fence, a row of the
table or the comment that holds the signature. The file is written whole, and signed with the
user's key where there is one.
"""

import json
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from lillux.contained_paths import is_inside, safe_join
from lillux.files import make_directory, write_atomic
from lillux.foreign_text import one_line, printable
from lillux.values import dataclass
from ryeos import __version__
from ryeos.graph.errors import GraphInvalidError, RunPlaceError
from ryeos.graph.loaded_runs import LoadedRun, key_lookup, load_run
from ryeos.graph.model import Graph
from ryeos.graph.reading import read_graph
from ryeos.graph.run_places import RunPlace, run_place, valid_run_id
from ryeos.items.headers import parse_header
from ryeos.items.refs import ItemRef, Kind, valid_id
from ryeos.run.workspace import Workspace
from ryeos.trust.sign import Signer
from ryeos.trust.sign_targets import ReadItem, SignTarget

_MARKS = {"completed": "✅", "error": "❌", "running": "🔄", "waiting": "⏳"}
_MARKDOWN = re.compile(r"([\\`*_{}\[\]<>()#+!|~&$:@-])")
_LONGEST_TEXT, _MOST_ROWS = 300, 500


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSummary:
    """A node of the graph: ``completed``, ``error``, ``running`` or ``waiting``."""

    name: str
    status: str = "waiting"
    runs: int = 0
    elapsed_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryStep:
    """A completed step."""

    step: int
    node: str
    status: str
    elapsed_s: float = 0.0
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPage:
    """The content of the page. Times are seconds since 1970."""

    graph_id: str
    run_id: str
    version: str
    status: str
    started: float
    updated: float
    nodes: tuple[NodeSummary, ...]
    history: tuple[HistoryStep, ...]
    state_hash: str = ""
    transcript: str = ""


def render_page(page: RunPage) -> str:
    """The text of the knowledge item ``state/graphs/<graph id>/<run id>``, unsigned."""
    name, source = page.run_id, plain_words(page.transcript or "its transcript")
    header = {
        "name": name,
        "title": f"Run {name}",
        "entry_type": "graph_run",
        "category": f"state/graphs/{page.graph_id}",
        "version": page.version,
        "graph_id": page.graph_id,
        "graph_run_id": page.run_id,
        "status": page.status,
        "steps": len(page.history),
        "started": _utc_text(page.started),
        "updated": _utc_text(page.updated),
        "state_hash": page.state_hash,
    }
    parts = [
        "```yaml",
        *(f"{key}: {yaml_scalar(value)}" for key, value in header.items()),
        "```",
        "",
        f"# {plain_words(page.graph_id)}",
        "",
        f"{_mark(page.status)} {plain_words(page.status)}, {len(page.history)} steps",
        "",
        "| | node | runs | seconds |",
        "|---|---|---|---|",
        *(_node_row(node) for node in page.nodes[:_MOST_ROWS]),
        *_more(len(page.nodes), "nodes"),
        "",
        "## History",
        "",
        *(_history_line(step) for step in page.history[-_MOST_ROWS:]),
        *_more(len(page.history), "earlier steps"),
        "",
        "---",
        "",
        f"Run {plain_words(page.run_id)}, rendered from {source}.",
        "",
    ]
    return "\n".join(parts)


def history_of(events: Sequence[tuple[float, str, Mapping[str, object]]]) -> list[HistoryStep]:
    """The completed steps in a transcript's events (time, type, payload)."""
    return [
        HistoryStep(
            step=_number(payload.get("step")),
            node=str(payload.get("node", "")),
            status=str(payload.get("status", "")),
            elapsed_s=_seconds(payload.get("elapsed_s")),
            error=None if payload.get("error") is None else str(payload["error"]),
        )
        for _, event_type, payload in events
        if event_type == "step_completed"
    ]


def node_states(
    names: Sequence[str], history: Sequence[HistoryStep], current: str | None = None
) -> tuple[NodeSummary, ...]:
    """The nodes of a graph with what became of them; ``current`` is running."""
    runs: dict[str, list[HistoryStep]] = {}
    for step in history:
        runs.setdefault(step.node, []).append(step)
    return tuple(_state(name, runs.get(name, []), running=name == current) for name in names)


def _state(name: str, steps: list[HistoryStep], *, running: bool) -> NodeSummary:
    status = "running" if running else "waiting"
    if steps and not running:
        status = "error" if steps[-1].error else "completed"
    elapsed_s = sum(step.elapsed_s for step in steps)
    return NodeSummary(name=name, status=status, runs=len(steps), elapsed_s=elapsed_s)


def _node_row(node: NodeSummary) -> str:
    return (
        f"| {_mark(node.status)} | {plain_words(node.name)} | {node.runs} | {node.elapsed_s:.2f} |"
    )


def _history_line(step: HistoryStep) -> str:
    mark = _mark("error" if step.error else "completed")
    error = f": {plain_words(step.error)}" if step.error else ""
    return f"{step.step}. {mark} {plain_words(step.node)}, {step.elapsed_s:.2f} s{error}"


def _more(count: int, what: str) -> list[str]:
    left = count - _MOST_ROWS
    return ["", f"and {left} more {what}"] if left > 0 else []


def _mark(status: str) -> str:
    if status in _MARKS:
        return _MARKS[status]
    return "✅" if status.startswith(("completed", "success")) else "❌"


def yaml_scalar(value: object) -> str:
    """A scalar as JSON, which YAML reads as the same; no back-tick, which could end the fence."""
    text = json.dumps(value, ensure_ascii=False)
    return printable(text, 0).replace("`", "\\u0060")


def plain_words(text: str) -> str:
    """Foreign text as plain words of one line."""
    return _MARKDOWN.sub(r"\\\1", one_line(text, _LONGEST_TEXT))


def _utc_text(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0


def _seconds(value: object) -> float:
    return float(value) if isinstance(value, int | float) else 0.0


def page_path(place: RunPlace, graph_id: str, run_id: str) -> Path:
    """The path of the page. Raises InvalidRefError, RunIdError, RunPlaceError."""
    folder = place.space.directory(Kind.KNOWLEDGE)
    if not is_inside(folder, place.ai):
        raise RunPlaceError(str(folder), "expected a folder, found a link")
    return safe_join(folder, f"{_item_id(graph_id, run_id)}.md")


def write_page(place: RunPlace, page: RunPage, signer: Signer | None) -> Path:
    """Write the page, and sign it. Raises as `page_path`, FileSystemError, and as `Signer.sign`."""
    path = page_path(place, page.graph_id, page.run_id)
    make_directory(path.parent, within=place.space.within)
    data = render_page(page).encode("utf-8", "backslashreplace")
    write_atomic(path, data, within=place.space.within)
    if signer is not None:
        ref = ItemRef(Kind.KNOWLEDGE, _item_id(page.graph_id, page.run_id))
        target = SignTarget(path=path, kind=Kind.KNOWLEDGE, space=place.space, ref=ref)
        signer.sign(ReadItem(target, data), force=True)
    return path


def _item_id(graph_id: str, run_id: str) -> str:
    valid_id(graph_id)
    return f"state/graphs/{graph_id}/{valid_run_id(run_id)}"


def page_of(graph: Graph, run: LoadedRun) -> RunPage:
    """The page of a run, from its record."""
    events = [(event.timestamp, event.event_type, event.payload) for event in run.events]
    history = tuple(history_of(events))
    going_on = run.current_node if run.status == "running" else None
    return RunPage(
        graph_id=graph.graph_id,
        run_id=run.snapshot.graph_run_id,
        version=__version__,
        status=run.status,
        started=events[0][0] if events else 0.0,
        updated=events[-1][0] if events else 0.0,
        nodes=node_states(list(graph.nodes), history, going_on),
        history=history,
        state_hash=run.snapshot.state_hash,
    )


def write_run_page(workspace: Workspace, graph_id: str, run_id: str) -> Path | None:
    """Write and sign the page of a run, if the item is a graph; None for any other item.

    Raises GraphInvalidError, NoSigningKeyError, and as `load_run` and `write_page`.
    """
    from ryeos.run.primitives import is_graph

    chain = workspace.executor.build_chain(graph_id)
    tool = chain.tool
    if not is_graph(chain) or tool.item is None:
        return None
    target = tool.item.target
    header = parse_header(target.suffix, tool.item.text, str(target.path))
    reading = read_graph(header, tool.item_id)
    if reading.graph is None:
        raise GraphInvalidError(tool.item_id, reading.errors)
    place = run_place(workspace.context.spaces)
    run = load_run(place, run_id, key_lookup(workspace, place))
    signer = Signer(workspace.signing_key(), workspace.verifier)
    return write_page(place, page_of(reading.graph, run), signer)
