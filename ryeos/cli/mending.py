"""What ``rye doctor --fix`` may do: what loses nothing, leaves no choice, and trusts nobody.

Keys, signatures, approvals and settings of clients are never touched.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path

from lillux.errors import LilluxError
from ryeos.cli.findings import DONE, FAIL, Check, Mend
from ryeos.items import Space


def mend(checks: Iterable[Check]) -> Iterator[Check]:
    """Put right what can be; a finding for each, that says what was done, or why it was not."""
    for check in checks:
        if check.mend is None:
            continue
        try:
            yield Check(check.name, DONE, check.mend())
        except LilluxError as error:
            yield Check(check.name, FAIL, f"not mended: {error}", error.hint or check.fix)


def keep_from_others(path: Path) -> Mend | None:
    """How to take the permissions of other users away; None for a link, which leads elsewhere."""

    def take() -> str:
        from lillux.files import take_from_others

        take_from_others(path)
        return f"{path}: only for you now"

    return None if path.is_symlink() else take


def make_user_space(user: Space) -> Mend:
    """How to make the folders of user space, as ``rye init`` does."""

    def make() -> str:
        from ryeos.cli.steps import space_folders

        space_folders(user, make=True, mode=0o700)
        return f"{user.ai}: made, with a folder for each kind of item"

    return make
