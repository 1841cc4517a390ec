"""Who has a store on this node: names that are safe as folders everywhere, and a row for each."""

import re

from sqlalchemy import Connection, select

from rye_services.tables import users
from ryeos.items.errors import RyeError

# One case only, since some file systems have no other; a key's fingerprint is such a name.
_USER_ID = re.compile(r"[0-9a-z][0-9a-z_-]{0,63}")
# What Windows takes for a device, whatever folder it is in.
_DEVICE = re.compile(r"con|prn|aux|nul|(com|lpt)[0-9]")


class UserIdError(RyeError):
    """A name that no user can have."""

    code, exit_status = "INVALID_PARAMS", 2

    def __init__(self, user_id: str) -> None:
        self.user_id = user_id
        super().__init__(
            f"user {user_id[:80]!r}: expected 1 to 64 of a-z, 0-9, - and _, no device of Windows",
            hint="the fingerprint of a user's signing key is the best name: rye keys show",
        )


def check_user_id(user_id: str) -> str:
    """The name itself. Raises UserIdError: no folder is made from anything else."""
    if not _USER_ID.fullmatch(user_id) or _DEVICE.fullmatch(user_id):
        raise UserIdError(user_id)
    return user_id


def ensure_user(connection: Connection, user_id: str, created_at: str) -> None:
    """Have a row for a user. Raises UserIdError."""
    check_user_id(user_id)
    known = select(users.c.id).where(users.c.id == user_id)
    if connection.scalar(known) is None:
        connection.execute(users.insert().values(id=user_id, created_at=created_at))
