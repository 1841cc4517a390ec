"""``rye search``: which items there are. Nothing is verified and nothing runs."""

import shutil
import sys
from collections.abc import Iterator
from typing import Any

from ryeos.cli.output import one_line
from ryeos.cli.plain_arguments import Arguments
from ryeos.cli.session import Command, Session
from ryeos.errors import UsageError
from ryeos.items import EXECUTABLE_KINDS, PROJECT, SYSTEM, USER, Kind, Reference
from ryeos.search import Hit, Query, Records, parse_query, preview, read_records, search

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
    add("--limit", metavar="N", type=int, default=10, help=f"1 to {MAX_LIMIT}, default 10")


def _run(session: Session) -> int:
    arguments = session.arguments
    if not 1 <= arguments.limit <= MAX_LIMIT:
        raise UsageError(f"--limit: expected 1 to {MAX_LIMIT}, found {arguments.limit}")
    query = parse_query(" ".join(arguments.query))
    kinds = EXECUTABLE_KINDS if arguments.type == ALL else (Kind(arguments.type),)
    tier = "" if arguments.space == ALL else arguments.space
    read = read_records(session.context.spaces, kinds, session.rye.verifier, tier=tier)
    hits = search(query, read.records)
    shown = hits[: arguments.limit]
    envelope: dict[str, Any] = {
        "status": "success",
        "mode": "query",
        "results": [_describe(hit) for hit in shown],
        "total": len(hits),
        "returned": len(shown),
        "query": " ".join(arguments.query),
        "item_type": arguments.type,
        "source": arguments.space,
        "limit": arguments.limit,
        "skipped": len(read.skipped),
        "search_type": "keyword",
    }
    if not hits:
        envelope["suggestions"] = list(_suggestions(session, query))
    _say(session, envelope, read)
    session.output.answer(envelope, "\n".join(_lines(session, shown)))
    return 0


def _describe(hit: Hit) -> dict[str, Any]:
    record, location = hit.record, hit.record.location
    described: dict[str, Any] = {
        "id": location.ref.id,
        "ref": str(location.ref),
        "type": location.ref.kind.value,
        "name": location.ref.name,
        "description": record.description,
        "category": location.ref.category,
        "score": hit.score,
        "source": location.space.tier,
        "path": str(location.path),
        "preview": preview(record),
        "signed": record.signed,
        "metadata": {"version": record.version, "tags": list(record.tags)},
    }
    if record.title:
        described["title"] = record.title
    if location.space.bundle_id:
        described["bundle"] = location.space.bundle_id
    if record.shadows:
        described["shadows"] = [{"source": label} for label in record.shadows]
    if record.shadowed_by:
        described["shadowed_by"] = record.shadowed_by
    return described


def _suggestions(session: Session, query: Query) -> tuple[str, ...]:
    """References that look like what was typed."""
    return session.rye.resolver.suggest(Reference(None, query.text))


def _say(session: Session, envelope: dict[str, Any], read: Records) -> None:
    output = session.output
    if not envelope["total"]:
        close = ", ".join(envelope["suggestions"])
        output.note("nothing matches" + (f"; did you mean {close}?" if close else ""))
    elif envelope["total"] > envelope["returned"]:
        output.note(f"{envelope['total']} items match; more of them with --limit N")
    if read.skipped:
        output.note(f"{len(read.skipped)} items could not be read (-v names them)")
    for location in read.skipped if session.arguments.verbose else ():
        output.note(f"  {location.ref}: {one_line(str(location.path))}")


def _lines(session: Session, hits: list[Hit]) -> Iterator[str]:
    """Score, space, reference, description; cut to the width of a terminal."""
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else 0
    longest = max((len(str(hit.record.location.ref)) for hit in hits), default=0)
    for hit in hits:
        location = hit.record.location
        mark = _SPACE_MARKS[location.space.tier]
        ref = f"{one_line(str(location.ref)):<{longest}}"
        notes = [f"hidden by {hit.record.shadowed_by}"] if hit.record.shadowed_by else []
        notes += [] if hit.record.signed else ["unsigned"]
        tail = f"  ({', '.join(notes)})" if notes else ""
        about = one_line(hit.record.title or hit.record.description)
        line = _cut(f"{hit.score:.2f}  {mark}  {ref}  {about}{tail}", width)
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
            "rye search '*' --space project --json",
        ],
    )
}
