"""Asking a server for its tools, and bringing the items up to date."""

from collections.abc import Iterator, Sequence

from lillux.process.cancellation import Cancellation
from lillux.values import dataclass
from ryeos.app import Rye
from ryeos.envelope import Answer
from ryeos.executor.calls import OnStderr
from ryeos.executor.model import Request
from ryeos.items import Kind, Location, Reference
from ryeos.server_tools.offers import offers
from ryeos.server_tools.servers import RUNTIMES
from ryeos.server_tools.writing import (
    Change,
    State,
    changes,
    remove_untouched,
    write_change,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What is to be done about the tools of a server, beside adding new ones.

    update  write anew what the server describes otherwise
    prune   remove what it no longer has
    only    names of tools; all without
    """

    update: bool = False
    prune: bool = False
    dry_run: bool = False
    only: Sequence[str] = ()


def ask_server(
    rye: Rye,
    server: Location,
    *,
    cancellation: Cancellation | None = None,
    on_stderr: OnStderr | None = None,
) -> Answer:
    """The server's list of tools, as `Rye.execute` gives it."""
    request = Request(item_id=server.ref.id, use_lockfile=False)
    return rye.execute(
        Reference(Kind.TOOL, server.ref.id),
        request,
        cancellation=cancellation,
        on_stderr=on_stderr,
    )


def bring_up_to_date(
    rye: Rye, server: Location, listed: Answer, wish: Wish
) -> Iterator[tuple[Change, bool]]:
    """Each change, and whether it was carried out. Raises NoSigningKeyError."""
    data, space = listed.envelope["data"], server.space
    runtime = next(
        (e["item_id"] for e in listed.envelope["chain"] if e["item_id"] in RUNTIMES.values()),
        RUNTIMES["stdio"],
    )
    offered = [
        offer
        for offer in offers(server.ref.name, runtime, data["tools"])
        if not wish.only or offer.tool in wish.only
    ]
    key = None if wish.dry_run else rye.signing_key()
    for change in list(changes(space, server.ref.name, offered)):
        is_meant = not wish.only or change.tool in wish.only
        if change.state is State.REMOVED and (wish.only or data["truncated"]):
            continue  # it may well be there
        is_written = change.state is State.ADDED or (wish.update and change.state is State.CHANGED)
        if key and is_written and is_meant:
            written = write_change(rye, key, space, change)
            yield written, written is change
        elif key and wish.prune and change.state is State.REMOVED:
            yield change, remove_untouched(change)
        else:
            yield change, False
