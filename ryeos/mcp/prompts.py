"""Directives as prompts: ``prompts/list`` and ``prompts/get``.

A prompt's name is the id of its directive in the letters that every client takes. Names are given
to all directives in question, whether they verify or not, so that a file that is changed never
changes the name of another one.
"""

import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from lillux.errors import LilluxError
from lillux.jsonrpc import INVALID_PARAMS
from ryeos.items.directives import DirectiveInput, parse_directive
from ryeos.items.errors import DirectiveInputError, ItemNotFoundError
from ryeos.items.header_values import MetadataError
from ryeos.items.refs import SYSTEM, ItemRef, Kind, Reference
from ryeos.mcp.listing import listed, offered, verified
from ryeos.mcp.questions import (
    Question,
    can_ask,
    has_responses,
    input_required,
    primitive,
    response_of,
)
from ryeos.mcp.request_context import RequestContext, object_of, refusal, text_of
from ryeos.mcp.revisions import RpcError
from ryeos.run.model import ExecutionRequest
from ryeos.search.records import Record

MAX_NAME_CHARACTERS = 64
TAG = "prompt"
INPUTS = "inputs"
_OTHER_CHARACTERS = re.compile(r"[^A-Za-z0-9_.-]")


def list_prompts(request: RequestContext) -> dict[str, Any]:
    """A page of the prompts that may be used: those that verify. Raises RpcError."""
    names = prompt_names(request)
    return listed("prompts", names, request.call.params, partial(_entry, request))


def get_prompt(request: RequestContext) -> dict[str, Any]:
    """A directive, filled in. Raises RpcError."""
    name = text_of(request.call.params, "name")
    ref = ref_of(request, name)
    given = _texts(object_of(request.call.params, "arguments"))
    declared = inputs_of(request, ref)
    parameters: dict[str, Any] = _worth_giving(given, declared)
    missing = [one for one in declared if _is_missing(one, parameters)]
    if missing and has_responses(request.call):
        parameters |= _filled_in(request, missing)
    elif missing and can_ask(request.call.caller):
        return input_required(request.states, request.call, INPUTS, _question(ref, missing))
    envelope = _rendered(request, ref, parameters)
    request.prior_values.remember(name, given)
    description = envelope["metadata"].get("description") or ref.id
    content = {"type": "text", "text": envelope["your_directions"]}
    return {"description": description, "messages": [{"role": "user", "content": content}]}


def prompt_names(request: RequestContext) -> dict[str, ItemRef]:
    """Every prompt's name, in the order of the ids, and its directive."""
    return named(directive_refs(request))


def directive_refs(request: RequestContext) -> list[ItemRef]:
    """The directives that are offered, in the order of their ids; nothing is verified."""
    records = offered(request.rye, [Kind.DIRECTIVE])
    return [record.location.ref for record in records if _is_prompt(record, request.prompts)]


def named(refs: Sequence[ItemRef]) -> dict[str, ItemRef]:
    """A name of its own for each of these, in their order; the later of two gets a number."""
    names: dict[str, ItemRef] = {}
    for ref in refs:
        plain = _OTHER_CHARACTERS.sub("_", ref.id.replace("/", "."))[:MAX_NAME_CHARACTERS]
        name, number = plain, 2
        while name in names:
            suffix = f"_{number}"
            name = f"{plain[: MAX_NAME_CHARACTERS - len(suffix)]}{suffix}"
            number += 1
        names[name] = ref
    return names


def ref_of(request: RequestContext, name: str) -> ItemRef:
    """The directive of a prompt. Raises RpcError."""
    ref = prompt_names(request).get(name)
    if ref is None:
        raise RpcError(INVALID_PARAMS, f"unknown prompt: {name[:200]}")
    return ref


def inputs_of(request: RequestContext, ref: ItemRef) -> Sequence[DirectiveInput]:
    """The inputs of a directive, once it is verified. Raises RpcError."""
    try:
        _, item = request.rye.load(Reference(ref.kind, ref.id))
        return parse_directive(item.text).inputs
    except LilluxError as error:
        raise _prompt_error(error) from None


def _is_prompt(record: Record, choice: str) -> bool:
    if choice == "all" or record.location.space.tier != SYSTEM:
        return True
    return TAG in record.tags


def _entry(request: RequestContext, name: str, ref: ItemRef) -> dict[str, Any] | None:
    """A line of the list, None for a directive that cannot be used as it is."""
    found = verified(request.rye, ref)
    if not found:
        return None
    try:
        directive = parse_directive(found[1].text)
    except MetadataError:
        return None
    return {
        "name": name,
        "title": ref.id,
        "description": directive.description,
        "arguments": [_argument(one) for one in directive.inputs],
    }


def _argument(entry: DirectiveInput) -> dict[str, Any]:
    facts = [entry.type or "string"]
    if entry.default is not None:
        facts.append(f"default {entry.default}")
    description = " ".join(entry.description.split())
    return {
        "name": entry.name,
        "description": f"{description} ({', '.join(facts)})".strip(),
        "required": entry.required and entry.default is None,
    }


def _texts(arguments: Mapping[str, Any]) -> dict[str, str]:
    for name, value in arguments.items():
        if not isinstance(value, str):
            raise RpcError(INVALID_PARAMS, f"arguments.{name[:100]}: expected a string")
    return dict(arguments)


def _worth_giving(given: Mapping[str, str], declared: Sequence[DirectiveInput]) -> dict[str, Any]:
    """Without the empty fields of a form, where an empty text can be no value."""
    types = {one.name: one.type for one in declared}
    return {
        name: value
        for name, value in given.items()
        if value or types.get(name, "string") in {None, "string"}
    }


def _is_missing(entry: DirectiveInput, parameters: Mapping[str, Any]) -> bool:
    return entry.required and entry.default is None and entry.name not in parameters


def _question(ref: ItemRef, missing: Sequence[DirectiveInput]) -> Question:
    names = ", ".join(one.name for one in missing)
    properties = {
        one.name: primitive(one.type, " ".join(one.description.split())) for one in missing
    }
    return Question(f"{ref} needs {names}", properties)


def _filled_in(request: RequestContext, missing: Sequence[DirectiveInput]) -> dict[str, Any]:
    """The user's answers to what was missing, and to nothing else."""
    content = response_of(request.states, request.call, INPUTS) or {}
    names = {one.name for one in missing}
    return {name: value for name, value in content.items() if name in names}


def _rendered(
    request: RequestContext, ref: ItemRef, parameters: Mapping[str, Any]
) -> Mapping[str, Any]:
    execution = ExecutionRequest(item_id=ref.id, parameters=parameters)
    try:
        return request.rye.execute(Reference(ref.kind, ref.id), execution).envelope
    except DirectiveInputError as error:
        data = {"code": error.code, "details": list(error.details)}
        raise RpcError(INVALID_PARAMS, str(error), data) from None
    except LilluxError as error:
        raise _prompt_error(error) from None


def _prompt_error(error: LilluxError) -> RpcError:
    if isinstance(error, ItemNotFoundError):
        return RpcError(INVALID_PARAMS, str(error))
    return refusal(error)
