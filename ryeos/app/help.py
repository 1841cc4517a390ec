"""``help``: topics, the inputs of an item, an error code, and what is set up here."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from shlex import quote
from typing import Any

from lillux.errors import LilluxError
from ryeos import __version__
from ryeos.app.load import LoadRequest, load_item
from ryeos.app.templates import TEMPLATES
from ryeos.app.topics import (
    MAIN_TOOLS,
    MAX_CHARACTERS,
    OVERVIEW,
    SEE_ALSO,
    SYNONYMS,
    TOPICS,
    Face,
    text_for,
    topic_text,
)
from ryeos.app.verbs import TOOLS, item_reference, project_of, valid_arguments
from ryeos.app.workspace import Rye
from ryeos.items.error_table import UNUSED_CODES, error_table
from ryeos.items.errors import Answer, RyeError
from ryeos.items.refs import EXECUTABLE_KINDS, ItemRef, Kind, id_gives_rights
from ryeos.search.search import LOCAL_TIERS

AVAILABLE = "available_topics"
_CLEARLY_MEANT = 0.8  # of difflib's ratio
_ITEM, _ERROR, _TEMPLATE = "item:", "error:", "template:"
_EXAMPLES: Mapping[str, Any] = {
    "string": "text", "integer": 1, "number": 1.5, "boolean": True, "array": [], "object": {},
}  # fmt: skip


def help(  # noqa: A001 - the tool's name
    rye: Rye, arguments: Mapping[str, object], face: Face = Face.AGENT
) -> Answer:
    """The help on a topic, worded for its reader.

    Raises VerbArgumentError.
    """
    return help_on(lambda: rye, valid_arguments(TOOLS["help"], arguments)["topic"].strip(), face)


def help_on(rye: Callable[[], Rye], topic: str, face: Face = Face.AGENT) -> Answer:
    """The same; ``rye`` is called only for topics that depend on the project, and may raise."""
    topic = nearly_spelled(named_topic(topic))
    if topic in {"", OVERVIEW}:
        return _answer(OVERVIEW, "\n".join(_overview_of(rye, face)))
    if topic.lower().startswith(_ITEM):
        return _item_answer(rye, topic, face)
    if topic.lower().startswith(_TEMPLATE):
        kind = topic.partition(":")[2].strip().lower()
        text = template_text(kind, face)
        return _answer(topic, text) if text else _unknown_topic(topic, _templates_like(kind))
    name = topic.lower()
    if name in TOPICS:
        return _answer(name, text_for(topic_text(name), face))
    if topic.lower().startswith(_ERROR):
        code = topic.partition(":")[2].strip().upper()
        lines = list(_about_code(code, face))
        if lines:
            return _answer(f"{_ERROR}{code}", "\n".join(lines), see_also=["errors"])
    return _unknown_topic(topic, face=face)


def named_topic(text: str) -> str:
    """The topic that has another name too; the text itself where none has it.

    ``graph`` is ``graphs``, ``UNSIGNED`` is ``error:UNSIGNED``, ``tool:a/b`` is ``item:tool:a/b``.
    """
    name = text.lower()
    if _is_topic(name):
        return text
    for meant in (SYNONYMS.get(name, ""), f"{name}s", name.removesuffix("s")):
        if meant in TOPICS or meant == OVERVIEW:
            return meant
    if text.upper() in error_codes():
        return f"{_ERROR}{text.upper()}"
    if name.endswith(_SUFFIXES) and _config_template(name, Face.AGENT):
        return f"{_TEMPLATE}{_CONFIG}{name}"
    is_item = "/" in text or name.partition(":")[0] in set(Kind)
    return f"{_ITEM}{text}" if is_item else text


def nearly_spelled(text: str) -> str:
    """The one topic or code that is spelled nearly so; the text itself where that is not clear."""
    from difflib import get_close_matches

    name = text.lower()
    if name.startswith(_ERROR):
        codes = [f"{_ERROR}{code.lower()}" for code in error_codes()]
        close = [] if name in codes else get_close_matches(name, codes, 2, _CLEARLY_MEANT)
    else:
        close = [] if _is_topic(name) else get_close_matches(name, TOPICS, 2, _CLEARLY_MEANT)
    return close[0] if len(close) == 1 else text


def _is_topic(name: str) -> bool:
    return name in {"", OVERVIEW, *TOPICS} or name.startswith((_ITEM, _ERROR, _TEMPLATE))


def _answer(topic: str, content: str, *, see_also: list[str] | None = None) -> Answer:
    text = content.rstrip("\n")
    if len(text) > MAX_CHARACTERS:
        text = f"{text[: MAX_CHARACTERS - 1]}…"
    envelope = {
        "status": "success",
        "topic": topic,
        "content": text,
        "topics": topics(),
        "see_also": see_also or list(SEE_ALSO.get(topic, (OVERVIEW,))),
    }
    return Answer(envelope)


def topics() -> list[str]:
    """Every topic by name."""
    return [OVERVIEW, *TOPICS]


def _item_answer(rye: Callable[[], Rye], topic: str, face: Face) -> Answer:
    """About an item; where there is none, or it cannot be shown, why, and what there is."""
    try:
        return _answer(topic, _about_item(rye(), topic[len(_ITEM) :], face))
    except LilluxError as error:
        suggestions = error.suggestions if isinstance(error, RyeError) else ()
        listed = _unknown_topic(topic, [f"{_ITEM}{one}" for one in suggestions]).envelope
        return Answer({**listed, "content": f"{_error_text(error)}\n\n{listed['content']}"})


def _error_text(error: LilluxError) -> str:
    return f"{error} ({error.hint})" if error.hint else str(error)


def _unknown_topic(topic: str, close: Sequence[str] = (), *, face: Face = Face.AGENT) -> Answer:
    """The topics that there are, for an unknown one: a request for help never fails.

    Pages are found by a search: the line that makes it comes first.
    """
    from difflib import get_close_matches

    named = [*topics(), *(f"{_ERROR}{code}" for code in error_codes())]
    close = close or get_close_matches(topic, named, 3, 0.5)
    text = "\n".join(f"  {name:<12} {_summary(name)}" for name in topics())
    words = json.dumps(topic[:80])
    page = f"rye search {words}" if face is Face.PERSON else f'search {{"query": {words}}}'
    text = f"Pages on it: {page}\n\nTopics\n\n{text}"
    envelope = _answer(AVAILABLE, text, see_also=[OVERVIEW]).envelope
    return Answer({**envelope, "asked": topic[:200], "did_you_mean": list(close)})


def _summary(topic: str) -> str:
    return topic_text(topic).partition("\n")[0] if topic in TOPICS else "what is set up here"


# --- live facts -----------------------------------------------------------------------------------


_LAST: Mapping[Face, str] = {
    Face.PERSON: "rye search finds items, load reads one, run runs one, sign lets one run.",
    Face.AGENT: "search finds items, load reads one, execute runs it, sign lets a changed one run.",
}


def _overview_of(rye: Callable[[], Rye], face: Face) -> Iterator[str]:
    yield "Rye finds, verifies and runs signed items: tools, directives and knowledge in .ai/"
    yield ""
    yield f"- version: {__version__}"
    try:
        yield from _overview(rye(), face)
    except LilluxError as error:
        yield f"- nothing can run here: {_error_text(error)}"
    yield ""
    yield _LAST[face]


def _overview(rye: Rye, face: Face) -> Iterator[str]:
    key = _key(rye)
    counts, main = _what_there_is(rye)
    yield f"- project: {project_of(rye) or 'none'}"
    for label, number in counts.items():
        yield f"- items in {label}: {number}"
    yield f"- signing key: {key or 'no key'}"
    if main:
        yield ""
        yield "Tools to know first, and what they are for (topic bundle):"
        yield from (f"- tool:{item_id}: {MAIN_TOOLS[item_id]}" for item_id in main)
    yield ""
    yield f"Next: {_next_step(rye, key, counts, face)}"


def _what_there_is(rye: Rye) -> tuple[dict[str, int], list[str]]:
    """How many items each space has, and which of the main tools are here."""
    snapshot = rye.catalog.snapshot(EXECUTABLE_KINDS, LOCAL_TIERS)
    counts = dict.fromkeys((space.label for space in rye.context.spaces), 0)
    found = set()
    for document in snapshot.pool.all():
        counts[document.label] += 1
        found.add(document.ref)
    return counts, [name for name in MAIN_TOOLS if ItemRef(Kind.TOOL, name) in found]


def _key(rye: Rye) -> str:
    try:
        return rye.signing_key().fingerprint
    except LilluxError:
        return ""


_NEXT: Mapping[str, str] = {
    "key": """\
$ make a signing key with: rye keys generate
> ask your user to make a signing key: rye keys generate""",
    "project": """\
$ name a project: --project DIR, or make one here: rye init --project
> name a project that your user's policy lists: "options": {"project_path": "/path/to/it"}""",
    "item": """\
$ write a first item: rye new tool mine/hello
> write a first item: help {"topic": "template:python"}; or search what the system has""",
    "work": """\
$ rye search WORDS, then rye run ITEM
> search for what you need, then execute it""",
}


def _next_step(rye: Rye, key: str, counts: Mapping[str, int], face: Face) -> str:
    if not key:
        step = "key"
    elif rye.context.project_path is None:
        step = "project"
    else:
        step = "work" if counts.get("project") else "item"
    return text_for(_NEXT[step], face)


# --- one item, one code ---------------------------------------------------------------------------


def _about_item(rye: Rye, text: str, face: Face) -> str:
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
    lines += ["", f"Call: {_call(call, face)}"]
    return "\n".join(lines)


def _call(call: Mapping[str, Any], face: Face) -> str:
    """The call of ``execute``, as a line that its reader can use."""
    if face is Face.AGENT:
        return f"execute {json.dumps(call, ensure_ascii=False, default=str)}"
    given = call["parameters"]
    shown = quote(json.dumps(given, ensure_ascii=False, default=str))
    return f"rye run {call['item_id']}" + (f" --params {shown}" if given else "")


def inputs_text(rye: Rye, text: str) -> tuple[dict[str, Any], str]:
    """What an item takes, for a person: the envelope of `load` without its text, and the help."""
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
    """What stands for a value: its type in capitals, or what it may be, as it is to be typed."""
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
    """What is inside of an array or an object, in one line: ``{path, text?}``."""
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


def _about_code(code: str, face: Face) -> Iterator[str]:
    if code in UNUSED_CODES:
        yield from (code, "", f"Not used by this version; it says {UNUSED_CODES[code]} instead.")
    row = error_table().get(code)
    if row is None:
        return
    status = f" (exit status {row.exit_status})" if face is Face.PERSON else ""
    yield from (code, "", f"{row.meaning}{status}", "")
    remedies = text_for("\n".join(row.remedies), face)
    yield from (f"- {remedy}" for remedy in remedies.splitlines())


# --- templates ------------------------------------------------------------------------------------

KINDS = ("python", "bash", "yaml", "javascript", "http", "mcp", "graph", "directive", "knowledge")


_TRIED: Mapping[str, Any] = {"graph": {"folders": ["."]}, "knowledge": {}}


def template_text(kind: str, face: Face = Face.AGENT) -> str:
    """A complete item of a kind or language, where its file goes, and what to do; else ``""``."""
    if kind == Kind.CONFIG:
        return _configs()
    if kind.startswith(_CONFIG):
        return _config_template(kind.removeprefix(_CONFIG), face)
    if kind not in KINDS:
        return ""
    item_kind = Kind(kind) if kind in {Kind.DIRECTIVE, Kind.KNOWLEDGE} else Kind.TOOL
    template = TEMPLATES[item_kind, "" if item_kind is not Kind.TOOL else kind]
    text = template.fill(name="example", category="mine", author="unknown")
    ref = f"{item_kind}:mine/example"
    call = _call({"item_id": ref, "parameters": _TRIED.get(kind, {"name": "Ada"})}, face)
    sign = json.dumps({"item_id": ref, "content": "the text"})
    ways = {
        Face.PERSON: f"Write it, then: rye sign {ref}. Then: {call}",
        Face.AGENT: f"Write it and sign it in one call: sign {sign}. Then: {call}",
    }
    place = f".ai/{item_kind.directory}/mine/example{template.suffix}"
    return f"File {place}:\n\n{text}\n{ways[face]}"


_CONFIG = "config:"
_SUFFIXES = (".yaml", ".yml", ".toml")


def _configs() -> str:
    """The settings files that Rye reads, with what each is for."""
    from ryeos.app.config_templates import CONFIGS

    rows = (f"- {name}: {one.about}" for name, one in CONFIGS.items())
    return "\n".join(
        ["Files below .ai/config that Rye reads. A whole one: template:config:NAME", "", *rows]
    )


def _configs_named(name: str) -> list[str]:
    """The ids of the settings files of this id, path, folder or name."""
    from ryeos.app.config_templates import CONFIGS

    wanted = name.removeprefix(".ai/config/")
    for suffix in _SUFFIXES:
        wanted = wanted.removesuffix(suffix)
    return [one for one in CONFIGS if wanted in {one, *one.split("/")}]


def _templates_like(kind: str) -> list[str]:
    """The topics of the templates that may be meant."""
    meant = _configs_named(kind.removeprefix(_CONFIG)) if kind.startswith(_CONFIG) else []
    return [f"{_TEMPLATE}{_CONFIG}{one}" for one in meant] or [
        f"{_TEMPLATE}{one}" for one in (*KINDS, Kind.CONFIG)
    ]


def _config_template(name: str, face: Face) -> str:
    """A whole settings file, by its id, its path or its name alone, and what to do; else ``""``."""
    from ryeos.app.config_templates import CONFIGS

    meant = _configs_named(name)
    if len(meant) != 1:
        return ""
    (found,) = meant
    text = CONFIGS[found].text(found.partition("/")[0])
    return f"File .ai/config/{found}.yaml:\n\n{text}\n{_way_of_config(found, face)}"


def _way_of_config(config_id: str, face: Face) -> str:
    if face is Face.PERSON:
        return f"Write it with: rye new config {config_id}. Then: rye sign config:{config_id}"
    if id_gives_rights(config_id):
        return f"It gives rights: ask your user to run: rye new config {config_id} --space user"
    call = json.dumps({"item_id": f"config:{config_id}", "content": "the text"})
    return f"Write it and sign it in one call: sign {call}"


def error_codes() -> tuple[str, ...]:
    """Every code that is explained: those of this version, then those that it does not use."""
    return (*sorted(error_table()), *UNUSED_CODES)
