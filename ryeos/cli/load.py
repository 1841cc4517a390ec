"""``rye load``: print an item as it is, or copy it to a space."""

from collections.abc import Mapping
from typing import Any

from ryeos.cli.output import escaped
from ryeos.cli.plain_arguments import Arguments
from ryeos.cli.session import Command, Session
from ryeos.items import PROJECT, SYSTEM, USER
from ryeos.mcp.tools.load import LoadRequest, load_item


def _configure(parser: Arguments) -> None:
    add = parser.add_argument
    add("ref", metavar="REF", help="kind:id, or an id")
    add("--to", choices=(PROJECT, USER), help="copy it there, byte for byte")
    add("--overwrite", action="store_true", help="replace another file; it is kept as .bak")
    add("--siblings", action="store_true", help="also copy the files that the tool imports")
    add("--source", choices=(PROJECT, USER, SYSTEM), default=PROJECT, help="from there down")
    add("--meta", action="store_true", help="print the metadata")


def _run(session: Session) -> int:
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
    session.output.answer(answer.envelope, _text(session, answer.envelope))
    return answer.exit_status


def _text(session: Session, envelope: Mapping[str, Any]) -> str:
    """The new path of a copy, the metadata, or the item as it is."""
    if "destination_path" in envelope:
        if envelope.get("unchanged"):
            session.output.note(f"it is in the {envelope['copied_to']} space already")
        return str(envelope["destination_path"])
    if session.arguments.meta:
        import json

        return escaped(json.dumps(envelope["metadata"], ensure_ascii=False, indent=2, default=str))
    return str(envelope["content"])


COMMANDS = {
    "load": Command(
        _configure, _run, ["rye load tool:rye/bash/bash", "rye load rye/bash/bash --to project"]
    )
}
