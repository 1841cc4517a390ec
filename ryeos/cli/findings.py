"""The findings of ``rye doctor``, and the fixes that it may apply."""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from lillux.beneath import open_folder
from lillux.errors import LilluxError
from lillux.files import make_directory
from lillux.values import dataclass
from ryeos.cli.session import Session
from ryeos.items.refs import Kind, Space

OK, WARN, FAIL, DONE = "ok", "warn", "fail", "done"

Fix = Callable[[], str]
"""Puts right what was found, and says what it did. Raises LilluxError."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding. ``status`` is ``ok``, ``warn`` or ``fail``; ``fix`` is what to do.

    ``apply`` is there where ``rye doctor --fix`` may do that: nothing is lost by it, there is
    nothing to choose, and no new key is trusted.
    """

    name: str
    status: str
    message: str
    fix: str = ""
    apply: Fix | None = None

    def describe(self) -> dict[str, str]:
        """The finding as ``doctor --json`` shows it."""
        described = {"name": self.name, "status": self.status, "message": self.message}
        return described | ({"fix": self.fix} if self.fix else {})


Probe = Callable[[Session], Iterator[Finding]]


# --- fixing --------------------------------------------------------------------------------------
# What ``rye doctor --fix`` may do: what loses nothing, leaves no choice, and trusts no key.
#
# Keys, signatures, approvals and settings of clients are never touched.


def fix_findings(checks: Iterable[Finding]) -> Iterator[Finding]:
    """Apply the fixes; a finding for each that says what was done, or why not."""
    for check in checks:
        if check.apply is None:
            continue
        try:
            yield Finding(check.name, DONE, check.apply())
        except LilluxError as error:
            yield Finding(check.name, FAIL, f"not fixed: {error}", error.hint or check.fix)


def keep_from_others(path: Path) -> Fix | None:
    """How to take the permissions of other users away; None for a link, which leads elsewhere."""

    def take() -> str:
        from lillux.files import take_from_others

        take_from_others(path)
        return f"{path}: only for you now"

    return None if path.is_symlink() else take


def make_user_space(user: Space) -> Fix:
    """How to make the folders of user space, as ``rye init`` does."""

    def make() -> str:
        space_folders(user, make=True, mode=0o700)
        return f"{user.ai}: made, with a folder for each kind of item"

    return make


# --- steps ----------------------------------------------------------------------------------------
# What ``rye init`` did, step by step, and the step that ``rye doctor --fix`` takes too.

MADE, THERE, WOULD_MAKE = "made", "there already", "would make"
REMOVED, WOULD_REMOVE = "removed", "would remove"
LEFT = "left to you"


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that was made, or need not be. ``status`` is one of the words above."""

    what: str
    path: Path
    status: str


def space_folders(space: Space, *, make: bool, mode: int) -> Step:
    """Make the folders of a space that are missing, or say that it would."""
    folders = (space.ai, *(space.directory(kind) for kind in Kind))
    missing = [path for path in folders if not path.is_dir()]
    for path in (one for one in folders if make and space.within and one not in missing):
        open_folder(path, space.within).close()  # one that is there is no link to elsewhere
    for path in missing if make else ():
        make_directory(path, mode=mode, within=space.within)
    return Step(f"{space.label} space", space.ai, step_status(missing=bool(missing), make=make))


def step_status(*, missing: bool, make: bool) -> str:
    """The word for a file that was missing or not, and was to be made or not."""
    if not missing:
        return THERE
    return MADE if make else WOULD_MAKE
