"""``gc``: the removal of what nothing names, said by whoever can write the node's files."""

import argparse
from collections.abc import Mapping, Sequence
from typing import Any

from rye_services.key_commands import Answer, Declare
from ryeos.items.context import utc_now
from ryeos.items.errors import RyeError


class GarbageKeptError(RyeError):
    """Of some users nothing was removed, as something that is still needed cannot be read."""

    code, exit_status = "INTEGRITY", 4

    def __init__(self, users: Sequence[Mapping[str, Any]], problems: Sequence[str]) -> None:
        self.users = tuple(users)
        self.details = tuple(problems)
        self.facts = {"users": list(users)}
        super().__init__(
            f"nothing was removed of {len(problems)} of {len(users)} users: {problems[0]}",
            hint="a damaged object comes back with the next push of whoever has it",
        )


def declare_gc(declare: Declare) -> None:
    """The command ``gc``."""
    gc = declare("gc", _collect, "remove what nothing names from every store")
    gc.add_argument("--dry-run", action="store_true", help="only count it")


def _collect(parsed: argparse.Namespace, environ: Mapping[str, str]) -> Answer:
    from rye_services.data_folder import require_data
    from rye_services.database import Database
    from rye_services.node.storage_routes import shown
    from rye_services.node.stores import UserStores
    from rye_services.node.sync_services import open_sync
    from rye_services.settings import settings_of

    settings = require_data(settings_of(parsed, environ))
    database = Database(settings.database_url)
    try:
        stores = UserStores(settings.cas_base_path)
        storage = open_sync(settings, database, stores, utc_now).storage
        found = storage.collect(dry_run=parsed.dry_run)
    finally:
        database.close()
    users = [shown(one) for one in found]
    problems = [f"{one.user_id}: {one.problem}" for one in found if one.state == "refused"]
    if problems:
        raise GarbageKeptError(users, problems)
    envelope = {"status": "success", "dry_run": parsed.dry_run, "users": users}
    return Answer(envelope, _table(users) or "no users")


def _table(users: Sequence[Mapping[str, Any]]) -> str:
    return "\n".join(
        f"{one['user_id']}  {one['state']}  {one['removed']} removed, {one['freed_bytes']} bytes; "
        f"{one['kept']} kept, {one['stored_bytes']} bytes"
        + (f"; {one['forgotten_executions']} executions" if one["forgotten_executions"] else "")
        for one in users
    )
