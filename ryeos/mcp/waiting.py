"""What a call meets while a person decides: a proposal that waits, or another one's text.

A text that an agent proposes takes the place of one that another agent has proposed for the same
item. Both hear of it: the second one in the answer of ``sign``, the first one when its call would
run a text that is not its own.
"""

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from lillux.digests import sha256_hex
from lillux.errors import LilluxError
from lillux.files import read_bytes
from ryeos.app.proposals import Proposal, Proposals
from ryeos.items.errors import RyeError
from ryeos.items.refs import ItemRef, Kind, Location, Space, id_gives_rights
from ryeos.trust.sign import ReadItem
from ryeos.trust.signature import MAX_ITEM_BYTES, SignedText, decode, form_for, split

ASK_USER = "ask your user to run: rye approve"
ITS_USER_DECIDES = f"{ASK_USER}; then make the call in next"
_RESUMED_BY = "--force"
_UNREADABLE = frozenset({"PARSING_ERROR", "CONFIG_ERROR", "METADATA_ERROR"})
_PROJECT_CONFIG = re.compile(r"/\.ai/config/([\w./-]+)\.(?:ya?ml|json|toml)\b")


def with_next(
    envelope: Mapping[str, Any], user: Space, name: str, arguments: Mapping[str, Any]
) -> Mapping[str, Any]:
    """The answer of a failed call with the call that goes on, where one is known to."""
    if envelope.get("status") != "error":
        return envelope
    if name == "execute" and _RESUMED_BY in str(envelope.get("hint")):
        given = arguments.get("parameters")
        forced = {**(given if isinstance(given, Mapping) else {}), "force": True}
        again = {**arguments, "parameters": forced}
        return {**envelope, "next": [{"name": name, "arguments": again}]}
    error = str(envelope.get("error"))
    config = _PROJECT_CONFIG.search(error) if envelope.get("code") in _UNREADABLE else None
    if config:
        label = f"config:{config[1]}"
        wish = f'propose its repair: sign {{"item_id": "{label}", "content": "..."}}'
        needs_user = id_gives_rights(config[1])
        return {**envelope, "hint": "ask your user to repair it" if needs_user else wish}
    waiting = [one for one in Proposals(user).all() if str(one.path) in error]
    if not waiting:
        return envelope
    labels = ", ".join(one.label for one in waiting)
    hint = f"{labels} waits for approval: {ITS_USER_DECIDES}"
    return {**envelope, "hint": hint, "next": [{"name": name, "arguments": dict(arguments)}]}


class ProposedTexts:
    """The texts that this server's client proposed last, by item."""

    def __init__(self) -> None:
        self._digests: dict[ItemRef, str] = {}
        self._proposed: set[str] = set()

    def note(self, items: Sequence[ReadItem]) -> None:
        """Keep what was proposed."""
        self._proposed.update(item.sha256 for item in items)
        for item in items:
            ref, path = item.target.ref, item.target.path
            with suppress(LilluxError):  # a type that its space adds
                if ref:
                    self._digests[ref] = _digest(_text(ref.kind, path, item.data))

    def has(self, proposal: Proposal) -> bool:
        """Whether a proposal is one of this server's client."""
        return proposal.sha256 in self._proposed

    def require_own(self, location: Location) -> None:
        """Raise a RyeError for a signed item with another text than was proposed or read here."""
        wanted = self._digests.get(location.ref)
        found = _text_at(location) if wanted else None
        if found is None or found.signature is None or _digest(found) == wanted:
            return
        ref = location.ref
        raise RyeError(
            f"{ref}: not run: another text than the one that you proposed was approved",
            code="CONFLICT",
            hint=f'read it first: load {{"item_id": "{ref}", "text": true}}',
        )

    def note_read(self, location: Location) -> None:
        """The client has read the text that is there now."""
        found = _text_at(location) if location.ref in self._digests else None
        if found:
            self._digests[location.ref] = _digest(found)

    def __bool__(self) -> bool:
        """Whether anything was proposed."""
        return bool(self._digests)


def _text_at(location: Location) -> SignedText | None:
    """The text of an item; None where the run says what is wrong with it."""
    try:
        data = read_bytes(location.path, MAX_ITEM_BYTES, within=location.space.within)
        return _text(location.ref.kind, location.path, data)
    except (OSError, LilluxError):
        return None


def _text(kind: Kind, path: Path, data: bytes) -> SignedText:
    where = str(path)
    return split(decode(data, where), form_for(kind, path.suffix, where), where)


def _digest(text: SignedText) -> str:
    """The digest of a text without what signing adds to it."""
    return sha256_hex(f"{text.shebang}\0{text.body}".encode())
