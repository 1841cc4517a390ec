"""The OpenAPI document as a page for people. Pure: nothing is loaded from anywhere."""

import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from lillux.values import dataclass
from rye_services.page import (
    EXECUTIONS,
    LOGIN,
    OPENAPI,
    Absence,
    Execution,
    History,
    Html,
    Overview,
    Project,
    ShownConflict,
    ShownSnapshot,
    ShownStorage,
    ShownThread,
    Side,
    Viewer,
    document,
    joined,
    project_link,
    snapshot_anchor,
    table,
    tag,
    thread_link,
)

# --- api view -------------------------------------------------------------------------------------

_METHODS = ("get", "post", "put", "patch", "delete")


def api_page(openapi: Mapping[str, Any]) -> str:
    """Every route: its method, path, what it does, its parameters, body and answers."""
    info = openapi["info"]
    return document(
        f"{info['title']} {info['version']}",
        tag(
            "p",
            "The same for programs: ",
            tag("a", OPENAPI, href=OPENAPI),
            " (OpenAPI ",
            str(openapi["openapi"]),
            ").",
        ),
        tag(
            "p",
            "For MCP clients: ",
            tag("code", "/mcp"),
            " (streamable HTTP) has execute, fetch and sign as tools; each call is such a request.",
        ),
        joined(_route(method, path, found) for method, path, found in _routes(openapi)),
        viewer=None,
    )


def _routes(openapi: Mapping[str, Any]) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    for path, methods in openapi["paths"].items():
        for method in _METHODS:
            if method in methods:
                yield method.upper(), path, methods[method]


def _route(method: str, path: str, operation: Mapping[str, Any]) -> Html:
    about = str(operation.get("description") or operation.get("summary") or "")
    answers = ", ".join(str(status) for status in operation.get("responses", {}))
    return tag(
        "section",
        tag("h2", tag("code", f"{method} {path}")),
        joined(tag("p", part) for part in about.split("\n\n") if part.strip()),
        _parameters(operation),
        _body(operation),
        tag("p", "Answers: ", answers) if answers else None,
        class_="route",
    )


def _parameters(operation: Mapping[str, Any]) -> Html | None:
    parameters = operation.get("parameters", [])
    rows = [
        tag(
            "tr",
            tag("td", tag("code", str(parameter["name"]))),
            tag("td", str(parameter["in"])),
            tag("td", "required" if parameter.get("required") else "optional"),
            tag("td", str(parameter.get("description", ""))),
        )
        for parameter in parameters
    ]
    return table("Parameters", ["Name", "In", "", ""], rows, empty="") if rows else None


def _body(operation: Mapping[str, Any]) -> Html | None:
    content = operation.get("requestBody", {}).get("content", {})
    if not content:
        return None
    names = [
        str(kind.get("schema", {}).get("$ref", "")).rpartition("/")[2] or media
        for media, kind in content.items()
    ]
    return tag("p", "Body: ", tag("code", ", ".join(names)))


# --- conflict view --------------------------------------------------------------------------------
# Conflicts of an execution with HEAD, both versions side by side. Pure.

MOST_CONFLICTS = 20
"""Shown whole; of the others only their paths."""

MOST_COMPARED = 2_000
"""Lines of a side beyond which changed lines are not marked: comparing takes their square."""


def conflict_section(thread_id: str, conflicts: tuple[ShownConflict, ...]) -> Html | None:
    """The conflicts of a thread, and how they are settled; nothing where it has none."""
    if not conflicts:
        return None
    rest = [conflict.path for conflict in conflicts[MOST_CONFLICTS:]]
    return tag(
        "section",
        tag("h2", "Conflicts"),
        tag(
            "p",
            "HEAD moved while this ran, and both changed the same paths. HEAD is as it was; what "
            "the execution made is kept beside it. Settle them in your project: ",
            tag("code", f"rye remote pull --thread {thread_id}"),
            ", then ",
            tag("code", "rye remote resolve"),
            " and ",
            tag("code", "rye remote push"),
            ".",
        ),
        joined(_conflict(conflict) for conflict in conflicts[:MOST_CONFLICTS]),
        tag("ul", *(tag("li", tag("code", path)) for path in rest)) if rest else None,
        class_="conflicts",
    )


def _conflict(conflict: ShownConflict) -> Html:
    ours, theirs = _marked(conflict)
    return tag(
        "details",
        tag("summary", tag("code", conflict.path), " ", tag("span", conflict.kind, class_="kind")),
        tag(
            "div",
            _side("HEAD (ours)", conflict.ours, ours),
            _side("This execution (theirs)", conflict.theirs, theirs),
            class_="sides",
        ),
        tag(
            "details",
            tag("summary", "What both began with"),
            _side("Base", conflict.base, _plain(conflict.base)),
        ),
        open=True,
    )


def _side(heading: str, side: Side, body: Html) -> Html:
    digest = tag("code", side.digest[:12], title=side.digest) if side.digest else None
    return tag("div", tag("h3", heading, " ", digest), body, class_="side")


def _plain(side: Side) -> Html:
    if isinstance(side.content, Absence):
        return tag("p", side.content.value, class_="empty")
    return tag("pre", side.content, tabindex=0)


def _marked(conflict: ShownConflict) -> tuple[Html, Html]:
    """Both sides, the lines marked in which they differ."""
    ours, theirs = conflict.ours.content, conflict.theirs.content
    if isinstance(ours, Absence) or isinstance(theirs, Absence):
        return _plain(conflict.ours), _plain(conflict.theirs)
    left, right = ours.splitlines(keepends=True), theirs.splitlines(keepends=True)
    if max(len(left), len(right)) > MOST_COMPARED:
        return _plain(conflict.ours), _plain(conflict.theirs)
    blocks = difflib.SequenceMatcher(None, left, right, autojunk=False).get_opcodes()
    return (
        _marked_lines((kind, left[start:end]) for kind, start, end, _, _ in blocks),
        _marked_lines((kind, right[start:end]) for kind, _, _, start, end in blocks),
    )


def _marked_lines(blocks: Iterable[tuple[str, Sequence[str]]]) -> Html:
    parts = (
        "".join(lines) if kind == "equal" else tag("mark", "".join(lines)) if lines else None
        for kind, lines in blocks
    )
    return tag("pre", *parts, tabindex=0)


# --- lanes ----------------------------------------------------------------------------------------
# Where the snapshots of a history stand in its picture: a row each, the mainline left. Pure.
#
# A lane is held for the parent that a snapshot waits for. (1) A snapshot stands in the first lane
# that waits for it, else in a free one; (2) the other lanes that wait for it end there; (3) its own
# lane goes on with its first parent; (4) each further parent joins the lane that waits for it
# already, or opens one.


@dataclass(frozen=True, slots=True)
class Dot:
    """A snapshot in the picture; row 0 is at the top, lane 0 on the left."""

    row: int
    lane: int
    snapshot: ShownSnapshot


@dataclass(frozen=True, slots=True)
class HistoryLine:
    """From a snapshot down to a parent. A parent that is not shown is past the last row."""

    row: int
    lane: int
    to_row: int
    to_lane: int
    is_merge: bool


@dataclass(frozen=True, slots=True)
class HistoryLanes:
    """The picture in whole numbers."""

    dots: tuple[Dot, ...]
    lines: tuple[HistoryLine, ...]
    width: int


def lay_out(snapshots: Sequence[ShownSnapshot]) -> HistoryLanes:
    """Place them; every snapshot stands before its parents, as `newest_first` orders them."""
    waiting: list[str | None] = []
    dots: list[Dot] = []
    width = 0
    for row, snapshot in enumerate(snapshots):
        lane = _lane_of(snapshot.digest, waiting)  # (1)
        waiting[:] = [None if digest == snapshot.digest else digest for digest in waiting]  # (2)
        for parent in snapshot.parents[:1]:
            if parent not in waiting:
                waiting[lane] = parent  # (3)
        for parent in snapshot.parents[1:]:
            if parent not in waiting:
                waiting[_lane_of(parent, waiting)] = parent  # (4)
        dots.append(Dot(row, lane, snapshot))
        width = max(width, len(waiting))
    return HistoryLanes(tuple(dots), tuple(_parent_lines(dots)), width)


def newest_first(found: Mapping[str, ShownSnapshot]) -> tuple[ShownSnapshot, ...]:
    """Every snapshot before its parents; of those that may come next, the newest one."""
    children = dict.fromkeys(found, 0)
    for snapshot in found.values():
        for parent in set(snapshot.parents) & found.keys():
            children[parent] += 1
    ready = [found[digest] for digest, count in children.items() if count == 0]
    ordered: list[ShownSnapshot] = []
    while ready:
        ready.sort(key=lambda snapshot: (snapshot.timestamp, snapshot.digest))
        snapshot = ready.pop()
        ordered.append(snapshot)
        for parent in set(snapshot.parents) & found.keys():
            children[parent] -= 1
            if children[parent] == 0:
                ready.append(found[parent])
    return tuple(ordered)


def _lane_of(digest: str, waiting: list[str | None]) -> int:
    for wanted in (digest, None):
        if wanted in waiting:
            return waiting.index(wanted)
    waiting.append(None)
    return len(waiting) - 1


def _parent_lines(dots: Sequence[Dot]) -> list[HistoryLine]:
    places = {dot.snapshot.digest: dot for dot in dots}
    lines = []
    for dot in dots:
        for index, parent in enumerate(dot.snapshot.parents):
            to = places.get(parent)
            to_row, to_lane = (to.row, to.lane) if to else (len(dots), dot.lane)
            lines.append(HistoryLine(dot.row, dot.lane, to_row, to_lane, is_merge=index > 0))
    return lines


# --- history svg ----------------------------------------------------------------------------------
# The history of a project as a picture: SVG, whose colours are those of the style sheet. Pure.

ROW_HEIGHT, LANE_WIDTH, MARGIN, RADIUS = 28, 18, 16, 5
_TEXT_WIDTH = 520
_SHORT = 12


def history_svg(history: History) -> Html:
    """The picture; each dot leads to the row of its snapshot in the table below it."""
    lanes = lay_out(history.snapshots)
    width = 2 * MARGIN + lanes.width * LANE_WIDTH + _TEXT_WIDTH
    height = 2 * MARGIN + max(len(lanes.dots) - 1 + history.is_cut, 0) * ROW_HEIGHT
    merges = sum(len(snapshot.parents) > 1 for snapshot in history.snapshots)
    return tag(
        "svg",
        tag("title", f"History: {len(lanes.dots)} snapshots, {merges} merges, newest first"),
        tag("g", *(_line(line) for line in lanes.lines), class_="lines"),
        tag("g", *(_dot(dot, lanes, history) for dot in lanes.dots), class_="dots"),
        xmlns="http://www.w3.org/2000/svg",
        class_="history",
        role="img",
        width=width,
        height=height,
        viewBox=f"0 0 {width} {height}",
    )


def _line(line: HistoryLine) -> Html:
    x, y = _place(line.row, line.lane)
    to_x, to_y = _place(line.to_row, line.to_lane)
    if line.to_lane == line.lane:
        path = f"M{x} {y}V{to_y}"
    elif line.is_merge:  # out of the merge at once, then down its own lane
        path = f"M{x} {y}C{x} {y + ROW_HEIGHT} {to_x} {y} {to_x} {y + ROW_HEIGHT}V{to_y}"
    else:  # down its own lane, and into the parent at the end
        path = f"M{x} {y}V{to_y - ROW_HEIGHT}C{x} {to_y} {to_x} {to_y - ROW_HEIGHT} {to_x} {to_y}"
    return tag("path", d=path, class_=f"lane{line.to_lane % 6}")


def _dot(dot: Dot, lanes: HistoryLanes, history: History) -> Html:
    x, y = _place(dot.row, dot.lane)
    snapshot = dot.snapshot
    is_head = snapshot.digest == history.project.snapshot_hash
    kind = "head" if is_head else "merge" if len(snapshot.parents) > 1 else "plain"
    text_x = 2 * MARGIN + lanes.width * LANE_WIDTH
    label = joined([f"{snapshot.digest[:_SHORT]} {caption(snapshot)}", " (HEAD)" * is_head])
    return tag(
        "a",
        tag("circle", cx=x, cy=y, r=RADIUS, class_=f"{kind} lane{dot.lane % 6}"),
        tag("text", label, x=text_x, y=y + 4),
        href=f"#{snapshot_anchor(snapshot.digest)}",
    )


def caption(snapshot: ShownSnapshot) -> str:
    """What made the snapshot, in a few words."""
    match snapshot.source:
        case "execution":
            return f"execution of {snapshot.detail}" if snapshot.detail else "execution"
        case "merge":
            return "merge of an execution"
        case source:
            return source or "snapshot"


def _place(row: int, lane: int) -> tuple[int, int]:
    return MARGIN + lane * LANE_WIDTH, MARGIN + row * ROW_HEIGHT


# --- views ----------------------------------------------------------------------------------------
# The pages, as text. Pure: values in, HTML out.

REFRESH_S = 10
"""How often a browser without scripts loads a page anew that changes by itself."""

_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB")
_KILO = 1024


def login_page(problem: str = "") -> str:
    """Asks for an API key. ``problem``: why the last one did not do."""
    return document(
        "Log in",
        tag("p", problem, class_="problem", role="alert") if problem else None,
        tag(
            "form",
            # For what keeps passwords: it wants to know whose this one is.
            tag("input", name="username", value="api-key", autocomplete="username", hidden=True),
            tag("label", "API key", for_="key"),
            tag(
                "input",
                id="key",
                name="key",
                type="password",
                required=True,
                autofocus=True,
                autocomplete="current-password",
                spellcheck="false",
                aria_describedby="key-help",
            ),
            tag("button", "Log in", type="submit"),
            tag(
                "p",
                "It begins with ",
                tag("code", "rye_sk_"),
                ". Whoever runs the node makes one with ",
                tag("code", "rye-node.pyz api-keys create"),
                ".",
                id="key-help",
            ),
            method="post",
            action=LOGIN,
            class_="login",
        ),
        viewer=None,
    )


def overview_page(overview: Overview, viewer: Viewer) -> str:
    """The first page of somebody who is logged in."""
    return document(
        overview.node_name,
        tag(
            "dl",
            *_fact("Node", tag("code", overview.node_id)),
            *_fact("Version", overview.version),
            *_fact("Running now", f"{overview.active} of at most {overview.most_active}"),
            *_fact("Storage", storage_meter(overview.storage)),
            class_="facts",
        ),
        tag("h2", "Executions"),
        executions_part(overview.executions),
        tag("h2", "Projects"),
        table(
            "Projects, those that moved last first",
            ["Project", "HEAD", "Revision", "Moved"],
            [_project_row(project) for project in overview.projects],
            empty="No project was pushed yet: rye remote push",
        ),
        viewer=viewer,
        refresh_s=REFRESH_S,
    )


def executions_part(executions: tuple[Execution, ...]) -> Html:
    """The list of executions; the script asks for this part again and again."""
    listed = table(
        "Executions, newest first",
        ["State", "Item", "Project", "Started", "Ended", ""],
        [_execution_row(execution) for execution in executions],
        empty="Nothing was executed yet: rye remote execute",
    )
    return tag("section", listed, id="executions", data_live=EXECUTIONS)


def project_page(history: History, viewer: Viewer) -> str:
    """The history of a project, as a picture and as a table."""
    cut = "Older snapshots are not shown." if history.is_cut else None
    return document(
        history.project.project_path,
        tag("figure", history_svg(history), tag("figcaption", "Newest first. ", cut)),
        table(
            "Snapshots, newest first",
            ["Snapshot", "Made by", "When", "Parents"],
            [_snapshot_row(snapshot) for snapshot in history.snapshots],
            empty="This project has no snapshot.",
        ),
        viewer=viewer,
    )


def thread_page(thread: ShownThread, viewer: Viewer) -> str:
    """One execution: what its row says, and its conflicts with both versions."""
    facts = joined(
        joined(_fact(name, _moment(value) if name.endswith(" at") else value))
        for name, value in thread.fields.items()
    )
    return document(
        thread.execution.item_id,
        tag("p", _state(thread.execution)),
        tag("dl", facts, class_="facts"),
        conflict_section(thread.execution.thread_id, thread.conflicts),
        viewer=viewer,
    )


def message_page(title: str, message: str, viewer: Viewer | None) -> str:
    """A sentence, where there is no page to show."""
    return document(
        title, tag("p", message), tag("p", tag("a", "To the overview", href="/")), viewer=viewer
    )


def storage_meter(storage: ShownStorage) -> Html:
    """How full the store is, as a bar and in words."""
    words = f"{byte_count(storage.used_bytes)} of {byte_count(storage.limit_bytes)}"
    bar = tag(
        "meter",
        words,
        value=storage.used_bytes,
        min=0,
        max=max(storage.limit_bytes, 1),
        high=int(storage.limit_bytes * 0.9),
        aria_label="Storage",
    )
    return joined([bar, " ", words])


def byte_count(count: int) -> str:
    """A number of bytes for people: ``3.4 MiB``."""
    amount, unit = float(count), 0
    while amount >= _KILO and unit < len(_UNITS) - 1:
        amount, unit = amount / _KILO, unit + 1
    return f"{count} bytes" if unit == 0 else f"{amount:.1f} {_UNITS[unit]}"


def _fact(name: str, value: Html | str | None) -> tuple[Html, Html]:
    return tag("dt", name), tag("dd", value)


def _execution_row(execution: Execution) -> Html:
    note = (
        f"{execution.conflicts} conflict{'s' * (execution.conflicts != 1)}"
        if execution.conflicts
        else execution.error
    )
    return tag(
        "tr",
        tag("td", _state(execution)),
        tag("td", tag("a", execution.item_id, href=thread_link(execution.thread_id))),
        tag(
            "td",
            tag("a", execution.project_path, href=project_link(execution.project_path)),
        ),
        tag("td", _moment(execution.created_at)),
        tag("td", _moment(execution.completed_at)),
        tag("td", note),
    )


def _state(execution: Execution) -> Html:
    return tag("span", execution.state, class_=f"state {_state_class(execution)}")


def _state_class(execution: Execution) -> str:
    if execution.conflicts:
        return "warn"
    return {"completed": "good", "error": "bad"}.get(execution.state, "live")


def _project_row(project: Project) -> Html:
    return tag(
        "tr",
        tag("td", tag("a", project.project_path, href=project_link(project.project_path))),
        tag("td", _short(project.snapshot_hash)),
        tag("td", project.revision),
        tag("td", _moment(project.moved_at)),
    )


def _snapshot_row(snapshot: ShownSnapshot) -> Html:
    made_by: Html | str = caption(snapshot)
    if snapshot.thread_id:
        made_by = tag("a", caption(snapshot), href=thread_link(snapshot.thread_id))
    parents = (
        joined([" " * (index > 0), tag("a", _short(parent), href=f"#{snapshot_anchor(parent)}")])
        for index, parent in enumerate(snapshot.parents)
    )
    return tag(
        "tr",
        tag("td", _short(snapshot.digest)),
        tag("td", made_by),
        tag("td", _moment(snapshot.timestamp)),
        tag("td", *parents),
        id=snapshot_anchor(snapshot.digest),
    )


def _short(digest: str) -> Html:
    return tag("code", digest[:12], title=digest)


def _moment(moment: str) -> Html | None:
    """A time as the page shows it: the script turns it into the reader's own time zone."""
    if not moment:
        return None
    return tag("time", moment[:19].replace("T", " ") + " UTC", datetime=moment)
