"""Conflicts of an execution with HEAD, both versions side by side. Pure."""

import difflib
from collections.abc import Iterable, Sequence

from rye_services.node.page.markup import Html, joined, tag
from rye_services.node.page.model import Absence, Conflict, Side

MOST_CONFLICTS = 20
"""Shown whole; of the others only their paths."""

MOST_COMPARED = 2_000
"""Lines of a side beyond which changed lines are not marked: comparing takes their square."""


def conflict_section(thread_id: str, conflicts: tuple[Conflict, ...]) -> Html | None:
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


def _conflict(conflict: Conflict) -> Html:
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


def _marked(conflict: Conflict) -> tuple[Html, Html]:
    """Both sides, the lines marked in which they differ."""
    ours, theirs = conflict.ours.content, conflict.theirs.content
    if isinstance(ours, Absence) or isinstance(theirs, Absence):
        return _plain(conflict.ours), _plain(conflict.theirs)
    left, right = ours.splitlines(keepends=True), theirs.splitlines(keepends=True)
    if max(len(left), len(right)) > MOST_COMPARED:
        return _plain(conflict.ours), _plain(conflict.theirs)
    blocks = difflib.SequenceMatcher(None, left, right, autojunk=False).get_opcodes()
    return (
        _lines((kind, left[start:end]) for kind, start, end, _, _ in blocks),
        _lines((kind, right[start:end]) for kind, _, _, start, end in blocks),
    )


def _lines(blocks: Iterable[tuple[str, Sequence[str]]]) -> Html:
    parts = (
        "".join(lines) if kind == "equal" else tag("mark", "".join(lines)) if lines else None
        for kind, lines in blocks
    )
    return tag("pre", *parts, tabindex=0)
