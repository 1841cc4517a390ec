"""``rye``: find the command, hand it its arguments, turn what happened into text and a status.

Kept lean: what only some commands need is imported by those. Contract: ``docs/cli.md``.
"""

import os
import sys
from pathlib import Path

from lillux.errors import LilluxError
from ryeos.cli import commands

INTERRUPTED, BROKEN_PIPE = 130, 141


def main(argv: list[str] | None = None, bundle_root: Path | None = None) -> int:
    """Run the command line; the exit status. ``bundle_root`` is where the own bundle lies."""
    arguments = sys.argv[1:] if argv is None else argv
    try:
        return _dispatch(arguments, bundle_root)
    except LilluxError as error:
        return _report(error, as_json="--json" in arguments)
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        return INTERRUPTED
    except BrokenPipeError:
        _silence_stdout()
        return BROKEN_PIPE
    except Exception as error:  # noqa: BLE001 - the outermost door: a bug, said in one line
        return _report_bug(error, as_json="--json" in arguments)


def _dispatch(arguments: list[str], bundle_root: Path | None) -> int:
    words, rest = _split(arguments)
    if not words and ("-V" in rest or "--version" in rest):
        words = ["version"]
    entry = commands.find(words) or (None if words else commands.find(["help"]))
    if entry is None:
        raise _unknown(words)
    from importlib import import_module

    from ryeos.cli.session import run_command

    module = import_module(f"ryeos.cli.{entry.module}")
    for word in entry.words.split() if words else ():
        arguments = _without(arguments, word)
    if not words:  # `rye -h` is `rye help`, not help on `rye help`
        arguments = [argument for argument in arguments if argument not in {"-h", "--help"}]
    return run_command(module.COMMANDS[entry.words], entry, arguments, bundle_root)


def _split(arguments: list[str]) -> tuple[list[str], list[str]]:
    """The first two words that are no flags or values of global flags, and the leading flags."""
    words: list[str] = []
    flags: list[str] = []
    skip = False
    for argument in arguments:
        if skip:
            skip = False
        elif argument.startswith("-") and argument != "-":
            skip = commands.GLOBAL_FLAGS.get(argument, False)
            flags.append(argument)
        else:
            words.append(argument)
            if len(words) == 2:  # noqa: PLR2004 - no command has more words
                break
    return words, flags


def _without(arguments: list[str], word: str) -> list[str]:
    """The arguments less the command's own word, whose alias may stand there instead."""
    skip = False
    for index, argument in enumerate(arguments):
        if skip:
            skip = False
        elif argument.startswith("-"):
            skip = commands.GLOBAL_FLAGS.get(argument, False)
        elif commands.ALIASES.get(argument, argument) == word:
            return arguments[:index] + arguments[index + 1 :]
    return arguments


def _unknown(words: list[str]) -> LilluxError:
    from difflib import get_close_matches

    from ryeos.errors import UsageError

    actions = commands.actions(words[0])
    typed = words[1] if actions and len(words) > 1 else words[0]
    known = actions or commands.first_words()
    close = get_close_matches(typed, known, 1, 0.5)
    group = f"{words[0]} " if actions else ""
    if actions and len(words) == 1:
        return UsageError(
            f"{words[0]}: expected one of {', '.join(actions)}", hint=f"rye help {words[0]}"
        )
    hint = f"did you mean: rye {group}{close[0]}" if close else "list the commands with: rye help"
    return UsageError(f"unknown command {group}{typed!r}", hint=hint)


def _report(error: LilluxError, *, as_json: bool) -> int:
    if as_json:
        from ryeos.cli.output import Output
        from ryeos.envelope import error_envelope

        Output(as_json=True, environ=os.environ).answer(error_envelope(error), "")
    else:
        sys.stderr.write(f"error: {error}\n")
        cause = error.__cause__
        if cause and str(cause) not in str(error):
            sys.stderr.write(f"  cause: {cause}\n")
        if error.hint:
            sys.stderr.write(f"  hint: {error.hint}\n")
    if os.environ.get("RYE_LOG") == "debug":
        _print_traceback()
    return error.exit_status


def _report_bug(error: Exception, *, as_json: bool) -> int:
    if os.environ.get("RYE_LOG") == "debug":
        _print_traceback()
    failure = LilluxError(
        f"internal error: {type(error).__name__}: {error}",
        hint="this is a bug in rye; RYE_LOG=debug shows where it happened",
    )
    _report(failure, as_json=as_json)
    return failure.exit_status


def _print_traceback() -> None:
    import traceback

    traceback.print_exc()


def _silence_stdout() -> None:
    """The reader is gone: let the interpreter's own flush at exit find a place to write to."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
