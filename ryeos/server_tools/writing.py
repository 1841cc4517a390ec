"""Items written and signed in one step: no reader ever meets one without its signature."""

from collections.abc import Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any

from lillux.errors import LilluxError
from lillux.files import create_file, locked, make_directory, read_bytes, write_atomic
from lillux.values import dataclass
from ryeos.app import Rye
from ryeos.items import ItemRef, Kind, Location, Space
from ryeos.resolver import candidates, locations
from ryeos.server_tools.documents import is_untouched, next_version, version_of
from ryeos.server_tools.offers import Offer
from ryeos.sign import check_item, check_writable
from ryeos.sign_targets import SignTarget
from ryeos.signature import MAX_ITEM_BYTES, decode, form_for, split
from ryeos.signing_key import SigningKey

SUFFIX = ".yaml"


class State(StrEnum):
    """What is, or is to be done, with a tool of a server."""

    ADDED = "added"
    CHANGED = "changed"
    UNCHANGED = "unchanged"
    REMOVED = "removed"
    CONFLICT = "conflict"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One tool. ``text`` is what its item is to hold, ``before`` the bytes that are there."""

    state: State
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


def changes(space: Space, server: str, offered: Sequence[Offer]) -> Iterator[Change]:
    """What the items of a server would have to become, and those that nothing stands for."""
    known = set()
    for offer in offered:
        change = _change(space, offer)
        known.add(change.path)
        yield change
    for location in locations(space, Kind.TOOL, f"mcp/{server}"):
        if location.path not in known and not location.ref.is_test:
            yield change_without_offer(location)


def change_without_offer(location: Location) -> Change:
    """What becomes of an item that nothing stands for: removed, or a conflict if it was edited."""
    body, before = _body_at(location.path)
    state = State.REMOVED if is_untouched(body) else State.CONFLICT
    reason = "the server does not have it"
    return Change(
        state=state,
        tool=location.ref.name,
        ref=location.ref,
        path=location.path,
        before=before,
        reason=reason if state is State.REMOVED else f"{reason}, and it was edited",
    )


def write_signed(
    rye: Rye, key: SigningKey, target: SignTarget, text: str, before: bytes | None
) -> None:
    """Write an item with its signature; ``before`` is what is there, None for nothing.

    Raises what signing raises, FileChangedError, FileExistsError.
    """
    check_writable(target)
    signed = check_item(target, text.encode())
    form = form_for(target.kind, SUFFIX)
    if signed is None:  # a suffix with its signature beside it, which ours is not
        raise AssertionError(target.label)
    data = key.signed_text(target.kind, signed, form, str(target.path)).encode()
    with locked(target.space.ai / "state" / "sign.lock"):
        make_directory(target.path.parent)
        if before is None:
            create_file(target.path, data)
        else:
            write_atomic(target.path, data, expected=before)
        rye.verifier.verify(target.verify_target)


def write_change(rye: Rye, key: SigningKey, space: Space, change: Change) -> Change:
    """Write an added or changed tool; one that cannot be is told with its reason."""
    if change.path is None:
        return change
    target = SignTarget(path=change.path, kind=Kind.TOOL, space=space, ref=change.ref)
    try:
        write_signed(rye, key, target, change.text, change.before)
    except (LilluxError, FileExistsError) as error:
        return Change(
            state=State.SKIPPED,
            tool=change.tool,
            ref=change.ref,
            path=change.path,
            reason=str(error),
        )
    return change


def remove_untouched(change: Change) -> bool:
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


def _change(space: Space, offer: Offer) -> Change:
    if offer.problem:
        return Change(state=State.SKIPPED, tool=offer.tool, reason=offer.problem)
    target = target_of(space, offer.item_id)
    others = [p.name for p in candidates(space, ItemRef(Kind.TOOL, offer.item_id)) if p.exists()]
    if others not in ([], [target.path.name]):
        reason = f"{', '.join(others)}: another item has this id"
        return Change(state=State.CONFLICT, tool=offer.tool, ref=target.ref, reason=reason)
    body, before = _body_at(target.path)
    state, text, reason = _compared(offer, body, is_there=before is not None)
    return Change(
        state=state,
        tool=offer.tool,
        ref=target.ref,
        path=target.path,
        text=text,
        before=before,
        reason=reason,
    )


def _compared(offer: Offer, body: str, *, is_there: bool) -> tuple[State, str, str]:
    if not is_there:
        return State.ADDED, offer.text(), ""
    if not is_untouched(body):
        return State.CONFLICT, "", "it was edited, or not written from this server"
    version = version_of(body)
    if offer.text(version) == body:
        return State.UNCHANGED, "", ""
    return State.CHANGED, offer.text(next_version(version)), "the server describes it otherwise"


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
