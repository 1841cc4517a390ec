"""``rye help``: the commands by group, one command, a group of commands, or a topic."""

from collections.abc import Iterator
from importlib import import_module

from ryeos.cli.commands import ALIASES, TABLE, Entry, actions, find, first_words
from ryeos.cli.plain_arguments import Arguments
from ryeos.cli.session import Command, Session
from ryeos.cli.topics import TOPICS
from ryeos.errors import UsageError


def _configure(parser: Arguments) -> None:
    parser.add_argument("words", metavar="COMMAND|TOPIC", nargs="*", help="nothing: all commands")


def _run(session: Session) -> int:
    words = session.arguments.words
    if not words:
        _show_overview(session)
        return 0
    texts = [*_command_texts(words), *_group_texts(words), *_topic_texts(words)]
    if not texts:
        raise _unknown(words)
    text = "\n\n".join(texts)
    envelope = {"status": "success", "topic": " ".join(words), "text": text}
    session.output.answer(envelope, text)
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
                yield f"  {entry.words:<17} {entry.summary}"
    yield ""
    yield bold("Topics", "bold")
    for name in TOPICS:
        yield f"  {name:<17} {_summary(name)}"
    yield ""
    yield "rye help COMMAND or rye help TOPIC says more; --json works with every command"


def _summary(topic: str) -> str:
    return TOPICS[topic].partition("\n")[0]


def _command_texts(words: list[str]) -> Iterator[str]:
    """What ``--help`` prints, of the command with exactly these words."""
    entry = find(words)
    if entry and len(entry.words.split()) == len(words):
        module = import_module(f"ryeos.cli.{entry.module}")
        command: Command = module.COMMANDS[entry.words]
        from ryeos.cli.parser import command_parser

        yield command_parser(entry, command.configure, command.examples).format_help().rstrip()


def _group_texts(words: list[str]) -> Iterator[str]:
    """The commands of a group like ``keys``."""
    if len(words) == 1 and actions(words[0]):
        group: list[Entry] = [e for e in TABLE if e.words.split()[0] == words[0]]
        lines = [f"  rye {entry.words:<17} {entry.summary}" for entry in group]
        yield "\n".join([f"usage: rye {words[0]} COMMAND ...", "", *lines])


def _topic_texts(words: list[str]) -> Iterator[str]:
    text = TOPICS.get(" ".join(words))
    if text:
        yield text.rstrip()


def _unknown(words: list[str]) -> UsageError:
    from difflib import get_close_matches

    typed = " ".join(words)
    known = (*TOPICS, *first_words(), *(entry.words for entry in TABLE), *ALIASES)
    close = get_close_matches(typed, known, 1, 0.5)
    hint = f"did you mean: rye help {close[0]}" if close else "list what there is with: rye help"
    return UsageError(f"no help on {typed[:60]!r}: no such command or topic", hint=hint)


COMMANDS = {"help": Command(_configure, _run, ["rye help", "rye help run", "rye help exit-status"])}
