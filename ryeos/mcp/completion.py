"""``completion/complete``: what an argument or a part of a URI may be.

Values that begin with what was typed come first, then those that have it inside.
"""

from collections.abc import Iterable
from typing import Any

from lillux.jsonrpc import INVALID_PARAMS
from ryeos.items.refs import EXECUTABLE_KINDS
from ryeos.mcp.listing import offered
from ryeos.mcp.outputs import SUFFIX, outputs_folder
from ryeos.mcp.prompts import inputs_of, ref_of
from ryeos.mcp.request_context import RequestContext, object_of, text_of
from ryeos.mcp.revisions import RpcError
from ryeos.mcp.uris import HELP_TEMPLATE, ITEM_TEMPLATE, OUTPUT_TEMPLATE

MAX_VALUES = 100
_KINDS = {kind.value: kind for kind in EXECUTABLE_KINDS}


def complete(request: RequestContext) -> dict[str, Any]:
    """Up to `MAX_VALUES` values. Raises RpcError for what has no such argument."""
    params = request.call.params
    reference, argument = object_of(params, "ref"), object_of(params, "argument")
    name = text_of(argument, "name", "argument.")
    typed = text_of(argument, "value", "argument.")
    match reference.get("type"):
        case "ref/prompt":
            values = _of_prompt(request, text_of(reference, "name", "ref."), name)
        case "ref/resource":
            values = _of_template(request, text_of(reference, "uri", "ref."), name)
        case _:
            raise RpcError(INVALID_PARAMS, "ref.type: expected ref/prompt or ref/resource")
    found = _matching(values, typed)
    shown = found[:MAX_VALUES]
    return {
        "completion": {"values": shown, "total": len(found), "hasMore": len(found) > len(shown)}
    }


def _of_prompt(request: RequestContext, prompt: str, argument: str) -> Iterable[str]:
    """The values that the input can have, where they are few; what was given before; the default.

    An input declares a type, and of all types only a boolean has few values.
    """
    if request.prompts == "none":
        raise RpcError(INVALID_PARAMS, f"unknown prompt: {prompt[:200]}")
    inputs = {one.name: one for one in inputs_of(request, ref_of(request, prompt))}
    entry = inputs.get(argument)
    if entry is None:
        raise RpcError(INVALID_PARAMS, f"{prompt} has no argument {argument[:100]}")
    default = [] if entry.default is None else [entry.default]
    prior = request.prior_values.of(prompt, argument)
    if entry.type == "boolean":
        return [*(value.lower() for value in default), "true", "false", *prior]
    return [*prior, *default]


def _of_template(request: RequestContext, template: str, variable: str) -> Iterable[str]:
    match template, variable:
        case (t, "kind") if t == ITEM_TEMPLATE:
            return sorted(_KINDS)
        case (t, "id") if t == ITEM_TEMPLATE:
            return _ids(request)
        case (t, "id") if t == OUTPUT_TEMPLATE:
            return _outputs(request)
        case (t, "topic") if t == HELP_TEMPLATE:
            from ryeos.app.help import topics

            return topics()
    raise RpcError(INVALID_PARAMS, f"no template {template[:200]} with {variable[:100]}")


def _ids(request: RequestContext) -> Iterable[str]:
    """The ids of one kind where it is known already, else those of all kinds."""
    given = object_of(object_of(request.call.params, "context"), "arguments").get("kind")
    kinds = [_KINDS[given]] if isinstance(given, str) and given in _KINDS else EXECUTABLE_KINDS
    return [record.location.ref.id for record in offered(request.rye, kinds)]


def _outputs(request: RequestContext) -> Iterable[str]:
    """The kept outputs, the newest first."""
    folder = outputs_folder(request.rye.context)
    dated = []
    for path in folder.glob(f"*{SUFFIX}"):
        try:
            dated.append((-path.stat().st_mtime_ns, path.stem))
        except OSError:  # gone meanwhile
            continue
    return [name for _, name in sorted(dated)]


def _matching(values: Iterable[str], typed: str) -> list[str]:
    wanted = typed.casefold()
    known = {value: value.casefold() for value in values}
    first = [value for value, folded in known.items() if folded.startswith(wanted)]
    inside = [
        value
        for value, folded in known.items()
        if wanted in folded and not folded.startswith(wanted)
    ]
    return first + inside
