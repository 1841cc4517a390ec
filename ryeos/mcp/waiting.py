"""The obstacle of a call while a person decides: a proposal that waits, or another one's text.

A text that an agent proposes takes the place of one that another agent has proposed for the same
item. Both hear of it: the second one in the answer of ``sign``, the first one when its call would
run a text that is not its own.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from lillux.errors import LilluxError
from ryeos.app.proposals import Proposal, Proposals, gives_rights
from ryeos.items.errors import RETRY_WITH
from ryeos.items.refs import PROJECT, Kind, Spaces
from ryeos.trust.known_texts import text_digest
from ryeos.trust.sign_targets import ReadItem, target_of_path

ASK_USER = "ask your user to run: rye approve"
ITS_USER_DECIDES = f"{ASK_USER}; then make the call in next"


def with_next(
    envelope: Mapping[str, Any], spaces: Spaces, name: str, arguments: Mapping[str, Any]
) -> Mapping[str, Any]:
    """The answer of a failed call with the call that goes on, where one is known to.

    (1) the error names the parameters with which the same call goes on
    (2) the file that it is about waits for approval, or (3) is configuration, to be repaired
    """
    if envelope.get("status") != "error":
        return envelope
    more = envelope.get(RETRY_WITH)
    if name == "execute" and isinstance(more, Mapping):  # (1)
        given = arguments.get("parameters")
        parameters = {**(given if isinstance(given, Mapping) else {}), **more}
        again = {**arguments, "parameters": parameters}
        rest = {key: value for key, value in envelope.items() if key != RETRY_WITH}
        return {**rest, "next": [{"name": name, "arguments": again}]}
    path = _failed_path(envelope)
    if not path:
        return envelope
    may_wait = envelope.get("error_type") == "integrity" or envelope.get("path") != path
    waiting = Proposals(spaces.user).of(Path(path)) if may_wait else None
    if waiting:  # (2)
        hint = f"{waiting.label} waits for approval: {ITS_USER_DECIDES}"
        return {**envelope, "hint": hint, "next": [{"name": name, "arguments": dict(arguments)}]}
    hint = _repair_of(path, spaces) if name == "execute" else ""
    return {**envelope, "hint": hint} if hint else envelope  # (3)


def _failed_path(envelope: Mapping[str, Any]) -> str:
    """The file that Rye itself could not use: of the call, or of the node that ended a graph."""
    data = envelope.get("data")
    is_graph = isinstance(data, Mapping) and "graph_run_id" in data
    path = data.get("path") if isinstance(data, Mapping) and is_graph else envelope.get("path")
    return path if isinstance(path, str) else ""


def _repair_of(path: str, spaces: Spaces) -> str:
    """The way to repair a file of configuration; ``""`` for any other file."""
    try:
        target = target_of_path(Path(path), spaces)
    except LilluxError:
        return ""
    if target.kind is not Kind.CONFIG or target.ref is None:
        return ""
    if target.space.tier != PROJECT or gives_rights(target):
        return f"ask your user to run: rye edit {target.ref} --sign"
    return f'propose its repair: sign {{"item_id": "{target.ref}", "content": "..."}}'


class ProposedTexts:
    """The texts that this server's client proposed or read last, by item."""

    def __init__(self) -> None:
        self._digests: dict[str, str] = {}
        self._proposed: set[str] = set()

    def note(self, items: Sequence[ReadItem]) -> None:
        """Keep what was proposed."""
        self._proposed.update(item.sha256 for item in items)
        for item in items:
            ref, path = item.target.ref, item.target.path
            with suppress(LilluxError):  # a type that its space adds
                if ref:
                    self._digests[str(ref)] = text_digest(ref.kind, path, item.data)

    def has(self, proposal: Proposal) -> bool:
        """True if a proposal is one of this server's client."""
        return proposal.sha256 in self._proposed

    @property
    def known(self) -> Mapping[str, str]:
        """The digest of the text that the client knows, by item: no other text is run for it."""
        return dict(self._digests)

    def note_read(self, loaded: Mapping[str, Any]) -> None:
        """The client has read the text of this answer of ``load``."""
        ref, digest = loaded.get("ref"), loaded.get("text_sha256")
        if ref in self._digests and isinstance(digest, str):
            self._digests[ref] = digest
