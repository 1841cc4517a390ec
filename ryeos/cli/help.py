"""``rye help``: the commands by group, one command, a group of commands, or a topic."""

import json
from collections.abc import Iterator
from importlib import import_module

from ryeos.cli.commands import ALIASES, PROGRAMS, TABLE, Entry, actions, find, first_words
from ryeos.cli.plain_arguments import Arguments
from ryeos.cli.session import Command, Session
from ryeos.cli.topics import TOPICS
from ryeos.errors import UsageError
from ryeos.mcp.topics import OVERVIEW
from ryeos.mcp.topics import TOPICS as SHARED
from ryeos.schemas import NAMES as SCHEMAS
from ryeos.schemas import schema_named

LIVE_TOPICS = ("item:", "error:")


def _configure(parser: Arguments) -> None:
    parser.add_argument(
        "words",
        metavar="COMMAND|TOPIC",
        nargs="*",
        help="nothing: all commands; item:REF, error:CODE",
    )
    parser.add_argument(
        "--schema",
        metavar="FILE",
        choices=SCHEMAS,
        help="the JSON Schema of graph, runtime, test or tool files, for editors",
    )


def _run(session: Session) -> int:
    words = " ".join(session.arguments.words).split()
    if session.arguments.schema:
        return _show_schema(session, session.arguments.schema)
    if not words:
        _show_overview(session)
        return 0
    asked = " ".join(words)
    if asked == OVERVIEW or asked.startswith(LIVE_TOPICS):
        return _show_live(session, asked)
    texts = [*_command_texts(words), *_group_texts(words), *_topic_texts(words)]
    if not texts:
        raise _unknown(words)
    text = "\n\n".join(texts)
    envelope = {"status": "success", "topic": asked, "text": text}
    if asked in SHARED:
        from ryeos.mcp.tools.help import help as help_tool

        envelope |= help_tool(session.rye, {"topic": asked}).envelope
    session.output.answer(envelope, text)
    return 0


def _show_schema(session: Session, name: str) -> int:
    """The schema itself on standard output, so that it can be saved as it is."""
    if session.arguments.words:
        raise UsageError(
            "expected --schema or a topic, found both", hint=f"rye help --schema {name}"
        )
    schema = schema_named(name)
    text = json.dumps(schema, indent=2, ensure_ascii=False)
    session.output.answer({"status": "success", "name": name, "schema": schema}, text)
    return 0


def _show_live(session: Session, topic: str) -> int:
    """What depends on the machine: what is set up, an item, an error code."""
    from ryeos.mcp.tools.help import AVAILABLE
    from ryeos.mcp.tools.help import help as help_tool

    envelope = help_tool(session.rye, {"topic": topic}).envelope
    if envelope["topic"] == AVAILABLE:
        raise _unknown(topic.split())
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
    session.output.answer(envelope, "\n".join(_overview(session)))


def _overview(session: Session) -> Iterator[str]:
    bold = session.output.paint
    yield "rye finds, verifies and runs signed items: tools, directives, knowledge in .ai/"
    yield ""
    yield f"{bold('usage:', 'bold')} rye COMMAND ..."
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
    return TOPICS[topic].partition("\n")[0]


def _command_texts(words: list[str]) -> Iterator[str]:
    """What ``--help`` prints, of the command with exactly these words."""
    entry = find(words)
    if entry and len(entry.words.split()) == len(words):
        if entry.words in PROGRAMS:
            from ryeos.cli.programs import usage

            yield usage(entry.words).rstrip()
            return
        module = import_module(f"ryeos.cli.{entry.module}")
        command: Command = module.COMMANDS[entry.words]
        from ryeos.cli.parser import command_parser

        yield command_parser(entry, command.configure, command.examples).format_help().rstrip()


def _group_texts(words: list[str]) -> Iterator[str]:
    """The commands of a group like ``keys``."""
    if len(words) == 1 and actions(words[0]):
        group: list[Entry] = [e for e in TABLE if e.words.split()[0] == words[0]]
        lines = [f"  rye {entry.words:<19} {entry.summary}" for entry in group]
        yield "\n".join([f"usage: rye {words[0]} COMMAND ...", "", *lines])


def _topic_texts(words: list[str]) -> Iterator[str]:
    """A command is also explained under its other name."""
    asked = " ".join(words)
    others = (alias for alias, command in ALIASES.items() if command == asked)
    names = (asked, ALIASES.get(asked, ""), *others)
    yield from (TOPICS[name].rstrip() for name in names if name in TOPICS)


def _unknown(words: list[str]) -> UsageError:
    from difflib import get_close_matches

    typed = " ".join(words)
    known = (*TOPICS, *first_words(), *(entry.words for entry in TABLE), *ALIASES)
    close = get_close_matches(typed, known, 1, 0.5)
    hint = f"did you mean: rye help {close[0]}" if close else "list what there is with: rye help"
    return UsageError(f"no help on {typed[:60]!r}: no such command or topic", hint=hint)


COMMANDS = {
    "help": Command(
        _configure,
        _run,
        ["rye help", "rye help run", "rye help exit-status", "rye help item:tool:rye/bash/bash"],
    )
}
