"""Renders directives and knowledge: inputs are validated, then written into the text once. Pure.

The engine carries nothing out: the caller, a person or an agent, follows ``your_directions``.
References: ``{input:k}`` (stays when not given), ``{input:k?}`` (empty then),
``{input:k:default}``, ``{input:k|default}``, ``${inputs.k}``, ``{env:NAME}`` and
``{env:NAME:default}``.
What is inserted is never read again. See ``docs/writing-directives.md``.
"""

import json
import re
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from types import MappingProxyType
from typing import Any

from lillux.canonical_json import CanonicalJsonError, require_json
from ryeos.items.directives import (
    INPUT_PATTERN,
    Directive,
    DirectiveInput,
    DirectiveOutput,
    parse_directive,
)
from ryeos.items.errors import DirectiveInputError
from ryeos.items.knowledge import parse_knowledge
from ryeos.items.markdown import count_signature_lines
from ryeos.items.refs import ItemRef

# Parameters that steer a run and are no inputs, unless a directive declares one so named.
STEERING = frozenset({"model", "limit_overrides", "previous_thread_id", "thread", "async"})
# What a text may ask of the environment: any other variable could be a secret.
ENV_ALLOWED = ("USER_SPACE", "AI_DIR", "PROJECT_PATH", "HOME", "PWD", "LANG", "TZ", "RYE_*")
DIRECTIVE_INSTRUCTIONS = "Carry out your_directions now."

_REFERENCE = re.compile(
    r"\{env:(?P<env>[A-Za-z_][A-Za-z0-9_]*)(?::(?P<env_default>[^{}]*))?\}"
    rf"|{INPUT_PATTERN}"
    r"|\$\{inputs\.(?P<dotted>[A-Za-z_][\w-]*)\}"
)
_TYPES: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "object": (dict,),
    "array": (list,),
}


def render_directive(
    text: str,
    ref: ItemRef,
    parameters: Mapping[str, Any],
    env: Mapping[str, str],
    *,
    dry_run: bool = False,
    trace: bool = False,
    own_values: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, Any]:
    """The envelope with the directions; ``warnings`` when something stayed unfilled.

    With ``trace`` there is ``data``: all that its header says. ``own_values`` stand in place of the
    variables they are named like. Raises MetadataError, DirectiveInputError.
    """
    env = {**env, **own_values}
    directive = parse_directive(text)
    inputs = valid_inputs(directive.inputs, parameters, str(ref))
    warnings: list[str] = []
    directions = interpolate(directive.body or directive.xml, inputs, env, warnings)
    envelope: dict[str, Any] = {
        "status": "success",
        "type": "directive",
        "item_id": ref.id,
        "your_directions": directions,
        "body": directions,
        "inputs": inputs,
        "outputs": [_output_as_json(output) for output in directive.outputs],
        "permissions": list(directive.permissions),
        "instructions": DIRECTIVE_INSTRUCTIONS,
        "metadata": {"version": directive.version, "description": directive.description},
        "warnings": warnings,
    }
    if trace:
        envelope["data"] = _header_of(directive) | {"body": directive.body}
    if dry_run:
        message = f"{ref} would render: every input fits"
        envelope |= {
            "status": "validation_passed",
            "message": message,
            "data": _header_of(directive),
        }
        del envelope["your_directions"], envelope["body"], envelope["instructions"]
    return envelope


def input_schema(text: str) -> dict[str, Any]:
    """The inputs of a directive as a JSON schema. Raises MetadataError."""
    inputs = parse_directive(text).inputs
    return {
        "type": "object",
        "properties": {entry.name: _schema(entry) for entry in inputs},
        "required": [entry.name for entry in inputs if entry.required and entry.default is None],
    }


def _schema(entry: DirectiveInput) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": entry.type} if entry.type in _TYPES else {}
    if entry.description:
        schema["description"] = entry.description
    if entry.default is not None:
        schema["default"] = _coerced(entry.default, entry.type)
    return schema


def valid_inputs(
    declared: Sequence[DirectiveInput], parameters: Mapping[str, Any], ref: str
) -> dict[str, Any]:
    """The inputs with defaults, in declaration order, each of its declared type.

    Without any declared input everything passes. Raises DirectiveInputError with all problems.
    """
    try:
        require_json(dict(parameters))
    except CanonicalJsonError as error:
        described = [_describe(entry) for entry in declared]
        raise DirectiveInputError(ref, [str(error)], described) from error
    names = [entry.name for entry in declared]
    given = {k: v for k, v in parameters.items() if k not in STEERING or k in names}
    if not declared:
        return given
    problems = []
    unknown = [name for name in given if name not in names]
    if unknown:
        problems.append(
            f"Unknown parameters: {', '.join(unknown)}. Valid inputs: {', '.join(names)}"
        )
    missing = [e.name for e in declared if e.required and e.default is None and e.name not in given]
    if missing:
        problems.append(f"Missing required inputs: {', '.join(missing)}")
    inputs, wrong = _typed_inputs(declared, given)
    if wrong:
        problems.append(f"Invalid input types: {', '.join(wrong)}")
    if problems:
        raise DirectiveInputError(ref, problems, [_describe(entry) for entry in declared])
    return inputs


def interpolate(
    text: str, inputs: Mapping[str, Any], env: Mapping[str, str], warnings: list[str]
) -> str:
    """The text with every reference replaced, left to right, once."""

    def replacement(match: re.Match[str]) -> str:
        if match["env"]:
            return _env_value(match, env, warnings)
        name = match["input"] or match["dotted"]
        if name in inputs:
            return as_prose(inputs[name])
        if match["optional"]:
            return ""
        default = match["default"]
        return match.group() if default is None else default

    return _REFERENCE.sub(replacement, text)


def as_prose(value: object) -> str:
    """A value as it stands in a text: strings as they are, all else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _env_value(match: re.Match[str], env: Mapping[str, str], warnings: list[str]) -> str:
    from lillux.secret_names import says_secret

    name, default = match["env"], match["env_default"]
    allowed = any(fnmatchcase(name, pattern) for pattern in ENV_ALLOWED)
    if not allowed or says_secret(name):
        warnings.append(f"{{env:{name}}} is left as it is: a directive may not read this variable")
        return match.group()
    return env.get(name, match.group() if default is None else default)


def _typed_inputs(
    declared: Sequence[DirectiveInput], given: Mapping[str, Any]
) -> tuple[dict[str, Any], list[str]]:
    inputs: dict[str, Any] = {}
    wrong: list[str] = []
    for entry in declared:
        if entry.name in given:
            value = given[entry.name]
        elif entry.default is not None:
            value = entry.default
        else:
            continue
        inputs[entry.name] = value = _coerced(value, entry.type)
        expected = _TYPES.get(entry.type or "")
        is_misplaced_bool = isinstance(value, bool) and entry.type != "boolean"
        if expected and (not isinstance(value, expected) or is_misplaced_bool):
            found = repr(value[:40]) if isinstance(value, str) else as_prose(value)[:40]
            wrong.append(f"{entry.name} (expected {entry.type}, got {found})")
    return inputs, wrong


def _coerced(value: object, type_name: str | None) -> object:
    """Text for an input of another type is read as JSON, as the command line and files give it."""
    if not isinstance(value, str) or type_name in (None, "string") or type_name not in _TYPES:
        return value
    try:
        parsed: object = json.loads(value)
        require_json(parsed)
    except (ValueError, RecursionError, CanonicalJsonError):
        return value
    return parsed


def _header_of(directive: Directive) -> dict[str, Any]:
    """The header, for a reader who decides whether to follow a directive."""
    return {
        "name": directive.name,
        "version": directive.version,
        "description": directive.description,
        "category": directive.category,
        "author": directive.author,
        "model": dict(directive.model) if directive.model else None,
        "limits": dict(directive.limits),
        "permissions": list(directive.permissions),
        "inputs": [_describe(entry) for entry in directive.inputs],
        "actions": [
            {"primary": action.primary, **action.attributes, "params": dict(action.params)}
            for action in directive.actions
        ],
    }


def _describe(entry: DirectiveInput) -> str:
    facts = [entry.type or "string", "required" if entry.required else "optional"]
    if entry.default is not None:
        facts.append(f"default {entry.default!r}")
    description = f": {entry.description}" if entry.description else ""
    return f"{entry.name} ({', '.join(facts)}){description}"


def _output_as_json(output: DirectiveOutput) -> dict[str, Any]:
    return {
        "name": output.name,
        "type": output.type,
        "required": output.required,
        "description": output.description,
    }


# A knowledge item for the caller: its text and metadata, unchanged. Pure.

KNOWLEDGE_INSTRUCTIONS = "Use the content as reference; it asks for nothing to be done."


def render_knowledge(
    text: str, ref: ItemRef, suffix: str, *, dry_run: bool = False
) -> dict[str, Any]:
    """The envelope with the text, with ``dry_run`` its metadata alone. Raises MetadataError."""
    knowledge = parse_knowledge(text, suffix)
    metadata = dict(knowledge.metadata)
    content = knowledge.body or _unsigned(text)
    if dry_run:
        return {
            "status": "validation_passed",
            "type": "knowledge",
            "item_id": ref.id,
            "message": f"{ref} can be read",
            "metadata": metadata,
        }
    return {
        "status": "success",
        "type": "knowledge",
        "item_id": ref.id,
        "content": content,
        "data": {"id": ref.id, "title": metadata.get("title"), "content": content},
        "your_directions": KNOWLEDGE_INSTRUCTIONS,
        "metadata": metadata,
    }


def _unsigned(text: str) -> str:
    lines = text.split("\n")
    return "\n".join(lines[count_signature_lines(lines) :])
