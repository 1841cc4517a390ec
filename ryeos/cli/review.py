"""A person reads an item at a terminal, all of it, and then is asked: one question per item.

(1) facts, warnings and text are shown, through a pager where they are longer than the screen
(2) what was typed before the question is discarded: it answers nothing that was shown
(3) the answer is one letter, as in ``git add -p``; ``?`` says what each does

Without a terminal nothing is asked, and the one rule of `needs_person` says what then happens.
"""

import shlex
import subprocess
from collections.abc import Iterator, Sequence
from shutil import get_terminal_size

from lillux.errors import as_word
from lillux.values import dataclass
from ryeos.app.review import Review, review_of
from ryeos.app.shown_text import shown_words
from ryeos.app.workspace import Rye
from ryeos.cli.asking import (
    END,
    KEPT_LINES,
    ask_key,
    painted,
    say,
    show_all,
    shows_unicode,
    typed_line,
    wrapped,
)
from ryeos.cli.progress import end_spinner
from ryeos.cli.session import Session
from ryeos.items.context import CONFINE_VARIABLE
from ryeos.items.errors import ApprovalRequiredError
from ryeos.trust.sign_targets import ReadItem, read_item

YES, NOT_NOW, SKIP, DROP, QUIT = "y", "n", "s", "d", END
_VIEW, _EDIT = "v", "e"
_MEANINGS = {
    YES: "sign it",
    NOT_NOW: "not now: it stays as it is",
    _VIEW: "view all of it, not only what changed",
    _EDIT: "edit it, then read it again",
    SKIP: "skip it, and ask again after the others",
    DROP: "drop the proposal",
    QUIT: "quit: sign neither this nor what comes after it",
}


def is_agents(session: Session) -> bool:
    """Whether an agent, a graph or a node started this program."""
    return session.context.confines or session.environ.get(CONFINE_VARIABLE) == "1"


def needs_person(session: Session, question: str, line: str, *, is_named: bool = False) -> bool:
    """Whether to ask at the terminal; False where the command itself is a person's word.

    That is ``--yes``, and a command that names each item that it signs (``is_named``), unless an
    agent started it. Raises ApprovalRequiredError, with the line that signs, for anything else.
    """
    if getattr(session.arguments, "yes", False):
        return False
    if session.can_ask:
        return True
    if is_named and not is_agents(session):
        return False
    raise ApprovalRequiredError(question, hint=f"run it at a terminal, or read it, then: {line}")


@dataclass(frozen=True, slots=True)
class Decided:
    """An answer, and the item as it was read last: a person may have edited it."""

    answer: str
    item: ReadItem


def decide_each(session: Session, rye: Rye, items: Sequence[ReadItem]) -> Iterator[Decided]:
    """Ask about each item; those that are skipped once more after the others, by their order."""
    waiting, skipped = list(items), set()
    while waiting:
        item = waiting.pop(0)
        decided = decide_one(session, rye, item)
        if decided.answer == SKIP and item.target.path not in skipped:
            skipped.add(item.target.path)
            waiting.append(decided.item)
            continue
        yield decided
        if decided.answer == QUIT:
            yield from (Decided(QUIT, one) for one in waiting)
            return


def decide_one(
    session: Session, rye: Rye, item: ReadItem, *, wanted_by: str = "", may_drop: bool = False
) -> Decided:
    """Show one item and ask until there is an answer."""
    keys = YES + NOT_NOW + _VIEW + _EDIT + SKIP + (DROP if may_drop else "") + QUIT
    review = review_of(rye, item, wanted_by=wanted_by)
    is_seen = show_review(session, review)
    while is_seen:
        is_new = " (new)" if review.is_new else ""
        question = f"sign {shown_words(review.item.target.label)}{is_new}? [{','.join(keys)},?] "
        answer = ask_key(question)
        if answer == _VIEW:
            is_seen = show_review(session, review, whole=True)
        elif answer == _EDIT:
            if edit(session, review.item):
                review = review_of(rye, read_item(item.target), wanted_by=wanted_by)
                is_seen = show_review(session, review)
        elif answer == YES and review.misleads and not _is_sure():
            continue
        elif answer in keys:
            return Decided(answer, review.item)
        else:
            say([f"{key} - {_MEANINGS[key]}" for key in keys])
    return Decided(QUIT, review.item)


def _is_sure() -> bool:
    """Whether a person wrote ``yes`` in full: something in the text is not as it looks."""
    return (
        typed_line("some of it is not as it looks (see the warning); to sign, write yes: ") == "yes"
    )


# --- showing --------------------------------------------------------------------------------------


def show_review(session: Session, review: Review, *, whole: bool = False) -> bool:
    """Show an item; whether all of it was shown. The facts stand above the question in any case."""
    is_ascii = not shows_unicode()
    summary = review.summary(ascii_only=is_ascii)
    text = review.text(whole=whole, ascii_only=is_ascii) or [" no text"]
    if not show_all(session.terminal, [*summary, *text]):
        return False
    rows = get_terminal_size().lines
    if len(wrapped([*summary, *text])) > rows - KEPT_LINES:
        say(painted(session.output, summary))
    return True


def edit(session: Session, item: ReadItem) -> bool:
    """Have a person edit the file; whether the editor ended well."""
    editor = session.environ.get("VISUAL") or session.environ.get("EDITOR") or ""
    if not editor:
        say([f"no editor: set EDITOR, or edit {as_word(item.target.path)} and answer v"])
        return False
    end_spinner()
    try:
        ended = subprocess.run([*shlex.split(editor), str(item.target.path)], check=False)
    except (OSError, ValueError) as error:
        say([f"{editor}: {error}"])
        return False
    return ended.returncode == 0
