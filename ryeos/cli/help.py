"""``rye help``: the commands by group, one command, a group of commands, or a topic."""

import json
import sys
from collections.abc import Iterator

from ryeos import __version__
from ryeos.app.command_line import Arguments, CommandSpec, no_arguments
from ryeos.app.commands import ALIASES, DAILY, PROGRAMS, TABLE
from ryeos.app.topics import COMMAND_LINE_TOPICS, OVERVIEW, Face, text_for, topic_text
from ryeos.app.topics import TOPICS as SHARED
from ryeos.cli.session import Session
from ryeos.items.errors import UsageError

TOPICS = (*SHARED, *COMMAND_LINE_TOPICS)
LIVE_TOPICS = ("item:", "error:", "template:")


def _configure_help(parser: Arguments) -> None:
    parser.add_argument(
        "words",
        metavar="COMMAND|TOPIC",
        nargs="*",
        help="a command, a topic, item:REF, error:CODE or template:KIND",
        offers="topics",
    )
    parser.add_argument("--all", action="store_true", help="list every command and topic")
    parser.add_argument(
        "--schema",
        metavar="FILE",
        choices=("graph", "runtime", "test", "tool"),
        help="the JSON Schema of graph, runtime, test or tool files, for editors",
    )


def _run_help(session: Session) -> int:
    words = " ".join(session.arguments.words).split()
    if session.arguments.schema:
        return _show_schema(session, session.arguments.schema)
    if words and session.arguments.all:
        raise UsageError("expected --all or a topic, found both", hint="rye help --all")
    if not words:
        _show_overview(session)
        return 0
    topic = " ".join(words)
    texts = [*_command_texts(words), *_group_texts(words), *_topic_texts(words)]
    if not texts:
        from ryeos.app.help import named_topic

        topic = named_topic(topic)
        texts = [*_topic_texts([topic])]
    if topic == OVERVIEW or topic.startswith(LIVE_TOPICS):
        return _show_live(session, topic)
    if not texts:
        raise _unknown_topic(words)
    text = "\n\n".join(texts)
    envelope = {"status": "success", "topic": topic, "text": text}
    if topic in SHARED:
        from ryeos.app.help import help as help_tool

        envelope |= help_tool(session.rye, {"topic": topic}, Face.PERSON).envelope
    session.output.answer(envelope, text)
    return 0


def _show_schema(session: Session, name: str) -> int:
    """The schema itself on standard output, so that it can be saved as it is."""
    if session.arguments.words:
        raise UsageError(
            "expected --schema or a topic, found both", hint=f"rye help --schema {name}"
        )
    from ryeos.graph.schemas import SCHEMAS

    schema = SCHEMAS[name]
    text = json.dumps(schema, indent=2, ensure_ascii=False)
    session.output.answer({"status": "success", "name": name, "schema": schema}, text)
    return 0


def _show_live(session: Session, topic: str) -> int:
    """What depends on the machine: what is set up, an item, an error code."""
    from ryeos.app.help import AVAILABLE
    from ryeos.app.help import help as help_tool

    envelope = help_tool(session.rye, {"topic": topic}, Face.PERSON).envelope
    if envelope["topic"] == AVAILABLE:
        raise _unknown_topic(topic.split())
    session.output.answer(envelope, envelope["content"])
    return 0


def _show_overview(session: Session) -> None:
    envelope = {
        "status": "success",
        "commands": [
            {"command": entry.words, "summary": entry.summary, "group": entry.group}
            for entry in TABLE
        ],
        "topics": {name: _summary(name) for name in TOPICS},
    }
    lines = _all_lines(session) if session.arguments.all else _daily()
    head = (
        "rye finds, verifies and runs signed items: tools, directives, knowledge in .ai/",
        f"\n{session.output.paint('usage:', 'bold')} rye COMMAND ...",
    )
    session.output.answer(envelope, "\n".join([*head, *lines]))


def _daily() -> Iterator[str]:
    entries = {entry.words: entry for entry in TABLE}
    yield ""
    for words in DAILY:
        yield f"  {words:<19} {entries[words].summary}"
    yield ""
    yield f"rye help --all lists all {len(TABLE)} commands, by group, and the topics of help"
    yield "rye help COMMAND says more; --json works with every command"


def _all_lines(session: Session) -> Iterator[str]:
    bold = session.output.paint
    for group in dict.fromkeys(entry.group for entry in TABLE):
        yield ""
        yield bold(group, "bold")
        for entry in TABLE:
            if entry.group == group:
                yield f"  {entry.words:<19} {entry.summary}"
    yield ""
    yield bold("Topics", "bold")
    for name in TOPICS:
        yield f"  {name:<19} {_summary(name)}"
    yield ""
    yield "rye help COMMAND or rye help TOPIC says more; --json works with every command"


def _summary(topic: str) -> str:
    return text_for_person(topic).partition("\n")[0]


def text_for_person(topic: str) -> str:
    """The text of one of `TOPICS`, as ``rye help TOPIC`` prints it."""
    return text_for(topic_text(topic), Face.PERSON)


def _command_texts(words: list[str]) -> Iterator[str]:
    """What ``--help`` prints, of the command with exactly these words."""
    entry = TABLE.find(words)
    if entry and len(entry.words.split()) == len(words):
        if entry.words in PROGRAMS:
            from ryeos.cli.helper_programs import usage

            yield usage(entry.words).rstrip()
            return
        from ryeos.cli.parser import command_parser

        yield command_parser(entry, entry.spec()).format_help().rstrip()


def _group_texts(words: list[str]) -> Iterator[str]:
    """The commands of a group like ``keys``."""
    if len(words) == 1 and TABLE.actions(words[0]):
        group = [e for e in TABLE if e.words.split()[0] == words[0]]
        lines = [f"  rye {entry.words:<19} {entry.summary}" for entry in group]
        other = f"{words[0]}s"  # the topic `graphs` of the commands `graph`
        more = ["", f"more: rye help {other}"] if other in TOPICS else []
        yield "\n".join([f"usage: rye {words[0]} COMMAND ...", "", *lines, *more])


def _topic_texts(words: list[str]) -> Iterator[str]:
    """A command is also explained under its other name."""
    topic = " ".join(words)
    names = (topic, ALIASES.get(topic, ""), *TABLE.aliases_of(topic))
    yield from (text_for_person(name).rstrip() for name in names if name in TOPICS)


def _unknown_topic(words: list[str]) -> UsageError:
    from lillux.spelling import likely_meant

    typed = " ".join(words)
    known = (*TOPICS, *TABLE.first_words(), *ALIASES, *(entry.words for entry in TABLE))
    close = likely_meant(typed, known)
    hint = f"did you mean: rye help {close}" if close else "list what there is with: rye help"
    return UsageError(f"no help on {typed[:60]!r}: no such command or topic", hint=hint)


# --- version --------------------------------------------------------------------------------------
# ``rye version``.

MCP_VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28")


def _run_version(session: Session) -> int:
    envelope = {
        "status": "success",
        "name": "rye",
        "version": __version__,
        "python": ".".join(map(str, sys.version_info[:3])),
        "platform": sys.platform,
        "edition": session.edition if session.output.as_json else None,
        "bundle": session.bundle_version if session.output.as_json else None,
        "mcp_versions": list(MCP_VERSIONS),
    }
    session.output.answer(envelope, f"rye {__version__}")
    return 0


HELP = CommandSpec(
    _configure_help,
    _run_help,
    ["rye help", "rye help run", "rye help exit-status", "rye help item:tool:rye/bash/bash"],
    has_spinner=False,
)
VERSION = CommandSpec(
    no_arguments, _run_version, ["rye version", "rye version --json"], has_spinner=False
)
