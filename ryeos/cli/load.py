"""``rye load``: print an item as it is, or copy it to a space."""

from ryeos.cli.plain_arguments import Arguments
from ryeos.cli.session import Command, Session
from ryeos.errors import CopyConflictError
from ryeos.extractors import extract
from ryeos.items import PROJECT, SYSTEM, USER, Resolution
from ryeos.verify import VerifiedItem


def _configure(parser: Arguments) -> None:
    add = parser.add_argument
    add("ref", metavar="REF", help="kind:id, or an id")
    add("--to", choices=(PROJECT, USER), help="copy it there, byte for byte")
    add("--overwrite", action="store_true", help="replace another file; it is kept as .bak")
    add("--source", choices=(PROJECT, USER, SYSTEM), default=PROJECT, help="from there down")


def _run(session: Session) -> int:
    arguments = session.arguments
    reference = session.rye.reference(arguments.ref)
    resolution, item = session.rye.load(reference, source=arguments.source)
    location = resolution.location
    text = item.data.decode("utf-8")
    envelope = {
        "status": "success",
        "mode": "id",
        "ref": str(location.ref),
        "path": str(location.path),
        "source": location.space.label,
        "content": text,
        "metadata": _metadata(resolution, item),
        "total_chars": len(text),
    }
    if arguments.to and arguments.to == location.space.label:
        session.output.note(f"it is in the {arguments.to} space already")
        text = str(location.path)
        envelope |= {"copied_to": arguments.to, "destination_path": text, "unchanged": True}
    elif arguments.to:
        text = _copy(session, resolution, item)
        envelope |= {"copied_to": arguments.to, "destination_path": text}
        envelope["warnings"] = ["sign it again after you change it"]
    session.output.answer(envelope, text)
    return 0


def _copy(session: Session, resolution: Resolution, item: VerifiedItem) -> str:
    space = session.rye.space(session.arguments.to)
    try:
        path, unchanged = session.rye.copy(
            resolution, item, space, overwrite=session.arguments.overwrite
        )
    except FileExistsError as error:
        raise CopyConflictError(str(error)) from None
    session.output.note("it was there already" if unchanged else "sign it again after a change")
    return str(path)


def _metadata(resolution: Resolution, item: VerifiedItem) -> dict[str, object]:
    location = resolution.location
    header = item.header or extract(
        location.ref.kind, location.suffix, item.text, str(location.path)
    )
    kept = ("version", "description", "title", "tool_type", "entry_type", "tags", "author")
    return {
        "name": location.ref.name,
        "category": location.ref.category,
        "extension": location.suffix,
        **{name: header[name] for name in kept if name in header},
    }


COMMANDS = {
    "load": Command(
        _configure, _run, ["rye load tool:rye/bash/bash", "rye load rye/bash/bash --to project"]
    )
}
