"""The page of a run, for people and for search: a knowledge item.

Names and errors come from foreign graphs and tools: none of them can end the fence, a row of
the table or the comment that holds the signature.
"""

import json
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from lillux.files import is_inside, make_directory, safe_join, write_atomic
from lillux.values import dataclass
from ryeos.graph.errors import RunPlaceError
from ryeos.graph.run_log import RunPlace, valid_run_id
from ryeos.items.refs import ItemRef, Kind, valid_id
from ryeos.trust.sign import Signer, SignTarget

_MARKS = {"completed": "✅", "error": "❌", "running": "🔄", "waiting": "⏳"}
_MARKDOWN = re.compile(r"([\\`*_{}\[\]<>()#+!|~&$:@-])")
_LARGEST_SHORT = 0xFFFF
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
    """What the page shows. Times are seconds since 1970."""

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
    name = page.run_id
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
        "started": _moment(page.started),
        "updated": _moment(page.updated),
        "state_hash": page.state_hash,
    }
    parts = [
        "```yaml",
        *(f"{key}: {_yaml(value)}" for key, value in header.items()),
        "```",
        "",
        f"# {_text(page.graph_id)}",
        "",
        f"{_mark(page.status)} {_text(page.status)}, {len(page.history)} steps",
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
        f"Run {_text(page.run_id)}, rendered from {_text(page.transcript or 'its transcript')}.",
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
    return f"| {_mark(node.status)} | {_text(node.name)} | {node.runs} | {node.elapsed_s:.2f} |"


def _history_line(step: HistoryStep) -> str:
    mark = _mark("error" if step.error else "completed")
    error = f": {_text(step.error)}" if step.error else ""
    return f"{step.step}. {mark} {_text(step.node)}, {step.elapsed_s:.2f} s{error}"


def _more(count: int, what: str) -> list[str]:
    left = count - _MOST_ROWS
    return ["", f"and {left} more {what}"] if left > 0 else []


def _mark(status: str) -> str:
    if status in _MARKS:
        return _MARKS[status]
    return "✅" if status.startswith(("completed", "success")) else "❌"


def _yaml(value: object) -> str:
    """A scalar as JSON, which YAML reads as the same; no back-tick, which could end the fence."""
    text = json.dumps(value, ensure_ascii=False)
    return "".join(one if one.isprintable() and one != "`" else _escape(one) for one in text)


def _escape(character: str) -> str:
    number = ord(character)
    return f"\\U{number:08x}" if number > _LARGEST_SHORT else f"\\u{number:04x}"


def _text(text: str) -> str:
    """Foreign text as plain words of one line."""
    shown = "".join(one if one.isprintable() else " " for one in text[:_LONGEST_TEXT])
    return _MARKDOWN.sub(r"\\\1", shown)


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0


def _seconds(value: object) -> float:
    return float(value) if isinstance(value, int | float) else 0.0


# --- page file ------------------------------------------------------------------------------------
# The page of a run as a file: written whole, signed with the user's key where there is one.


def page_path(place: RunPlace, graph_id: str, run_id: str) -> Path:
    """Where the page is. Raises InvalidRefError, RunIdError, RunPlaceError."""
    folder = place.space.directory(Kind.KNOWLEDGE)
    if not is_inside(folder, place.ai):
        raise RunPlaceError(str(folder), "expected a folder, found a link")
    return safe_join(folder, f"{_item_id(graph_id, run_id)}.md")


def write_page(place: RunPlace, page: RunPage, signer: Signer | None) -> Path:
    """Write the page, and sign it. Raises as `page_path`, FileSystemError, and as `Signer.sign`."""
    path = page_path(place, page.graph_id, page.run_id)
    make_directory(path.parent)
    write_atomic(path, render_page(page).encode("utf-8", "backslashreplace"))
    if signer is not None:
        ref = ItemRef(Kind.KNOWLEDGE, _item_id(page.graph_id, page.run_id))
        target = SignTarget(path=path, kind=Kind.KNOWLEDGE, space=place.space, ref=ref)
        signer.sign(target, force=True)
    return path


def _item_id(graph_id: str, run_id: str) -> str:
    valid_id(graph_id)
    return f"state/graphs/{graph_id}/{valid_run_id(run_id)}"
