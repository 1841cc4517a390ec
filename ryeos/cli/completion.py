"""``rye completion SHELL``: a script by which a shell completes commands, flags and their choices.

The script is made from the same declarations that parse a command line, all at once. For names that
only this machine has, of items, threads and topics, it asks ``rye __complete`` when a key is
pressed, see `ryeos.cli.offers`.
"""

import argparse
import re
from importlib import import_module
from typing import Any

from ryeos.cli.commands import ALIASES, TABLE, Entry, actions
from ryeos.cli.completers import OFFERS, completer, ending, functions
from ryeos.cli.plain_arguments import Arguments, declare_shared
from ryeos.cli.session import Command, Session
from ryeos.clients.table import NAMES
from ryeos.errors import UsageError

SHELLS = ("bash", "zsh", "fish", "tcsh", "powershell")
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9._-]*", re.ASCII)  # it becomes a part of a script
_FOLDERS = {"DIR"}
_FILES = {"FILE", "PATH", "FILE.pem", "FILE|-", "PEMFILE|DOCUMENT.toml|FINGERPRINT"}
_REFERENCES = re.compile(r".*\bPATH\b.*")  # a file is one of what may stand there
_INSTALL = {
    "bash": "{bin} completion bash > ~/.local/share/bash-completion/completions/{bin}",
    "zsh": "{bin} completion zsh > a folder of $fpath, as _{bin}",
    "fish": "{bin} completion fish > ~/.config/fish/completions/{bin}.fish",
    "tcsh": "{bin} completion tcsh > ~/.{bin}.tcsh, and source it in ~/.tcshrc",
    "powershell": "{bin} completion powershell >> $PROFILE",
}


def _configure(parser: Arguments) -> None:
    parser.add_argument("shell", metavar="SHELL", choices=SHELLS, help=f"{', '.join(SHELLS)}")
    parser.add_argument("--bin", metavar="NAME", default="rye", help="what you type to run rye")


def _run(session: Session) -> int:
    shell, name = session.arguments.shell, session.arguments.bin
    if not _NAME.fullmatch(name):
        raise UsageError(f"--bin: expected the name of a program, found {name[:60]!r}")
    script = completion_script(shell, name)
    install = _INSTALL[shell].format(bin=name)
    session.output.note(f"to install it: {install}")
    envelope = {"status": "success", "shell": shell, "script": script, "install": install}
    session.output.answer(envelope, script)
    return 0


def completion_script(shell: str, name: str) -> str:
    """The script for a shell, for a program of that name."""
    import shtab

    tree, identifier = command_tree(name), _identifier(name)
    prefix = f"_rye_{identifier}"
    _complete_files(tree, shtab.FILE, shtab.DIRECTORY)
    _complete_names(tree, (), prefix, str(shtab.FILE["tcsh"]))
    script: str = shtab.complete(
        tree,
        shell=shell,
        root_prefix=f"rye_{identifier}",
        preamble=functions(shell, name, prefix),
    )
    return script + ending(shell, name, prefix, f"_shtab_rye_{identifier}")


def command_tree(name: str) -> argparse.ArgumentParser:
    """One parser that holds those of all commands."""
    root = argparse.ArgumentParser(prog=name, description="signed items for agents and people")
    declare_shared(root, has_project=False)
    root.add_argument("-V", "--version", action="store_true", help="the version")
    words = root.add_subparsers(dest="command")
    for word in dict.fromkeys(entry.words.split()[0] for entry in TABLE):
        own = next((entry for entry in TABLE if entry.words == word), None)
        aliases = [alias for alias, command in ALIASES.items() if command == word]
        summary = own.summary if own else f"{word} {', '.join(actions(word))}"
        parser = words.add_parser(word, help=summary, aliases=aliases)
        if own:
            _declare(parser, own)
        if actions(word):
            _declare_actions(parser, word)
    return root


def _declare_actions(parser: argparse.ArgumentParser, word: str) -> None:
    group = parser.add_subparsers(dest="action")
    for action in actions(word):
        entry = next(entry for entry in TABLE if entry.words == f"{word} {action}")
        _declare(group.add_parser(action, help=entry.summary), entry)


def _declare(parser: argparse.ArgumentParser, entry: Entry) -> None:
    module = import_module(f"ryeos.cli.{entry.module}")
    command: Command = module.COMMANDS[entry.words]
    command.configure(parser)
    takes_project = any("--project" in action.option_strings for action in parser._actions)  # noqa: SLF001
    declare_shared(parser, has_project=takes_project)


def _complete_files(parser: argparse.ArgumentParser, file: Any, folder: Any) -> None:  # noqa: ANN401
    """Let the shell offer files and folders where an argument names one, and names of clients."""
    for action in parser._actions:  # noqa: SLF001 - argparse has no other way to them
        metavar = action.metavar if isinstance(action.metavar, str) else ""
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            for inner in set(action.choices.values()):
                _complete_files(inner, file, folder)
        elif metavar == "CLIENT":
            action.choices = NAMES
        elif metavar in _FOLDERS:
            _set_completer(action, folder)
        elif metavar in _FILES or _REFERENCES.fullmatch(metavar):
            _set_completer(action, file)


def _complete_names(
    parser: argparse.ArgumentParser, words: tuple[str, ...], prefix: str, tcsh: str
) -> None:
    """Let the shell ask for names where an argument is one of `OFFERS`."""
    for action in parser._actions:  # noqa: SLF001 - argparse has no other way to them
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            for word, inner in action.choices.items():
                if word not in ALIASES:
                    _complete_names(inner, (*words, word), prefix, tcsh)
        elif offer := OFFERS.get((" ".join(words), action.dest)):
            _set_completer(action, completer(offer, prefix, tcsh))


def _set_completer(action: argparse.Action, completed: Any) -> None:  # noqa: ANN401 - shtab's
    action.complete = completed  # type: ignore[attr-defined]  # the attribute that shtab reads


def _identifier(name: str) -> str:
    return re.sub(r"\W", "_", name, flags=re.ASCII)


COMMANDS = {
    "completion": Command(_configure, _run, ["rye completion bash", "rye completion zsh --bin r"])
}
