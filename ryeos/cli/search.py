"""``rye search``: which items there are. Nothing is verified and nothing runs."""

import shutil
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from ryeos.cli.output import one_line
from ryeos.cli.plain_arguments import Arguments
from ryeos.cli.session import Command, Session
from ryeos.errors import UsageError
from ryeos.items import PROJECT, SYSTEM, USER, Kind
from ryeos.mcp.tools.search import search_checked

ALL = "all"
MAX_LIMIT = 100
_SPACE_MARKS = {PROJECT: "p", USER: "u", SYSTEM: "s"}


def _configure(parser: Arguments) -> None:
    add = parser.add_argument
    add("query", metavar="QUERY", nargs="*", help="words; nothing or '*' for everything")
    add(
        "--type",
        choices=[*(kind.value for kind in Kind), ALL],
        default=ALL,
        help="default: all but config",
    )
    add("--space", choices=(PROJECT, USER, SYSTEM, ALL), default=ALL, help="default: all")
    add("--scope", metavar="SCOPE", help="a kind and the start of an id, like tool.rye.core")
    add("--limit", metavar="N", type=int, default=10, help=f"1 to {MAX_LIMIT}, default 10")
    add("--offset", metavar="N", type=int, default=0, help="hits to skip")
    add("--sort", choices=("score", "date", "name"), default="score", help="default: score")
    add("-l", "--ids", action="store_true", help="print references only")
    add("--fail-empty", action="store_true", help="end with status 1 if nothing matches")


def _run(session: Session) -> int:
    arguments = session.arguments
    if not 1 <= arguments.limit <= MAX_LIMIT:
        raise UsageError(
            f"--limit: expected 1 to {MAX_LIMIT}, found {arguments.limit}",
            hint="leave it out for 10; --offset goes on behind them",
        )
    if arguments.offset < 0:
        raise UsageError(f"--offset: expected 0 or more, found {arguments.offset}")
    values = {
        "query": " ".join(arguments.query),
        "item_type": arguments.type,
        "source": arguments.space,
        "limit": arguments.limit,
        "offset": arguments.offset,
        "sort_by": arguments.sort,
        **({"scope": arguments.scope} if arguments.scope else {}),
    }
    envelope = search_checked(session.rye, values).envelope
    _say(session, envelope)
    lines = _refs(envelope) if arguments.ids else _lines(session, envelope["results"])
    session.output.answer(envelope, "\n".join(lines))
    return 1 if arguments.fail_empty and not envelope["total"] else 0


def _say(session: Session, envelope: Mapping[str, Any]) -> None:
    output = session.output
    if not envelope["total"]:
        close = ", ".join(envelope.get("suggestions", ()))
        output.note("nothing matches" + (f"; did you mean {close}?" if close else ""))
    elif "next_offset" in envelope:
        output.note(f"{envelope['total']} items match; more of them with --limit N")
    if "relaxed" in envelope:
        near = "words spelled nearly so" if envelope["relaxed"] == "fuzzy" else "some of the words"
        output.note(f"nothing matches as typed; these match {near}")
    if envelope["skipped"]:
        output.note(f"{envelope['skipped']} items could not be read (-v names them)")
    for item in envelope.get("skipped_items", ()) if session.arguments.verbose else ():
        output.note(f"  {one_line(item['ref'])}: {one_line(item['path'])}")


def _refs(envelope: Mapping[str, Any]) -> Iterator[str]:
    return (one_line(hit["ref"]) for hit in envelope["results"])


def _lines(session: Session, hits: list[dict[str, Any]]) -> Iterator[str]:
    """Score, reference, space, description; cut to the width of a terminal."""
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else 0
    longest = max((len(hit["ref"]) for hit in hits), default=0)
    for hit in hits:
        mark = _SPACE_MARKS[hit["source"]]
        ref = f"{one_line(hit['ref']):<{longest}}"
        notes = [f"hidden by {hit['shadowed_by']}"] if "shadowed_by" in hit else []
        notes += [] if hit["signed"] else ["unsigned"]
        tail = f"  ({', '.join(notes)})" if notes else ""
        about = one_line(hit["description"] or hit["title"])
        line = _cut(f"{hit['score']:.2f}  {ref}  {mark}  {about}{tail}", width)
        yield line.replace(ref, session.output.paint(ref, "bold"), 1)


def _cut(line: str, width: int) -> str:
    """The line, cut to the width, unless that is 0. Blanks inside stay."""
    return line if not width or len(line) <= width else f"{line[: width - 1]}…"


COMMANDS = {
    "search": Command(
        _configure,
        _run,
        [
            "rye search bash",
            "rye search shell command --type tool",
            "rye search 'description:image -video'",
            "rye search '*' --space project --json",
        ],
    )
}
