"""What agents want signed: proposals that wait for a person, and what each would change.

A proposal is a file of user space, out of reach of what an agent starts:
``.ai/state/proposals/<id>.json``, with the item, its file, the digest of its bytes, and who asked.
Signing takes these very bytes and no others. The texts that were signed last are kept beside
(``.ai/state/signed``), so that a person sees what changed since.
"""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from difflib import unified_diff
from pathlib import Path
from typing import Any

from lillux.digests import sha256_hex
from lillux.errors import LilluxError, as_word
from lillux.files import FileChangedError, make_directory, read_bytes, write_atomic
from lillux.values import dataclass
from ryeos.app.output import steers_nothing
from ryeos.app.workspace import Rye
from ryeos.items.context import utc_now
from ryeos.items.errors import RyeError
from ryeos.items.refs import Kind, Space, id_gives_rights
from ryeos.trust.sign import SignTarget, read_item, target_of_path
from ryeos.trust.signature import MAX_ITEM_BYTES, decode, split

PROPOSALS_FOLDER, SIGNED_FOLDER = "state/proposals", "state/signed"
MAX_PROPOSAL_BYTES = 64 * 1024
MAX_PROPOSALS = 200
MAX_KEPT_TEXT = 256 * 1024
DIFF_LINES, MAX_LINE_CHARACTERS = 60, 500
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
        """As JSON."""
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
    """Whether a file decides what others may do: keys, approvals, policies, remotes and similar."""
    if target.kind is not Kind.CONFIG:
        return False
    try:
        parts = target.path.relative_to(target.space.directory(Kind.CONFIG)).parts
    except ValueError:
        return True
    return id_gives_rights(parts[0].partition(".")[0])


def require_no_rights(targets: Sequence[SignTarget]) -> None:
    """Raise a RyeError for a file that gives rights."""
    for target in targets:
        if gives_rights(target):
            raise RyeError(
                f"{target.label}: an agent signs nothing that gives rights",
                code="PERMISSION_DENIED",
                hint=f"a person signs it, after reading it: rye sign {as_word(target.path)}",
                path=str(target.path),
            )


class Proposals:
    """The proposals of one user space."""

    def __init__(self, user: Space) -> None:
        self._folder = user.ai / PROPOSALS_FOLDER

    def add(self, target: SignTarget, data: bytes, *, project: str, client: str) -> Proposal:
        """Let a proposal wait; one for the same file takes the place of the one before.

        Raises FileSystemError, and RyeError where too many wait.
        """
        path = os.path.realpath(target.path)
        proposal = Proposal(
            id=sha256_hex(os.fsencode(path))[:12],
            label=target.label,
            path=Path(path),
            project=project,
            sha256=sha256_hex(data),
            client="".join(c for c in client[:80] if c.isprintable()),
            proposed_at=utc_now().strftime("%Y-%m-%dT%H:%M:%SZ"),
        )
        file = self._folder / f"{proposal.id}.json"
        if not file.exists() and len(self._files()) >= MAX_PROPOSALS:
            raise RyeError(
                f"{MAX_PROPOSALS} proposals wait already",
                code="RESOURCE_EXCEEDED",
                hint="your user decides about them with: rye approve",
            )
        make_directory(self._folder, mode=0o700)
        text = json.dumps(proposal.describe(), indent=2)
        write_atomic(file, text.encode() + b"\n", mode=0o600)
        return proposal

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
        """What became of a proposal; ``waiting`` until it is decided, ``""`` for an unknown one."""
        if (self._folder / f"{proposal_id}.json").exists():
            return WAITING
        try:
            return read_bytes(self._folder / f"{proposal_id}{_DECIDED}", 64).decode("ascii")
        except (OSError, ValueError, LilluxError):
            return ""

    def _files(self) -> list[Path]:
        return list(self._folder.glob("*.json"))


def target_of(rye: Rye, proposal: Proposal) -> SignTarget:
    """The file to sign, if it still has the bytes that were proposed.

    Raises FileChangedError, ItemNotFoundError, InvalidRefError.
    """
    here = rye.at(proposal.project) if proposal.project else rye
    target = target_of_path(proposal.path, here.context.spaces)
    if sha256_hex(read_item(target)) != proposal.sha256:
        raise FileChangedError(str(proposal.path))
    return target


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


# --- what changed ---------------------------------------------------------------------------------


def keep_signed(user: Space, targets: Sequence[SignTarget]) -> None:
    """Keep the texts that were just signed, to compare the next with. A failure is no error."""
    folder = user.ai / SIGNED_FOLDER
    for target in targets:
        try:
            data = read_item(target)
            reviewed = "\n".join(_review(target, data))
            data += reviewed.encode()
            if len(data) <= MAX_KEPT_TEXT:
                make_directory(folder, mode=0o700)
                write_atomic(_kept(user, target), data, mode=0o600)
        except (OSError, LilluxError):
            continue


def changes(user: Space, target: SignTarget, data: bytes, most: int = DIFF_LINES) -> list[str]:
    """What changed in a file since it was signed last, as lines of a diff; all of a new one.

    No line steers a terminal. At most ``most`` lines; the last one says how many more there are.
    """
    try:
        before = _lines(target, read_bytes(_kept(user, target), MAX_ITEM_BYTES))
    except (OSError, LilluxError):
        before = []
    now = [*_lines(target, data), *_review(target, data)]
    lines = list(unified_diff(before, now, "signed", "now", lineterm="", n=2))
    shown = [shown_line(line) for line in lines]
    more = len(shown) - most
    rest = f"... and {more} more lines: read all of {steers_nothing(str(target.path))}"
    return shown if more <= 0 else [*shown[:most], rest]


def shown_line(line: str) -> str:
    """A line of a diff, cut where it is long, and then it says so: nothing hides behind a cut."""
    more = len(line) - MAX_LINE_CHARACTERS
    cut = f" ... and {more} more characters" if more > 0 else ""
    return f"{steers_nothing(line[:MAX_LINE_CHARACTERS])}{cut}"


def _kept(user: Space, target: SignTarget) -> Path:
    name = sha256_hex(os.fsencode(os.path.realpath(target.path)))[:40]
    return user.ai / SIGNED_FOLDER / name


def _lines(target: SignTarget, data: bytes) -> list[str]:
    """The lines of a text without those that Rye writes."""
    form, where = target.verify_target.form, str(target.path)
    try:
        text = decode(data, where)
        if form:
            signed = split(text, form, where)
            text = signed.shebang + signed.body
    except LilluxError:
        text = data.decode("utf-8", "replace")
    return text.splitlines()


def _review(target: SignTarget, data: bytes) -> list[str]:
    """The lines of the files that a skill, or an imported tool, signs too; else empty."""
    if target.kind is Kind.TOOL and b"\nFILES = " in data:
        from ryeos.imports import tool_texts

        return tool_texts.review_lines(data.decode("utf-8", "replace"), target.space.base)
    if target.kind is not Kind.DIRECTIVE or b"<skill " not in data:
        return []
    from ryeos.trust.skill_files import review_lines

    return list(review_lines(data.decode("utf-8", "replace"), target.space))


def digests(targets: Sequence[SignTarget]) -> Mapping[Path, str]:
    """The digest of each file, as a person is asked about it. Raises ItemNotFoundError."""
    return {target.path: sha256_hex(read_item(target)) for target in targets}


def described(
    user: Space, targets: Sequence[SignTarget], found: Mapping[Path, str]
) -> Iterator[str]:
    """What a person is shown: each item with its digest, and what changed."""
    each = max(10, DIFF_LINES // max(1, len(targets)))
    for target in targets:
        yield f"{target.label}  sha256 {found[target.path][:16]}"
        yield from changes(user, target, read_item(target), each)
