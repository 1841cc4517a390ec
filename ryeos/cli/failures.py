"""Saying what went wrong: in one line and a hint, or as the envelope; never as a traceback."""

import os
import sys

from lillux.errors import LilluxError
from lillux.files import file_system_error
from ryeos.cli import commands


def report(error: Exception, *, as_json: bool) -> int:
    """Show a failure; the exit status.

    What the machine refuses is told with the file's name; any other failure that is not ours is a
    bug, and says so.
    """
    if os.environ.get("RYE_LOG") == "debug":
        import traceback

        traceback.print_exception(error)
    if isinstance(error, OSError) and error.errno is not None:
        name = error.filename
        known = isinstance(name, str | bytes)  # else a descriptor, or nothing
        error = file_system_error(os.fsdecode(name) if known else "an open file", error)
    if not isinstance(error, LilluxError):
        error = LilluxError(
            f"internal error: {type(error).__name__}: {error}",
            hint="this is a bug in rye; RYE_LOG=debug shows where it happened",
        )
    if not as_json or not _answered(error):
        _say(error)
    return error.exit_status


def _answered(error: LilluxError) -> bool:
    """Write the envelope of a failure; whether standard output took it."""
    from ryeos.cli.output import Output, OutputError
    from ryeos.items.errors import error_envelope

    if isinstance(error, OutputError):
        return False
    try:
        Output(as_json=True, environ=os.environ).answer(error_envelope(error), "")
    except OutputError:
        return False
    return True


def _say(error: LilluxError) -> None:
    from ryeos.cli.output import steers_nothing

    sys.stderr.write(f"error: {steers_nothing(str(error))}\n")
    cause = error.__cause__
    if cause and str(cause) not in str(error):
        sys.stderr.write(f"  cause: {steers_nothing(str(cause))}\n")
    if error.hint:
        sys.stderr.write(f"  hint: {steers_nothing(error.hint)}\n")


def unknown_command(words: list[str]) -> LilluxError:
    """The failure to raise for words that are no command, with the closest one."""
    from difflib import get_close_matches

    from ryeos.items.errors import UsageError

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
