"""Commands that an agent started and that are a person's: what it asks its user to run instead."""

import os
import shlex
from collections.abc import Sequence
from errno import EACCES, EPERM, EROFS

from lillux.errors import FileSystemError, LilluxError
from ryeos.items.errors import ApprovalRequiredError

_CODES = frozenset({"APPROVAL_REQUIRED", "NO_SIGNING_KEY"})
_REFUSED = frozenset({EACCES, EPERM, EROFS})
# What answers an agent, and what a person agrees to with it.
_OF_AGENTS = frozenset({"--json", "--yes", "-y"})


def left_to_person(error: LilluxError, command: str, arguments: Sequence[str]) -> LilluxError:
    """The error of an agent's command: with the line for its user, where it needs one.

    It needs a person where it signs, asks, or writes what an agent may not.
    """
    if not _needs_person(error) or "ask your user" in error.hint:
        return error
    line = shlex.join(["rye", *command.split(), *_of_person(list(arguments))])
    proposed = "propose it with the MCP tool sign; or " if command == "sign" else ""
    said = str(error).removeprefix("not approved: ")
    return ApprovalRequiredError(
        f"rye {command} is a person's to run: {said}",
        hint=f"{proposed}ask your user to run: {line}",
    )


def _of_person(arguments: list[str]) -> list[str]:
    """The arguments without what Rye added for the agent, or for its own home."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    own = [one for one in arguments[:end] if one not in _OF_AGENTS]
    if "--user-space" in own:
        at = own.index("--user-space")
        if own[at + 1 : at + 2] == [os.environ.get("HOME", "")]:
            del own[at : at + 2]
    return [*own, *arguments[end:]]


def _needs_person(error: LilluxError) -> bool:
    cause = error.__cause__
    is_refused = isinstance(cause, OSError) and cause.errno in _REFUSED
    return error.code in _CODES or (isinstance(error, FileSystemError) and is_refused)
