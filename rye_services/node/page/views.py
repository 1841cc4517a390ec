"""The pages, as text. Pure: values in, HTML out."""

from rye_services.node.page import links
from rye_services.node.page.conflict_view import conflict_section
from rye_services.node.page.history_svg import caption, history_svg
from rye_services.node.page.markup import Html, joined, tag
from rye_services.node.page.model import (
    Execution,
    History,
    Overview,
    Project,
    Snapshot,
    Storage,
    Thread,
    Viewer,
)
from rye_services.node.page.shell import document, table

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
            action=links.LOGIN,
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
    return tag("section", listed, id="executions", data_live=links.EXECUTIONS)


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


def thread_page(thread: Thread, viewer: Viewer) -> str:
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


def storage_meter(storage: Storage) -> Html:
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
        tag("td", tag("a", execution.item_id, href=links.thread_link(execution.thread_id))),
        tag(
            "td",
            tag("a", execution.project_path, href=links.project_link(execution.project_path)),
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
        tag("td", tag("a", project.project_path, href=links.project_link(project.project_path))),
        tag("td", _short(project.snapshot_hash)),
        tag("td", project.revision),
        tag("td", _moment(project.moved_at)),
    )


def _snapshot_row(snapshot: Snapshot) -> Html:
    made_by: Html | str = caption(snapshot)
    if snapshot.thread_id:
        made_by = tag("a", caption(snapshot), href=links.thread_link(snapshot.thread_id))
    parents = (
        joined(
            [" " * (index > 0), tag("a", _short(parent), href=f"#{links.snapshot_anchor(parent)}")]
        )
        for index, parent in enumerate(snapshot.parents)
    )
    return tag(
        "tr",
        tag("td", _short(snapshot.digest)),
        tag("td", made_by),
        tag("td", _moment(snapshot.timestamp)),
        tag("td", *parents),
        id=links.snapshot_anchor(snapshot.digest),
    )


def _short(digest: str) -> Html:
    return tag("code", digest[:12], title=digest)


def _moment(moment: str) -> Html | None:
    """A time as the page shows it: the script turns it into the reader's own time zone."""
    if not moment:
        return None
    return tag("time", moment[:19].replace("T", " ") + " UTC", datetime=moment)
