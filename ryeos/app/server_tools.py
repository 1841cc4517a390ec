"""Tools of MCP servers as items: discover them, write and refresh their files."""

from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any

from lillux.cancellation import Cancellation
from lillux.errors import LilluxError
from lillux.file_locks import locked
from lillux.files import create_file, make_directory, read_bytes, remove_file, write_atomic
from lillux.values import dataclass
from ryeos.app.sign import follow_locks
from ryeos.app.workspace import Rye
from ryeos.imports.server_items import RUNTIMES, SUFFIX, is_untouched, next_version, version_of
from ryeos.imports.server_offers import ServerTool, offered_tools
from ryeos.items.errors import Answer
from ryeos.items.refs import ItemRef, Kind, Location, Reference, Space
from ryeos.run.calls import OnStderr
from ryeos.run.model import ExecutionRequest
from ryeos.trust.item_rules import validate_item
from ryeos.trust.resolver import candidates, locations
from ryeos.trust.sign import require_writable
from ryeos.trust.sign_targets import SignTarget
from ryeos.trust.signature import MAX_ITEM_BYTES, decode, form_for, split
from ryeos.trust.signing_key import SigningKey

# Items written and signed in one step: no reader ever meets one without its signature.


class ToolState(StrEnum):
    """The state of a tool of a server, or what is to be done with it."""

    ADDED = "added"
    CHANGED = "changed"
    UNCHANGED = "unchanged"
    REMOVED = "removed"
    CONFLICT = "conflict"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolChange:
    """One tool. ``text`` is what its item is to hold, ``before`` the bytes that are there."""

    state: ToolState
    tool: str
    ref: ItemRef | None = None
    path: Path | None = None
    text: str = ""
    before: bytes | None = None
    reason: str = ""

    def describe(self, *, done: bool) -> dict[str, Any]:
        """The change as commands show it; ``done`` where it has been carried out."""
        described: dict[str, Any] = {"state": self.state.value, "tool": self.tool}
        described |= {"ref": str(self.ref)} if self.ref else {}
        described |= {"path": str(self.path)} if self.path else {}
        described |= {"reason": self.reason} if self.reason else {}
        return described | {"done": done}


def changes(space: Space, server: str, offered: Sequence[ServerTool]) -> Iterator[ToolChange]:
    """The changes to the items of a server; items whose tool is gone are among them."""
    known = set()
    for offer in offered:
        change = _change(space, offer)
        known.add(change.path)
        yield change
    for location in locations(space, Kind.TOOL, f"mcp/{server}"):
        if location.path not in known and not location.ref.is_test:
            yield change_without_tool(location)


def change_without_tool(location: Location) -> ToolChange:
    """The change of an item whose tool is gone: removed, or a conflict if it was edited."""
    body, before = body_at(location.path)
    state = ToolState.REMOVED if is_untouched(body) else ToolState.CONFLICT
    reason = "the server does not have it"
    return ToolChange(
        state=state,
        tool=location.ref.name,
        ref=location.ref,
        path=location.path,
        before=before,
        reason=reason if state is ToolState.REMOVED else f"{reason}, and it was edited",
    )


def write_signed(
    rye: Rye, key: SigningKey, target: SignTarget, text: str, before: bytes | None
) -> None:
    """Write an item with its signature; ``before`` is what is there, None for nothing.

    Raises what signing raises, FileChangedError, FileExistsError.
    """
    require_writable(target)
    valid = validate_item(target, text.encode())
    form = form_for(target.kind, SUFFIX)
    if valid.signed is None:  # a suffix with its signature beside it, which ours is not
        raise AssertionError(target.label)
    where = str(target.path)
    data = key.signed_text(target.kind, valid.signed, form, where, valid.identity).encode()
    within = target.space.within
    with locked(target.space.lock("sign"), within=within):
        make_directory(target.path.parent, within=within)
        if before is None:
            create_file(target.path, data, within=within)
        else:
            write_atomic(target.path, data, expected=before, within=within)
        written = rye.verifier.verify(target.verify_target)
    if written.signature and written.identity and target.ref:  # signing decides for this version
        rye.note_signed(target.ref, target.space, written.signature, written.identity.version)


def write_change(rye: Rye, key: SigningKey, space: Space, change: ToolChange) -> ToolChange:
    """Write an added or changed tool; one that cannot be is reported with its reason."""
    if change.path is None:
        return change
    target = SignTarget(path=change.path, kind=Kind.TOOL, space=space, ref=change.ref)
    try:
        write_signed(rye, key, target, change.text, change.before)
    except (LilluxError, FileExistsError) as error:
        return ToolChange(
            state=ToolState.SKIPPED,
            tool=change.tool,
            ref=change.ref,
            path=change.path,
            reason=str(error),
        )
    return change


def remove_untouched(change: ToolChange, space: Space) -> bool:
    """Remove an item that is as it was written; whether it was."""
    if change.path is None or change.before is None:
        return False
    if read_bytes(change.path, MAX_ITEM_BYTES, within=space.within) != change.before:
        return False
    remove_file(change.path, within=space.within)
    return True


def target_of(space: Space, item_id: str) -> SignTarget:
    """The file of an item that we write."""
    ref = ItemRef(Kind.TOOL, item_id)
    path = Path(f"{space.directory(Kind.TOOL) / item_id}{SUFFIX}")
    return SignTarget(path=path, kind=Kind.TOOL, space=space, ref=ref)


def _change(space: Space, offer: ServerTool) -> ToolChange:
    if offer.problem:
        return ToolChange(state=ToolState.SKIPPED, tool=offer.tool, reason=offer.problem)
    target = target_of(space, offer.item_id)
    others = [p.name for p in candidates(space, ItemRef(Kind.TOOL, offer.item_id)) if p.exists()]
    if others not in ([], [target.path.name]):
        reason = f"{', '.join(others)}: another item has this id"
        return ToolChange(state=ToolState.CONFLICT, tool=offer.tool, ref=target.ref, reason=reason)
    body, before = body_at(target.path)
    state, text, reason = _compare_tool(offer, body, is_there=before is not None)
    return ToolChange(
        state=state,
        tool=offer.tool,
        ref=target.ref,
        path=target.path,
        text=text,
        before=before,
        reason="; ".join(filter(None, (reason, *offer.notes))),
    )


def _compare_tool(offer: ServerTool, body: str, *, is_there: bool) -> tuple[ToolState, str, str]:
    if not is_there:
        return ToolState.ADDED, offer.text(), ""
    if not is_untouched(body):
        return ToolState.CONFLICT, "", "it was edited, or not written from this server"
    version = version_of(body)
    if offer.text(version) == body:
        return ToolState.UNCHANGED, "", ""
    return ToolState.CHANGED, offer.text(next_version(version)), "the server describes it otherwise"


def body_at(path: Path) -> tuple[str, bytes | None]:
    """The text without signature lines, and the bytes; nothing where no file is."""
    try:
        data = read_bytes(path, MAX_ITEM_BYTES)
    except FileNotFoundError:
        return "", None
    return body_of(path, data), data


def body_of(path: Path, data: bytes) -> str:
    """The text without signature lines; nothing of a text that cannot be read."""
    try:
        where = str(path)
        return split(decode(data, where), form_for(Kind.TOOL, SUFFIX), where).body
    except LilluxError:
        return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RefreshOptions:
    """Options of a refresh of a server's tools, beside adding new ones.

    update  write anew what the server describes otherwise
    prune   remove what it no longer has
    upgrade takes the newest version of its package
    propose writes it unsigned, for a person to sign
    only    names of tools; all without
    """

    update: bool = False
    prune: bool = False
    dry_run: bool = False
    upgrade: bool = False
    propose: bool = False
    only: Sequence[str] = ()


def ask_server(
    rye: Rye,
    server: Location,
    *,
    cancellation: Cancellation | None = None,
    on_stderr: OnStderr | None = None,
) -> Answer:
    """The server's list of tools, as `Rye.execute` gives it."""
    request = ExecutionRequest(item_id=server.ref.id, use_lockfile=False)
    return rye.execute(
        Reference(Kind.TOOL, server.ref.id),
        request,
        cancellation=cancellation,
        on_stderr=on_stderr,
    )


def planned_changes(
    server: Location, listed: Answer, wish: RefreshOptions
) -> list[tuple[ToolChange, bool]]:
    """Each change of a tool, and whether it is to be carried out."""
    data = listed.envelope["data"]
    runtime = next(
        (e["item_id"] for e in listed.envelope["chain"] if e["item_id"] in RUNTIMES.values()),
        RUNTIMES["stdio"],
    )
    offered = [
        offer
        for offer in offered_tools(server.ref.name, runtime, data["tools"])
        if not wish.only or offer.tool in wish.only
    ]
    planned = []
    for change in changes(server.space, server.ref.name, offered):
        if change.state is ToolState.REMOVED and (wish.only or data["truncated"]):
            continue  # it may well be there
        is_due = change.state is ToolState.ADDED and (not wish.only or change.tool in wish.only)
        is_due |= change.state is ToolState.CHANGED and wish.update
        is_due |= change.state is ToolState.REMOVED and wish.prune
        planned.append((change, is_due))
    return planned


def carry_out(
    rye: Rye,
    space: Space,
    planned: Sequence[tuple[ToolChange, bool]],
    on_lock: Callable[[str], None] = lambda _: None,
) -> Iterator[tuple[ToolChange, bool]]:
    """Write and sign what is due; each change, and whether it was carried out.

    Lockfiles that pin what was written follow: ``on_lock`` gets the tool of each.
    """
    key = rye.signing_key()
    names: set[str] = set()
    paths: set[Path] = set()
    for change, is_due in planned:
        if not is_due:
            yield change, False
        elif change.state is ToolState.REMOVED:
            yield change, remove_untouched(change, space)
        else:
            written = write_change(rye, key, space, change)
            if written is change and change.ref and change.path:
                names |= {change.ref.id, change.path.name}
                paths.add(change.path.resolve())
            yield written, written is change
    for item_id in follow_locks(rye, names, paths):
        on_lock(item_id)
