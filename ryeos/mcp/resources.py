"""Items, kept outputs and help as resources: ``resources/list``, ``templates/list``, ``read``.

Listed is the knowledge of project and user. Everything else is read by its URI, which templates
and completion tell of.
"""

import json
from base64 import b64encode
from datetime import UTC, datetime
from functools import partial
from typing import Any

from lillux.errors import LilluxError
from lillux.jsonrpc import INVALID_PARAMS
from ryeos.items.errors import ItemNotFoundError
from ryeos.items.refs import PROJECT, USER, ItemRef, Kind, Reference
from ryeos.mcp.listing import LISTED_TIERS, listed, mime_type, offered, verified
from ryeos.mcp.outputs import output_path
from ryeos.mcp.request_context import RequestContext, refusal, text_of
from ryeos.mcp.revisions import RpcError
from ryeos.mcp.uris import TEMPLATES, HelpTopic, ProposalName, StoredOutput, item_uri, parse_uri
from ryeos.search.records import Record

UNKNOWN_IN_LEGACY = -32002
_PRIORITIES = {PROJECT: 0.8, USER: 0.5}
_PLAIN = "text/plain"


def list_resources(request: RequestContext) -> dict[str, Any]:
    """A page of the knowledge that may be read: that which verifies. Raises RpcError."""
    records = offered(request.rye, [Kind.KNOWLEDGE], LISTED_TIERS)
    by_uri = {item_uri(record.location.ref): record for record in records}
    return listed("resources", by_uri, request.call.params, partial(_entry, request))


def list_templates(request: RequestContext) -> dict[str, Any]:
    """The templates of further URIs. Raises RpcError."""
    by_uri = {one["uriTemplate"]: one for one in TEMPLATES}
    return listed("resourceTemplates", by_uri, request.call.params, lambda _, one: dict(one))


def read_resource(request: RequestContext) -> dict[str, Any]:
    """The text of a resource. Raises RpcError."""
    uri = text_of(request.call.params, "uri")
    named = parse_uri(uri)
    found: tuple[str, str | bytes] | None = None
    rest: dict[str, Any] = {}
    try:
        match named:
            case ItemRef():
                found = _item(request, named)
            case StoredOutput():
                part = _output(request, named)
                found = (_PLAIN, part["text"]) if part else None
                rest = part or {}
            case HelpTopic(name):
                found = _help(request, name)
            case ProposalName():
                found = _proposal(request, named)
            case None if request.skills:
                found = _skill(request, uri)
    except ItemNotFoundError:
        pass
    except LilluxError as error:
        raise refusal(error, uri=uri) from None
    if found is None:
        code = INVALID_PARAMS if request.call.caller.is_modern else UNKNOWN_IN_LEGACY
        raise RpcError(code, f"unknown resource: {uri[:200]}", {"uri": uri[:2000]})
    media_type, data = found
    said = {"text": data} if isinstance(data, str) else {"blob": b64encode(data).decode()}
    return {"contents": [{**rest, "uri": uri, "mimeType": media_type, **said}]}


def _entry(request: RequestContext, uri: str, record: Record) -> dict[str, Any] | None:
    found = verified(request.rye, record.location.ref)
    if not found:
        return None
    location, item = found[0].location, found[1]
    modified = datetime.fromtimestamp(record.modified_ns / 1e9, UTC)
    described = {"title": record.title, "description": record.description}
    return {
        "uri": uri,
        "name": location.ref.id,
        **{name: text for name, text in described.items() if text},
        "mimeType": mime_type(location.suffix),
        "size": len(item.data),
        "annotations": {
            "lastModified": modified.isoformat(timespec="seconds").replace("+00:00", "Z"),
            "priority": _PRIORITIES.get(location.space.tier, 0.5),
        },
    }


def _item(request: RequestContext, ref: ItemRef) -> tuple[str, str]:
    """An item's type and its whole text, as it was signed."""
    resolution, item = request.rye.load(Reference(ref.kind, ref.id))
    return mime_type(resolution.location.suffix), item.data.decode("utf-8", "replace")


def _output(request: RequestContext, named: StoredOutput) -> dict[str, Any] | None:
    path = output_path(request.rye.context, named.name)
    if path.is_symlink():
        return None
    from ryeos.mcp.outputs import outputs_within, read_output

    try:
        return read_output(path, named, within=outputs_within(request.rye.context))
    except FileNotFoundError:
        return None


def _proposal(request: RequestContext, named: ProposalName) -> tuple[str, str] | None:
    """The state of a proposal, and no more of it: its file is for a person."""
    from ryeos.app.proposals import Proposals

    state = Proposals(request.rye.context.spaces.user).state(named.id)
    return ("application/json", json.dumps({"id": named.id, "state": state})) if state else None


def _help(request: RequestContext, topic: str) -> tuple[str, str] | None:
    from ryeos.app.help import AVAILABLE, help_on

    envelope = help_on(lambda: request.rye, topic.strip()).envelope
    known = envelope["topic"] != AVAILABLE and topic.strip()
    return ("text/markdown", str(envelope["content"])) if known else None


def _skill(request: RequestContext, uri: str) -> tuple[str, str | bytes] | None:
    """A file of a skill: its text, or its bytes where these are no text."""
    from ryeos.mcp.skills import skill_file

    found = skill_file(request, uri)
    if found is None:
        return None
    try:
        return found.mime_type, found.data.decode()
    except UnicodeDecodeError:
        return found.mime_type, found.data
