"""Proposals of agents that wait for a person to sign them, and what each would change.

A proposal is a file of user space, out of reach of what an agent starts:
``.ai/state/proposals/<id>.json``, with the item, its file, the digest of its bytes, and who asked.
Signing takes these very bytes and no others.
"""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lillux.digests import sha256_hex
from lillux.errors import LilluxError, as_word
from lillux.files import FileChangedError, make_directory, read_bytes, write_atomic
from lillux.foreign_text import one_line
from lillux.values import dataclass
from ryeos.app.workspace import Rye
from ryeos.items.context import utc_now
from ryeos.items.errors import RyeError
from ryeos.items.refs import Kind, Space, id_gives_rights
from ryeos.trust.sign_targets import ReadItem, SignTarget, read_item, target_of_path

PROPOSALS_FOLDER = "state/proposals"
MAX_PROPOSAL_BYTES = 64 * 1024
MAX_PROPOSALS = 200
WAITING, SIGNED, DROPPED, FAILED = "waiting", "signed", "dropped", "failed"
_DECIDED = ".decided"


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """An item that a caller wants signed. ``sha256`` is of its bytes, ``client`` who asked."""

    id: str
    label: str
    path: Path
    project: str
    sha256: str
    client: str
    proposed_at: str

    def describe(self) -> dict[str, Any]:
        """The same as JSON."""
        return {
            "id": self.id,
            "ref": self.label,
            "path": str(self.path),
            "project": self.project,
            "sha256": self.sha256,
            "client": self.client,
            "proposed_at": self.proposed_at,
        }


def gives_rights(target: SignTarget) -> bool:
    """True if a file decides what others may do: keys, approvals, policies, remotes and similar."""
    if target.kind is not Kind.CONFIG:
        return False
    try:
        parts = target.path.relative_to(target.space.directory(Kind.CONFIG)).parts
    except ValueError:
        return True
    return id_gives_rights("/".join(part.partition(".")[0] for part in parts))


def require_no_rights(targets: Sequence[SignTarget], *, is_new_text: bool = False) -> None:
    """Raise a RyeError for a file that gives rights; ``is_new_text``: it was to be written."""
    for target in targets:
        if gives_rights(target):
            command = _editing(target) if is_new_text else f"rye sign {as_word(target.path)}"
            raise RyeError(
                f"{target.label}: an agent signs nothing that gives rights",
                code="PERMISSION_DENIED",
                hint=f"ask your user to run: {command}",
                path=str(target.path),
            )


def _editing(target: SignTarget) -> str:
    """The command by which a person writes a file of configuration."""
    if target.path.exists():
        return f"rye edit {target.label} --sign"
    return f"rye new config {target.label.partition(':')[2]} --space user"


class Proposals:
    """The proposals of one user space."""

    def __init__(self, user: Space) -> None:
        self._folder = user.ai / PROPOSALS_FOLDER

    def add(self, item: ReadItem, *, project: str, client: str) -> Proposal:
        """Let a proposal wait; one for the same file takes the place of the one before.

        Raises FileSystemError, and RyeError where too many wait.
        """
        path = os.path.realpath(item.target.path)
        proposal = Proposal(
            id=_id_of(path),
            label=item.target.label,
            path=Path(path),
            project=project,
            sha256=item.sha256,
            client=one_line(client, 80),
            proposed_at=utc_now().strftime("%Y-%m-%dT%H:%M:%SZ"),
        )
        file = self._folder / f"{proposal.id}.json"
        if not file.exists() and len(self._files()) >= MAX_PROPOSALS:
            raise RyeError(
                f"{MAX_PROPOSALS} proposals wait already",
                code="RESOURCE_EXCEEDED",
                hint="decide about them with: rye approve",
            )
        make_directory(self._folder, mode=0o700)
        text = json.dumps(proposal.describe(), indent=2)
        write_atomic(file, text.encode() + b"\n", mode=0o600)
        return proposal

    def room(self) -> int:
        """The number of those that may still wait."""
        return max(0, MAX_PROPOSALS - len(self._files()))

    def of(self, path: Path) -> Proposal | None:
        """The proposal that waits for a file, if one does."""
        return _read(self._folder / f"{_id_of(os.path.realpath(path))}.json")

    def all(self) -> list[Proposal]:
        """Every proposal that can be read, the oldest first."""
        found = filter(None, map(_read, self._files()))
        return sorted(found, key=lambda one: (one.proposed_at, one.id))

    def decide(self, proposal: Proposal, state: str) -> None:
        """Close a proposal; what became of the last ones is kept for the agent that asked."""
        write_atomic(self._folder / f"{proposal.id}{_DECIDED}", state.encode(), mode=0o600)
        (self._folder / f"{proposal.id}.json").unlink(missing_ok=True)
        decided = sorted(self._folder.glob(f"*{_DECIDED}"), key=lambda path: path.stat().st_mtime)
        for path in decided[:-MAX_PROPOSALS]:
            path.unlink(missing_ok=True)

    def state(self, proposal_id: str) -> str:
        """The state of a proposal; ``waiting`` until it is decided, ``""`` for an unknown one."""
        if (self._folder / f"{proposal_id}.json").exists():
            return WAITING
        try:
            return read_bytes(self._folder / f"{proposal_id}{_DECIDED}", 64).decode("ascii")
        except (OSError, ValueError, LilluxError):
            return ""

    def _files(self) -> list[Path]:
        return list(self._folder.glob("*.json"))


def read_proposal(rye: Rye, proposal: Proposal) -> ReadItem:
    """The file to sign with its bytes, read once, if these are what was proposed.

    Raises FileChangedError, ItemNotFoundError, InvalidRefError.
    """
    here = rye.at(proposal.project) if proposal.project else rye
    item = read_item(target_of_path(proposal.path, here.context.spaces))
    if item.sha256 != proposal.sha256:
        raise FileChangedError(str(proposal.path))
    return item


def _id_of(path: str) -> str:
    return sha256_hex(os.fsencode(path))[:12]


def _read(file: Path) -> Proposal | None:
    try:
        said = json.loads(read_bytes(file, MAX_PROPOSAL_BYTES))
        return Proposal(
            id=file.stem,
            label=str(said["ref"]),
            path=Path(said["path"]),
            project=str(said["project"]),
            sha256=str(said["sha256"]),
            client=str(said["client"]),
            proposed_at=str(said["proposed_at"]),
        )
    except (OSError, ValueError, LookupError, TypeError, LilluxError):
        return None
