"""``rye load`` and ``rye search``."""

import shutil
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from lillux.foreign_text import escaped, one_line
from ryeos.app.command_line import Arguments, CommandSpec
from ryeos.app.load import LoadRequest, load_item
from ryeos.app.search import search_checked
from ryeos.cli.session import Session
from ryeos.items.errors import UsageError
from ryeos.items.refs import PROJECT, SYSTEM, USER, Kind

# --- load -----------------------------------------------------------------------------------------


def _configure_load(parser: Arguments) -> None:
    add = parser.add_argument
    add("ref", metavar="REF", help="kind:id, or an id", offers="refs")
    add("--to", choices=(PROJECT, USER), help="copy it there, byte for byte")
    add("--overwrite", action="store_true", help="replace another file; it is kept in user space")
    add("--siblings", action="store_true", help="also copy the files that the tool imports")
    add("--source", choices=(PROJECT, USER, SYSTEM), default=PROJECT, help="from there down")
    add("--meta", action="store_true", help="print the metadata")


def _run_load(session: Session) -> int:
    arguments = session.arguments
    request = LoadRequest(
        reference=session.rye.reference(arguments.ref),
        source=arguments.source,
        destination=arguments.to or "",
        overwrite=arguments.overwrite,
        include_siblings=arguments.siblings,
        max_chars=None,
    )
    answer = load_item(session.rye, request)
    for warning in answer.envelope.get("warnings", ()):
        session.output.note(warning)
    session.output.answer(answer.envelope, _loaded_text(session, answer.envelope))
    return answer.exit_status


def _loaded_text(session: Session, envelope: Mapping[str, Any]) -> str:
    """The new path of a copy, the metadata, or the item as it is."""
    if "destination_path" in envelope:
        if envelope.get("unchanged"):
            session.output.note(f"it is in the {envelope['copied_to']} space already")
        return str(envelope["destination_path"])
    if session.arguments.meta:
        import json

        return escaped(json.dumps(envelope["metadata"], ensure_ascii=False, indent=2, default=str))
    return str(envelope["content"])


# --- search ---------------------------------------------------------------------------------------
# ``rye search``: which items there are. Nothing is verified and nothing runs.

ALL = "all"
MAX_LIMIT = 100
_SPACE_MARKS = {PROJECT: "p", USER: "u", SYSTEM: "s"}


def _configure_search(parser: Arguments) -> None:
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


def _run_search(session: Session) -> int:
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
    if not envelope["total"] and session.no_project:
        session.output.note(session.no_project)
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
        notes += (
            [] if hit["signed"] else [hit.get("integrity", "UNSIGNED").lower().replace("_", " ")]
        )
        tail = f"  ({', '.join(notes)})" if notes else ""
        about = one_line(hit["description"] or hit["title"])
        line = _cut(f"{hit['score']:.2f}  {ref}  {mark}  {about}{tail}", width)
        yield line.replace(ref, session.output.paint(ref, "bold"), 1)


def _cut(line: str, width: int) -> str:
    """The line, cut to the width, unless that is 0. Blanks inside stay."""
    return line if not width or len(line) <= width else f"{line[: width - 1]}…"


LOAD = CommandSpec(
    _configure_load,
    _run_load,
    ["rye load tool:rye/bash/bash", "rye load rye/bash/bash --to project"],
)
SEARCH = CommandSpec(
    _configure_search,
    _run_search,
    [
        "rye search bash",
        "rye search shell command --type tool",
        "rye search 'description:image -video'",
        "rye search '*' --space project --json",
    ],
)
