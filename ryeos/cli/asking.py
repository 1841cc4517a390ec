"""Asking a person at a terminal: all is shown first, and what was typed before does not count.

(1) lines longer than the screen go through a pager: ``$PAGER``, else less, else pages of our own
(2) what was typed before the question is discarded: it answers nothing that was shown
"""

import os
import shlex
import shutil
import subprocess
import sys
import unicodedata
from collections.abc import Mapping, Sequence

from lillux.values import dataclass
from ryeos.app.output import Output
from ryeos.cli.progress import end_spinner

END = "q"
"""The answer where nothing more can be typed."""
KEPT_LINES = 3
"""Of a screen: for the question, and what stands around it."""
_COLORS = {"+": "green", "-": "red", "@": "dim", "=": "bold"}
_PATIENCE_S = 20.0
"""Seconds for an answer from whatever typed before there was a question."""
_CONTINUED = "\u00bb"


@dataclass(frozen=True, slots=True)
class Asking:
    """A terminal to ask at: how it is written to, and the environment of a pager."""

    output: Output
    environ: Mapping[str, str]


def show_all(terminal: Asking, lines: Sequence[str]) -> bool:
    """Show lines at a terminal, through a pager where they are many; False if a person stopped.

    Long lines are wrapped here, so that no setting of a pager cuts them.
    """
    shown = painted(terminal.output, wrapped(lines))
    rows = shutil.get_terminal_size().lines
    if len(shown) <= rows - KEPT_LINES:
        say(shown)
        return True
    if _is_paged(terminal, shown):
        return True
    page = max(rows - KEPT_LINES, 1)
    for start in range(0, len(shown), page):
        say(shown[start : start + page])
        left = len(shown) - start - page
        if left > 0 and typed_line(f"-- {left} more lines: Enter, or q to stop -- ") in (None, "q"):
            return False
    return True


def painted(output: Output, lines: Sequence[str]) -> list[str]:
    """Lines of a diff in colour, where standard error shows colours."""
    return [
        output.paint(line, color, stream=sys.stderr) if (color := _COLORS.get(line[:1])) else line
        for line in lines
    ]


def _is_paged(terminal: Asking, lines: Sequence[str]) -> bool:
    """Whether a pager took the lines: ``$PAGER``, else less, which a dumb terminal cannot show."""
    environ = terminal.environ
    less = shutil.which("less") if environ.get("TERM", "dumb") != "dumb" else None
    command = environ.get("PAGER") or (f"{shlex.quote(less)} -R" if less else "")
    # What is shown must not be changed on its way: by a filter of less, or its missing colours.
    own = {"LESSOPEN": "", "LESS": environ.get("LESS", "R") if environ.get("PAGER") else ""}
    text = "".join(f"{line}\n" for line in lines).encode("utf-8", "backslashreplace")
    try:
        words = shlex.split(command)
        if not words:
            return False
        end_spinner()
        done = subprocess.run(
            words, input=text, stdout=sys.stderr, env={**environ, **own}, check=False
        )
    except (OSError, ValueError) as error:
        say([f"the pager {command} does not start: {error}"])
        return False
    return done.returncode == 0


def wrapped(lines: Sequence[str]) -> list[str]:
    """The lines in pieces of the width of the terminal; the further ones begin with a mark."""
    width = max(shutil.get_terminal_size().columns, 20)
    mark = _CONTINUED if shows_unicode() else ">"
    found: list[str] = []
    for line in lines:
        piece, taken = "", 0
        for one in line:
            columns = _columns(one)
            if taken + columns > width:
                found.append(piece)
                piece, taken = mark, 1
            piece, taken = piece + one, taken + columns
        found.append(piece)
    return found


def _columns(one: str) -> int:
    if one.isascii():
        return 1
    if unicodedata.category(one) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(one) in "WF" else 1


def shows_unicode() -> bool:
    """Whether standard error takes every character."""
    return (sys.stderr.encoding or "").lower().replace("-", "").startswith("utf")


def say(lines: Sequence[str]) -> None:
    """Write lines to standard error, as it can show them."""
    encoding = sys.stderr.encoding or "utf-8"
    text = "".join(f"{line}\n" for line in lines)
    sys.stderr.write(text.encode(encoding, "backslashreplace").decode(encoding))
    sys.stderr.flush()


def ask_key(question: str) -> str:
    """The first letter of what is typed; ``q`` where nothing more can come."""
    typed = typed_line(question)
    if typed is None:
        return END
    return typed.lower()[:1] or "?"


def typed_line(question: str) -> str | None:
    """The line that is typed once the question stands there; None where the input has ended.

    What was typed before is discarded. Where something was, an answer has to come soon: it may be
    a script that has said all it has to say.
    """
    is_early = discard_typed()
    sys.stderr.write(question)
    sys.stderr.flush()
    if is_early and not _is_typed_within(_PATIENCE_S):
        say(["", "no answer: what was typed before the question does not count"])
        return None
    line = sys.stdin.readline()
    return line.strip() if line else None


def discard_typed() -> bool:
    """Discard what was typed and not read yet; whether there was something."""
    try:
        import select
        import termios
    except ImportError:
        return _discard_typed_windows()
    try:
        descriptor = sys.stdin.fileno()
        ready, _, _ = select.select([descriptor], [], [], 0)
        termios.tcflush(descriptor, termios.TCIFLUSH)
    except (OSError, ValueError, termios.error):
        return False
    return bool(ready)


def _discard_typed_windows() -> bool:
    found = False
    if sys.platform == "win32":
        import msvcrt

        while msvcrt.kbhit():
            msvcrt.getwch()
            found = True
    return found


def _is_typed_within(seconds: float) -> bool:
    if os.name == "nt":
        return True
    import select

    ready, _, _ = select.select([sys.stdin.fileno()], [], [], seconds)
    return bool(ready)


def is_agreed(terminal: Asking, lines: Sequence[str], question: str) -> bool:
    """Whether a person who saw these lines agrees to all of it."""
    return show_all(terminal, lines) and ask_key(f"{question} [y/N] ") == "y"
