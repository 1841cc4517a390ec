"""Errors between this program and a node or registry: `ryeos.remote.peers` has their words."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lillux.foreign_text import one_line, printable
from ryeos.items.error_table import OF_STARTS, refusal_remedy
from ryeos.items.errors import RyeError
from ryeos.remote.peers import NODE, PeerRules

_SHOWN = 500
_MANY_PATHS, _MANY_ISSUES = 5, 8


class RemoteUnreachableError(RyeError):
    """No reply came from the peer ``remote``. ``problem`` is what the connection said."""

    code = "REMOTE_UNREACHABLE"

    def __init__(
        self, remote: str, problem: str, *, hint: str = "", peer: PeerRules = NODE
    ) -> None:
        self.remote, self.problem = remote, problem
        usual = f"is the address right, and the {peer.what} running? see: {peer.is_running}"
        super().__init__(f"{peer.word} {remote}: {problem}", hint=hint or usual)


class RemoteTimeoutError(RemoteUnreachableError):
    """The peer did not answer within ``timeout_s``."""

    def __init__(
        self, remote: str, problem: str, timeout_s: float, *, peer: PeerRules = NODE
    ) -> None:
        self.timeout_s = timeout_s
        super().__init__(remote, problem, peer=peer)


class RemoteError(RyeError):
    """A peer refused: an HTTP ``status`` of 400 or more, and the ``detail`` it gave.

    The code is that of its kind; a model that cannot be asked there is the same error as here.
    """

    code = "REMOTE_REFUSED"

    def __init__(
        self,
        status: int,
        detail: Any,  # noqa: ANN401 - JSON
        *,
        what: str = "",
        hint: str = "",
        peer: PeerRules = NODE,
    ) -> None:
        self.status, self.detail = status, detail
        self.facts = {"http_status": status, "detail": detail}
        super().__init__(
            f"{what or f'the {peer.what}'}: refused with status {status}: {detail_text(detail)}",
            code=_code_in(detail) or peer.refused_code,
            hint=hint or refusal_remedy(status, peer.what),
        )


class RemoteReplyError(RyeError):
    """An answer that no such peer gives: the server is of another kind, or lies."""

    code = "REMOTE_REPLY_INVALID"

    def __init__(self, what: str, problem: str, peer: PeerRules = NODE) -> None:
        self.what, self.problem = what, problem
        hint = f"is this the address of a {peer.what}? see: {peer.check_command}"
        super().__init__(f"{what}: {problem}", hint=hint)


class ReplyTooLargeError(RemoteReplyError):
    """A reply is larger than what was to be read of it."""


class HeadMovedError(RyeError):
    """Another client has pushed since: the head is ``actual``, and not ``expected``; or None."""

    code = "REMOTE_HEAD_MOVED"

    def __init__(self, expected: str | None, actual: str | None) -> None:
        self.expected, self.actual = expected, actual
        self.facts = {"expected": expected, "actual": actual}
        super().__init__(
            f"the remote head moved: expected {_short(expected)}, found {_short(actual)}",
            hint="merge what is there: rye remote pull; or push again",
        )


class HeadLostError(RyeError):
    """The node has a head of the project, and not the snapshot that it names."""

    code = "REMOTE_HEAD_LOST"

    def __init__(self, what: str, snapshot_hash: str) -> None:
        self.snapshot_hash = snapshot_hash
        super().__init__(
            f"{what}: the node has lost the snapshot {_short(snapshot_hash)} of its head",
            hint="from a machine that has the project as it should be: rye remote push --force;"
            " who runs the node sees what else is lost with: rye-node.pyz fsck",
        )


class ProjectRenamedError(RyeError):
    """The project has another name now than when it was last pushed: ``before`` and ``now``."""

    code = "REMOTE_RENAMED"

    def __init__(self, remote: str, before: str, now: str) -> None:
        self.remote, self.before, self.now = remote, before, now
        self.facts = {"pushed_as": before, "project_path": now}
        super().__init__(
            f"remote {remote}: this project was pushed as {before!r}, and is called {now!r} now;"
            " pushed like this, it would be another project there",
            hint=f"go on as {before}: set project_path: {before} in"
            " .ai/config/remotes/remotes.yaml; or begin another one: rye remote push --new-project",
        )


class ExcludedFilesError(RyeError):
    """Files that were pushed are still here, but the rules no longer let them travel."""

    code = "REMOTE_EXCLUDED"

    def __init__(self, remote: str, paths: Sequence[str]) -> None:
        self.remote, self.paths = remote, tuple(paths)
        self.facts = {"excluded": list(paths)}
        super().__init__(
            f"remote {remote}: {len(paths)} of the files that were pushed are here, but no longer"
            f" travel: {listed(paths)}; pushed like this, they would be removed there, and"
            " wherever it is pulled",
            hint="let them travel by .ai/config/cas/manifest.yaml; or have them removed from the"
            " node: rye remote push --drop-excluded",
        )


class RemoteConflictError(RyeError):
    """Both sides changed the same files. ``folder`` keeps all versions.

    ``reasons`` has what is the matter with each path, in words; ``paths`` are its keys.
    """

    code = "REMOTE_CONFLICT"

    def __init__(self, remote: str, reasons: Mapping[str, str], folder: str) -> None:
        self.remote, self.paths, self.folder = remote, tuple(reasons), folder
        self.details = tuple(f"{path}: {reason}" for path, reason in reasons.items())
        self.facts = {"conflicts": list(reasons), "reasons": dict(reasons), "kept_in": folder}
        explained = [f"{path} ({reason})" for path, reason in reasons.items()]
        super().__init__(
            f"remote {remote}: changed here and there: {listed(explained)}; nothing was merged",
            hint=f"every version is in {folder}; settle each with:"
            " rye remote resolve PATH --ours|--theirs|--merged FILE",
        )


class LocalChangeError(RyeError):
    """Files changed while the changes of the node were to be written over them; all stay."""

    code = "REMOTE_CONFLICT"

    def __init__(self, paths: Sequence[str]) -> None:
        self.paths = tuple(paths)
        self.details = self.paths
        super().__init__(
            f"changed here in the meantime: {listed(paths)}; they were not overwritten",
            hint="run the command again",
        )


class InTheWayError(RyeError):
    """A path cannot be settled so: files are where it is to be, or needs its folder to be."""

    code = "REMOTE_CONFLICT"

    def __init__(self, path: str, others: Sequence[str], first: str) -> None:
        self.path, self.others = path, tuple(others)
        self.details = self.others
        super().__init__(
            f"{printable(path, _SHOWN)}: in its way: {listed(others)}; nothing was written",
            hint=f"settle those first: {first}"
            if first
            else "move or remove those, then try again",
        )


class NotInConflictError(RyeError):
    """A path to settle that is in no conflict. ``known`` are those that are."""

    code = "ITEM_NOT_FOUND"

    def __init__(self, path: str, remote: str, known: Sequence[str]) -> None:
        self.path, self.remote = path, remote
        self.suggestions = tuple(known)
        super().__init__(
            f"{printable(path, _SHOWN)}: in no conflict with remote {remote}",
            hint=f"conflicts: {listed(known)}" if known else "there are no conflicts to settle",
        )


def pin_error(path: Path, problem: str, forget: str) -> RyeError:
    """A pin was changed, or is invalid: it does not say which server it was.

    ``forget`` is the command that removes it.
    """
    return RyeError(
        f"{path!s}: {problem}",
        code="INTEGRITY",
        hint=f"to pin its new key: {forget}",
        path=str(path),
    )


def conflict_record_error(path: str, problem: str) -> RyeError:
    """The record of conflicts is not one that this program wrote."""
    return RyeError(
        f"{printable(path, _SHOWN)}: {problem}",
        code="CONFIG_ERROR",
        hint="remove it, then pull it again: rye remote pull",
        path=path,
    )


def _code_in(detail: object) -> str:
    """The code that a refusal names, "" for one that says nothing of a start here."""
    code = detail.get("code") if isinstance(detail, dict) else None
    return code if isinstance(code, str) and code in OF_STARTS else ""


def detail_text(detail: object) -> str:
    """The words of a refusal, which may be any JSON, and the issues it lists, as one line."""
    words, issues = detail, None
    if isinstance(detail, dict):
        words = detail.get("error") or detail.get("detail") or detail
        issues = detail.get("issues")
    listed = issues[:_MANY_ISSUES] if isinstance(issues, list) else []
    return one_line("; ".join(map(str, [words, *listed])), _SHOWN)


def _short(digest: str | None) -> str:
    return digest[:12] if digest else "none"


def listed(paths: Sequence[str]) -> str:
    """The first of many paths or digests, and how many more there are."""
    shown = ", ".join(map(printable, paths[:_MANY_PATHS]))
    left = len(paths) - _MANY_PATHS
    return f"{shown} and {left} more" if left > 0 else shown
