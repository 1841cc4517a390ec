"""``rye-node``: find the command, carry it out, turn what happened into text and a status.

Contract: ``docs/node.md``. What only serving needs is imported by serving.
"""

import argparse
import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

from rye_services import key_commands, storage_command
from rye_services.registry import account_commands
from ryeos import __version__
from ryeos.cli.entry import ended_quietly
from ryeos.cli.failures import report
from ryeos.cli.output import Output
from ryeos.items.errors import UsageError
from ryeos.trust.bundles import BundleHome

_INVALID_CHOICE = re.compile(r"invalid choice: '(.*?)' \(choose from")
_EXAMPLES = """\
examples:
  rye-node.pyz serve --data /var/lib/rye-node --port 8000
  rye-node.pyz keys add ~/.ai/config/keys/signing/public_key.pem --label "Ada's laptop"
  rye-node.pyz api-keys create --user 3d4c030534b1c1c6 --name ci --expires-days 90

statuses: 0 done, 2 usage, 3 not found, 6 configuration, 130 interrupted; docs/node.md
"""


def main(argv: list[str] | None = None, bundle: BundleHome | None = None) -> int:
    """Run the command line; the exit status. ``bundle`` is where the standard bundle lies."""
    arguments = sys.argv[1:] if argv is None else argv
    if arguments[:1] == ["help"]:
        arguments = [*arguments[1:], "--help"]
    return ended_quietly(arguments, lambda: _reported(arguments, bundle))


def _reported(arguments: list[str], bundle: BundleHome | None) -> int:
    try:
        return _run(arguments, bundle)
    except BrokenPipeError:
        raise
    except SystemExit:  # of --help and --version, whose text may lie in the buffer still
        sys.stdout.flush()
        raise
    except Exception as error:  # noqa: BLE001 - the outermost door
        return report(error, as_json="--json" in arguments)


def _run(arguments: list[str], bundle: BundleHome | None) -> int:
    parsed = _parser().parse_args(arguments)
    output = Output(as_json=parsed.json, quiet=parsed.quiet, environ=os.environ)
    if parsed.run is None:
        return _serve(parsed, bundle or _own_bundle(), os.environ)
    answer: key_commands.Answer = parsed.run(parsed, os.environ)
    for note in answer.notes:
        output.note(note)
    output.answer(answer.envelope, answer.text)
    return 0


def _serve(parsed: argparse.Namespace, bundle: BundleHome, environ: Mapping[str, str]) -> int:
    from rye_services.serve_command import serve_node

    return serve_node(parsed, Path(bundle.locate()), environ)


def _own_bundle() -> BundleHome:
    from ryeos.cli.session import own_bundle

    return own_bundle()


def _version(_: argparse.Namespace, __: Mapping[str, str]) -> key_commands.Answer:
    facts: dict[str, Any] = {
        "name": "rye-node",
        "version": __version__,
        "python": sys.version.split()[0],
        "platform": sys.platform,
    }
    return key_commands.Answer({"status": "success", **facts}, f"rye-node {__version__}")


# --- arguments ------------------------------------------------------------------------------------


class _Parser(argparse.ArgumentParser):
    """argparse whose errors are ours."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:  # noqa: ANN401 - argparse's
        """Refuse what is not known where it was typed: the command knows its own flags."""
        found, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return found, unknown

    def error(self, message: str) -> NoReturn:
        """Refuse a command line. Raises UsageError."""
        raise UsageError(f"{self.prog}: {message}", hint=self._hint(message))

    def _hint(self, message: str) -> str:
        from difflib import get_close_matches

        _, _, typed = message.partition("unrecognized arguments: ")
        found = _INVALID_CHOICE.search(message)
        words = [word for action in self._actions for word in action.option_strings]
        words += [word for action in self._actions for word in action.choices or ()]
        close = get_close_matches(found[1] if found else typed.partition(" ")[0], words, 1, 0.5)
        return f"did you mean {close[0]}?" if close else f"see: {self.prog} --help"


class _Version(argparse.Action):
    def __call__(self, *_: Any, **__: Any) -> NoReturn:  # noqa: ANN401 - argparse's signature
        sys.stdout.write(f"rye-node {__version__}\n")
        raise SystemExit(0)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="rye-node.pyz",
        description="Serve Rye to others: their items, their runs, their keys.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("-V", "--version", action=_Version, nargs=0, help="the version")
    commands = parser.add_subparsers(metavar="COMMAND", required=True, parser_class=_Parser)
    _declare_serve(_command(commands, "serve", None, "serve until asked to end"))
    keys = _group(commands, "keys", "who may sign requests")
    key_commands.declare_keys(lambda *words: _command(keys, *words))
    api_keys = _group(commands, "api-keys", "texts that stand for a user")
    key_commands.declare_api_keys(lambda *words: _command(api_keys, *words))
    accounts = _group(commands, "accounts", "who may publish in a registry")
    account_commands.declare_accounts(lambda *words: _command(accounts, *words))
    account_commands.declare_take_down(lambda *words: _command(commands, *words))
    storage_command.declare_gc(lambda *words: _command(commands, *words))
    _command(commands, "version", _version, "the version and its surroundings")
    return parser


def _command(commands: Any, name: str, run: Any, words: str) -> argparse.ArgumentParser:  # noqa: ANN401 - argparse's
    parser: argparse.ArgumentParser = commands.add_parser(
        name, help=words, description=words, allow_abbrev=False
    )
    parser.add_argument("--data", metavar="DIR", help="what the node keeps (default ~/.rye-node)")
    parser.add_argument("--json", action="store_true", help="one JSON document on stdout")
    parser.add_argument("-q", "--quiet", action="store_true", help="no notes")
    parser.set_defaults(run=run)
    return parser


def _group(commands: Any, name: str, words: str) -> Any:  # noqa: ANN401 - argparse's
    parser = commands.add_parser(name, help=words, description=words, allow_abbrev=False)
    return parser.add_subparsers(metavar="ACTION", required=True, parser_class=_Parser)


def _declare_serve(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--host", metavar="H", help="the address to listen on (default 127.0.0.1)")
    add("--port", metavar="N", help="the port to listen on (default 8000; 0 takes a free one)")
    add("--name", metavar="NAME", help="what clients call this node (default: default)")
    add("--role", metavar="ROLE", help="node, registry or all (default node)")
    add("--url", metavar="URL", help="what clients reach it by, for the line that tells them")
