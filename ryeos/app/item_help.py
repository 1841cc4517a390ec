"""Help on one item: what it is, its inputs, and an example."""

import json
from collections.abc import Iterator, Mapping
from shlex import quote
from typing import Any

from ryeos.app.load import LoadRequest, load_item
from ryeos.app.topics import Face
from ryeos.app.verb_arguments import item_reference
from ryeos.app.workspace import Rye
from ryeos.items.refs import Kind

_EXAMPLES: Mapping[str, Any] = {
    "string": "text", "integer": 1, "number": 1.5, "boolean": True, "array": [], "object": {},
}  # fmt: skip


def about_item(rye: Rye, text: str, face: Face) -> str:
    """The help on an item: its facts, its inputs, and a call of it."""
    reference = item_reference(rye, text.strip(), None)
    loaded = load_item(rye, LoadRequest(reference=reference, max_chars=1)).envelope
    schema = loaded.get("input_schema") or {}
    ref, metadata = str(loaded["ref"]), loaded["metadata"]
    lines = [ref, "", str(metadata.get("description") or metadata.get("title") or ""), ""]
    lines += [f"space: {loaded['source']}, version: {metadata.get('version', 'none')}", ""]
    properties = schema.get("properties")
    if isinstance(properties, Mapping) and properties:
        lines += ["Inputs", "", *_inputs(properties, schema.get("required", ()))]
    else:
        lines.append("Takes no inputs." if not ref.startswith(Kind.TOOL) else "Declares no inputs.")
    examples = schema.get("examples")
    given = examples[0] if isinstance(examples, list) and examples else _example(schema)
    call = {"item_id": ref, "parameters": given}
    lines += ["", f"Call: {call_line(call, face)}"]
    return "\n".join(lines)


def call_line(call: Mapping[str, Any], face: Face) -> str:
    """The call of ``execute``, as a line that its reader can use."""
    if face is Face.AGENT:
        return f"execute {json.dumps(call, ensure_ascii=False, default=str)}"
    given = call["parameters"]
    shown = quote(json.dumps(given, ensure_ascii=False, default=str))
    return f"rye run {call['item_id']}" + (f" --params {shown}" if given else "")


def inputs_text(rye: Rye, text: str) -> tuple[dict[str, Any], str]:
    """An item's inputs, for a person: the envelope of `load` without its text, and the help."""
    reference = item_reference(rye, text.strip(), None)
    envelope = dict(load_item(rye, LoadRequest(reference=reference, max_chars=1)).envelope)
    envelope.pop("content", None)
    schema, metadata = envelope.get("input_schema") or {}, envelope["metadata"]
    properties = schema.get("properties") or {}
    needed = schema.get("required") or ()
    words = [
        f"{name}={_word(rules)}" if name in needed else f"[{name}={_word(rules)}]"
        for name, rules in properties.items()
    ]
    lines = [f"usage: rye run {reference} {' '.join(words)}".rstrip(), ""]
    lines += [str(metadata.get("description") or metadata.get("title") or ""), ""]
    lines += list(_inputs(properties, needed)) or ["It declares no inputs."]
    examples = schema.get("examples")
    if isinstance(examples, list) and examples:
        shown = json.dumps(examples[0], ensure_ascii=False)
        lines += ["", f"example: rye run {reference} --params {quote(shown)}"]
    return envelope, "\n".join(lines)


def _word(rules: object) -> str:
    """The placeholder of a value: its type in capitals, or what it may be, as it is to be typed."""
    if not isinstance(rules, Mapping):
        return "VALUE"
    return _words(rules) if rules.get("enum") else _words(rules).upper()


def _inputs(properties: Mapping[str, Any], required: object) -> Iterator[str]:
    needed = required if isinstance(required, list | tuple) else ()
    for name, rules in properties.items():
        rules = rules if isinstance(rules, Mapping) else {}  # noqa: PLW2901 - what is no mapping says nothing
        facts = [str(rules.get("type", "any")), "required" if name in needed else "optional"]
        if "default" in rules:
            facts.append(f"default {json.dumps(rules['default'], default=str)}")
        if "enum" in rules:
            facts.append(f"one of {json.dumps(rules['enum'], default=str)}")
        about = " ".join(str(rules.get("description", "")).split())
        shape = _shape(rules)
        facts += [f"each {shape}"] if shape else []
        yield f"- {name} ({', '.join(facts)}){f': {about}' if about else ''}"


def _shape(rules: Mapping[str, Any]) -> str:
    """The inside of an array or an object, in one line: ``{path, text?}``."""
    inner = rules.get("items") if rules.get("type") == "array" else rules
    if not isinstance(inner, Mapping):
        return ""
    properties = inner.get("properties")
    if not isinstance(properties, Mapping):
        return str(inner.get("type", "")) if inner is not rules else ""
    needed = inner.get("required") or ()
    names = (
        f"{name}{'' if name in needed else '?'}: {_words(one)}" for name, one in properties.items()
    )
    return f"{{{', '.join(names)}}}"


def _words(rules: object) -> str:
    if not isinstance(rules, Mapping):
        return "any"
    if rules.get("enum"):
        return "|".join(map(str, rules["enum"]))
    kind = rules.get("type", "any")
    return "|".join(kind) if isinstance(kind, list) else str(kind)


def _example(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A value for each required input, else for the first."""
    properties = schema.get("properties") or {}
    names = schema.get("required") or list(properties)[:1]
    return {name: _example_value(properties.get(name)) for name in names}


def _example_value(rules: object) -> object:
    if not isinstance(rules, Mapping):
        return "..."
    if "default" in rules:
        return rules["default"]
    if rules.get("enum"):
        return rules["enum"][0]
    return _EXAMPLES.get(str(rules.get("type")), "...")
