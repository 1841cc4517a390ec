"""Tools of MCP servers as items: discover them, write and refresh their files."""

from collections.abc import Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any

from lillux.cancellation import Cancellation
from lillux.errors import LilluxError
from lillux.files import (
    create_file,
    locked,
    make_directory,
    read_bytes,
    write_atomic,
)
from lillux.values import dataclass
from ryeos.app.workspace import Rye
from ryeos.imports.server_items import (
    RUNTIMES,
    SERVER_FOLDER,
    ServerTool,
    is_untouched,
    next_version,
    offered_tools,
    valid_server_id,
    version_of,
)
from ryeos.items.errors import Answer, RyeError
from ryeos.items.refs import SYSTEM, ItemRef, Kind, Location, Reference, Space
from ryeos.run.calls import OnStderr
from ryeos.run.model import ExecutionRequest
from ryeos.trust.file_types import extract
from ryeos.trust.keys import SigningKey
from ryeos.trust.resolver import candidates, locations
from ryeos.trust.sign import SignTarget, require_writable, validate_item
from ryeos.trust.signature import MAX_ITEM_BYTES, decode, form_for, split

# --- servers --------------------------------------------------------------------------------------
# The items of servers: found, listed.


class ServerNotFoundError(RyeError):
    """An MCP server that no space has written down."""

    code, exit_status = "ITEM_NOT_FOUND", 3

    def __init__(self, name: str, known: Sequence[str]) -> None:
        from difflib import get_close_matches

        self.name = name
        self.suggestions = tuple(get_close_matches(name, known, 2))
        meant = f"did you mean {' or '.join(self.suggestions)}? or " if self.suggestions else ""
        super().__init__(
            f"MCP server {name!r}: not found; configured: {', '.join(known) or 'none'}",
            hint=f"{meant}add it: rye mcp add {name} -- PROGRAM",
        )


def server_location(rye: Rye, name: str) -> Location:
    """Where the item of a server is, in a space that can be written.

    Raises UsageError, ServerNotFoundError.
    """
    ref = ItemRef(Kind.TOOL, valid_server_id(name))
    found = rye.resolver.find(ref)
    if found is None or found.location.space.tier == SYSTEM:
        raise ServerNotFoundError(name, sorted(one["name"] for one in described_servers(rye)))
    return found.location


def described_servers(rye: Rye) -> Iterator[dict[str, Any]]:
    """Every server there is, with what keeps it from being used."""
    seen: set[ItemRef] = set()
    for space in rye.context.spaces:
        for location in locations(space, Kind.TOOL, SERVER_FOLDER):
            if location.ref not in seen:
                seen.add(location.ref)
                yield _described(rye, location)


def _described(rye: Rye, location: Location) -> dict[str, Any]:
    name = location.ref.name
    described: dict[str, Any] = {
        "name": name,
        "ref": str(location.ref),
        "space": location.space.label,
        "path": str(location.path),
    }
    try:
        item = rye.verifier.verify_location(location)
        header = item.header or extract(Kind.TOOL, location.suffix, item.text, str(location.path))
    except LilluxError as error:
        return described | {"problem": str(error)}
    config = header.get("config")
    told = config if isinstance(config, dict) else {}
    shown = {key: told[key] for key in ("transport", "command", "args", "url") if key in told}
    tools = sum(1 for _ in locations(location.space, Kind.TOOL, f"mcp/{name}"))
    return described | shown | {"tools": tools}


# --- writing --------------------------------------------------------------------------------------
# Items written and signed in one step: no reader ever meets one without its signature.

SUFFIX = ".yaml"


class ToolState(StrEnum):
    """What is, or is to be done, with a tool of a server."""

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
    """What the items of a server would have to become, and those that nothing stands for."""
    known = set()
    for offer in offered:
        change = _change(space, offer)
        known.add(change.path)
        yield change
    for location in locations(space, Kind.TOOL, f"mcp/{server}"):
        if location.path not in known and not location.ref.is_test:
            yield change_without_tool(location)


def change_without_tool(location: Location) -> ToolChange:
    """What becomes of an item that nothing stands for: removed, or a conflict if it was edited."""
    body, before = _body_at(location.path)
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
    with locked(target.space.ai / "state" / "sign.lock"):
        make_directory(target.path.parent)
        if before is None:
            create_file(target.path, data)
        else:
            write_atomic(target.path, data, expected=before)
        rye.verifier.verify(target.verify_target)


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


def remove_untouched(change: ToolChange) -> bool:
    """Remove an item that is as it was written; whether it was."""
    if change.path is None or change.before is None:
        return False
    if read_bytes(change.path, MAX_ITEM_BYTES) != change.before:
        return False
    change.path.unlink()
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
    body, before = _body_at(target.path)
    state, text, reason = _compared(offer, body, is_there=before is not None)
    return ToolChange(
        state=state,
        tool=offer.tool,
        ref=target.ref,
        path=target.path,
        text=text,
        before=before,
        reason=reason,
    )


def _compared(offer: ServerTool, body: str, *, is_there: bool) -> tuple[ToolState, str, str]:
    if not is_there:
        return ToolState.ADDED, offer.text(), ""
    if not is_untouched(body):
        return ToolState.CONFLICT, "", "it was edited, or not written from this server"
    version = version_of(body)
    if offer.text(version) == body:
        return ToolState.UNCHANGED, "", ""
    return ToolState.CHANGED, offer.text(next_version(version)), "the server describes it otherwise"


def _body_at(path: Path) -> tuple[str, bytes | None]:
    """The text without signature lines, and the bytes; nothing where no file is."""
    try:
        data = read_bytes(path, MAX_ITEM_BYTES)
    except FileNotFoundError:
        return "", None
    try:
        where = str(path)
        return split(decode(data, where), form_for(Kind.TOOL, SUFFIX), where).body, data
    except LilluxError:
        return "", data


# --- discovery ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class RefreshOptions:
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
    request = ExecutionRequest(item_id=server.ref.id, use_lockfile=False)
    return rye.execute(
        Reference(Kind.TOOL, server.ref.id),
        request,
        cancellation=cancellation,
        on_stderr=on_stderr,
    )


def bring_up_to_date(
    rye: Rye, server: Location, listed: Answer, wish: RefreshOptions
) -> Iterator[tuple[ToolChange, bool]]:
    """Each change, and whether it was carried out. Raises NoSigningKeyError."""
    data, space = listed.envelope["data"], server.space
    runtime = next(
        (e["item_id"] for e in listed.envelope["chain"] if e["item_id"] in RUNTIMES.values()),
        RUNTIMES["stdio"],
    )
    offered = [
        offer
        for offer in offered_tools(server.ref.name, runtime, data["tools"])
        if not wish.only or offer.tool in wish.only
    ]
    key = None if wish.dry_run else rye.signing_key()
    for change in list(changes(space, server.ref.name, offered)):
        is_meant = not wish.only or change.tool in wish.only
        if change.state is ToolState.REMOVED and (wish.only or data["truncated"]):
            continue  # it may well be there
        is_written = change.state is ToolState.ADDED or (
            wish.update and change.state is ToolState.CHANGED
        )
        if key and is_written and is_meant:
            written = write_change(rye, key, space, change)
            yield written, written is change
        elif key and wish.prune and change.state is ToolState.REMOVED:
            yield change, remove_untouched(change)
        else:
            yield change, False
