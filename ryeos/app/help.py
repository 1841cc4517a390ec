"""``help``: topics, the inputs of an item, an error code, and what is set up here."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence

from lillux.errors import LilluxError
from ryeos import __version__
from ryeos.app.item_help import about_item
from ryeos.app.template_help import (
    CONFIG_SUFFIXES,
    CONFIG_TOPIC,
    ERROR_TOPIC,
    ITEM_TOPIC,
    TEMPLATE_TOPIC,
    config_template,
    template_text,
    templates_like,
)
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
from ryeos.app.verb_arguments import project_of, valid_arguments
from ryeos.app.verbs import TOOLS
from ryeos.app.workspace import Rye
from ryeos.items.error_table import UNUSED_CODES, error_table
from ryeos.items.errors import Answer, RyeError
from ryeos.items.refs import EXECUTABLE_KINDS, ItemRef, Kind
from ryeos.search.search import LOCAL_TIERS

AVAILABLE = "available_topics"
_CLEARLY_MEANT = 0.8  # of difflib's ratio


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
    if topic.lower().startswith(ITEM_TOPIC):
        return _item_answer(rye, topic, face)
    if topic.lower().startswith(TEMPLATE_TOPIC):
        kind = topic.partition(":")[2].strip().lower()
        text = template_text(kind, face)
        return _answer(topic, text) if text else _unknown_topic(topic, templates_like(kind))
    name = topic.lower()
    if name in TOPICS:
        return _answer(name, text_for(topic_text(name), face))
    if topic.lower().startswith(ERROR_TOPIC):
        code = topic.partition(":")[2].strip().upper()
        lines = list(_about_code(code, face))
        if lines:
            return _answer(f"{ERROR_TOPIC}{code}", "\n".join(lines), see_also=["errors"])
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
        return f"{ERROR_TOPIC}{text.upper()}"
    if name.endswith(CONFIG_SUFFIXES) and config_template(name, Face.AGENT):
        return f"{TEMPLATE_TOPIC}{CONFIG_TOPIC}{name}"
    is_item = "/" in text or name.partition(":")[0] in set(Kind)
    return f"{ITEM_TOPIC}{text}" if is_item else text


def nearly_spelled(text: str) -> str:
    """The one topic or code that is spelled nearly so; the text itself where that is not clear."""
    from difflib import get_close_matches

    name = text.lower()
    if name.startswith(ERROR_TOPIC):
        codes = [f"{ERROR_TOPIC}{code.lower()}" for code in error_codes()]
        close = [] if name in codes else get_close_matches(name, codes, 2, _CLEARLY_MEANT)
    else:
        close = [] if _is_topic(name) else get_close_matches(name, TOPICS, 2, _CLEARLY_MEANT)
    return close[0] if len(close) == 1 else text


def _is_topic(name: str) -> bool:
    return name in {"", OVERVIEW, *TOPICS} or name.startswith(
        (ITEM_TOPIC, ERROR_TOPIC, TEMPLATE_TOPIC)
    )


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
        return _answer(topic, about_item(rye(), topic[len(ITEM_TOPIC) :], face))
    except LilluxError as error:
        suggestions = error.suggestions if isinstance(error, RyeError) else ()
        listed = _unknown_topic(topic, [f"{ITEM_TOPIC}{one}" for one in suggestions]).envelope
        return Answer({**listed, "content": f"{_error_text(error)}\n\n{listed['content']}"})


def _error_text(error: LilluxError) -> str:
    return f"{error} ({error.hint})" if error.hint else str(error)


def _unknown_topic(topic: str, close: Sequence[str] = (), *, face: Face = Face.AGENT) -> Answer:
    """The topics that there are, for an unknown one: a request for help never fails.

    Pages are found by a search: the line that makes it comes first.
    """
    from difflib import get_close_matches

    named = [*topics(), *(f"{ERROR_TOPIC}{code}" for code in error_codes())]
    close = close or get_close_matches(topic, named, 3, 0.5)
    text = "\n".join(f"  {name:<12} {_summary(name)}" for name in topics())
    words = json.dumps(topic[:80])
    page = f"rye search {words}" if face is Face.PERSON else f'search {{"query": {words}}}'
    text = f"Pages on it: {page}\n\nTopics\n\n{text}"
    envelope = _answer(AVAILABLE, text, see_also=[OVERVIEW]).envelope
    return Answer({**envelope, "asked": topic[:200], "did_you_mean": list(close)})


def _summary(topic: str) -> str:
    return topic_text(topic).partition("\n")[0] if topic in TOPICS else "what is set up here"


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
    """The number of items that each space has, and which of the main tools are here."""
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


def error_codes() -> tuple[str, ...]:
    """Every code that is explained: those of this version, then those that it does not use."""
    return (*sorted(error_table()), *UNUSED_CODES)
