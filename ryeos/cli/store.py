"""``rye store show`` and ``gc``: the project's object store."""

import math
from collections.abc import Iterable
from time import time

from lillux.store import StoredEntry
from lillux.store_layout import ObjectKind
from ryeos.app.command_line import Arguments, CommandSpec, no_arguments
from ryeos.cli.session import Session
from ryeos.graph.run_places import RunPlace, run_place
from ryeos.graph.run_store import roots_of_runs
from ryeos.items.errors import UsageError
from ryeos.sync.garbage import GRACE_S, collect_garbage


def _configure_gc(parser: Arguments) -> None:
    add = parser.add_argument
    add("--dry-run", action="store_true", help="show what would be removed, and remove nothing")
    add("--grace", metavar="S", type=float, help=f"keep what is younger ({GRACE_S:g} seconds)")


def _show(session: Session) -> int:
    store = _place(session).store()
    blobs, objects = (_total(store.stored(space)) for space in (ObjectKind.BLOB, ObjectKind.OBJECT))
    refs = sum(1 for _ in store.refs())
    envelope = {
        "status": "success",
        "store": str(store.root),
        "blobs": {"count": blobs[0], "bytes": blobs[1]},
        "objects": {"count": objects[0], "bytes": objects[1]},
        "refs": refs,
    }
    lines = [
        str(store.root),
        f"blobs    {blobs[0]:>10,}  {blobs[1]:>15,} bytes",
        f"objects  {objects[0]:>10,}  {objects[1]:>15,} bytes",
        f"refs     {refs:>10,}",
    ]
    session.output.answer(envelope, "\n".join(lines))
    return 0


def _gc(session: Session) -> int:
    grace_s, is_dry = _grace_s(session), session.arguments.dry_run
    place = _place(session)
    store = place.store()
    found = collect_garbage(
        store, roots_of_runs(place), now_s=time(), grace_s=grace_s, dry_run=is_dry
    )
    envelope = {
        "status": "success",
        "store": str(store.root),
        "dry_run": is_dry,
        "removed": found.removed,
        "freed_bytes": found.freed_bytes,
        "kept": found.kept,
    }
    done = "would remove" if is_dry else "removed"
    text = f"{done} {found.removed:,} of {found.removed + found.kept:,} files"
    session.output.answer(envelope, f"{text}, {found.freed_bytes:,} bytes, of {store.root}")
    return 0


def _grace_s(session: Session) -> float:
    given = session.arguments.grace
    if given is None:
        return GRACE_S
    if not 0 <= given < math.inf:
        raise UsageError(f"--grace: expected a number of seconds from 0 up, found {given:g}")
    return float(given)


def _place(session: Session) -> RunPlace:
    return run_place(session.context.spaces)


def _total(stored: Iterable[StoredEntry]) -> tuple[int, int]:
    sizes = [one.size for one in stored]
    return len(sizes), sum(sizes)


SHOW = CommandSpec(no_arguments, _show, ["rye store show"])
GC = CommandSpec(_configure_gc, _gc, ["rye store gc --dry-run", "rye store gc"])
