"""Import: what was planned is written, unsigned, and waits for a person's approval.

(1) `plan_import` reads files, and starts nothing
(2) `planned_writes` says what would become of each item in a space
(3) `write_items` writes all of them or none, then the values of secrets to the user's ``.env``
(4) `propose` lets them wait for ``rye approve``
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import Any

from lillux.contained_paths import safe_join
from lillux.dotenv_files import read_dotenv
from lillux.errors import LilluxError
from lillux.file_locks import locked
from lillux.files import (
    create_file,
    file_system_error,
    make_directory,
    read_bytes,
    remove_file,
    write_atomic,
)
from lillux.values import dataclass, field, replace
from ryeos.app.proposals import Proposal, Proposals
from ryeos.app.workspace import Rye
from ryeos.imports.kinds import ImportKind
from ryeos.imports.plan import (
    ImportPlan,
    ImportSource,
    MovedSecret,
    ProposedItem,
    joined,
    shown_path,
)
from ryeos.imports.server_items import SERVER_FOLDER, unpinned
from ryeos.items.errors import target_exists_error
from ryeos.items.refs import PROJECT, Space, user_lock
from ryeos.items.replaced import keep_replaced
from ryeos.trust.item_rules import require_text_name, validate_item
from ryeos.trust.resolver import candidates
from ryeos.trust.sign import require_writable
from ryeos.trust.sign_targets import ReadItem, SignTarget
from ryeos.trust.signature import MAX_ITEM_BYTES, decode, form_for, split

CLIENT = "rye import"
"""The proposer, as ``rye approve`` names it."""
ENV_FILE = ".env"


class WriteState(StrEnum):
    """The outcome for a proposed item."""

    NEW = "new"
    SAME = "there already"
    REPLACED = "replaced"
    CONFLICT = "conflict"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedWrite:
    """A proposed item and its file. ``before`` are the bytes that are there, None for no file."""

    item: ProposedItem
    target: SignTarget
    state: WriteState
    before: bytes | None = field(default=None, repr=False)
    reason: str = ""

    @property
    def is_due(self) -> bool:
        """True if there is something to write."""
        return self.state in (WriteState.NEW, WriteState.REPLACED)

    def describe(self) -> dict[str, Any]:
        """The item for ``--json``, with what becomes of it."""
        described = {**self.item.describe(), "path": str(self.target.path)}
        described["state"] = self.state.value
        return described | ({"reason": self.reason} if self.reason else {})


def plan_import(
    sources: Sequence[tuple[ImportKind, ImportSource]], only: Sequence[str] = ()
) -> ImportPlan:
    """The plan for files of these kinds: step (1).

    Of several files one that cannot be read is named in the notes. Raises RyeError.
    """
    plans: list[ImportPlan] = []
    unread: list[LilluxError] = []
    for kind, source in sources:
        try:
            require_text_name(str(source.path), shown_path(source.path, source.project))
            plans.append(kind.read(source))
        except LilluxError as error:
            unread.append(error)
            plans.append(ImportPlan(notes=(f"not read: {error}",)))
    if unread and len(unread) == len(sources):
        raise unread[0]
    return joined(plans).only(only)


def planned_writes(
    plan: ImportPlan, space: Space, env_file: Path, *, force: bool
) -> Iterator[PlannedWrite]:
    """The planned write of each item in a space: step (2). ``force`` replaces what is there."""
    known = read_dotenv(env_file.parent, {}, name=env_file.name).variables
    for item in plan.items:
        path = Path(f"{space.directory(item.ref.kind) / item.ref.id}{item.suffix}")
        target = SignTarget(path=path, kind=item.ref.kind, space=space, ref=item.ref)
        taken = [one.variable for one in item.secrets if known.get(one.variable, "") != one.value]
        taken = [name for name in taken if name in known]
        yield _planned(item, target, taken, force=force)


def _planned(
    item: ProposedItem, target: SignTarget, taken: Sequence[str], *, force: bool
) -> PlannedWrite:
    planned = PlannedWrite(item=item, target=target, state=WriteState.NEW)
    obstacle = _obstacle(item, target)
    if obstacle:
        return replace(planned, state=obstacle[0], reason=obstacle[1])
    before = _bytes_at(target.path)
    planned = replace(planned, before=before)
    if before is not None and _is_same(item, before, target):
        return replace(planned, state=WriteState.SAME)
    if force or (before is None and not taken):
        return planned if before is None else replace(planned, state=WriteState.REPLACED)
    what = "an item of this id" if before is not None else f"the variable {taken[0]}"
    reason = f"{what} is there already, and says something else; --force replaces it"
    return replace(planned, state=WriteState.CONFLICT, reason=reason)


def _is_same(item: ProposedItem, before: bytes, target: SignTarget) -> bool:
    """True if the file was made of this source; pins that a server got since are its own."""
    written, proposed = _body(before, target), _body(item.data, target)
    if written == proposed or (item.suffix == ".py" and _is_of_same_source(before, item.data)):
        return True
    if item.ref.id.startswith("tasks/") and _is_of_same_task(before, item.data):
        return True
    if not isinstance(written, str) or not isinstance(proposed, str):
        return False
    if not item.ref.id.startswith(f"{SERVER_FOLDER}/"):
        return False
    with suppress(LilluxError):
        return unpinned(written) == unpinned(proposed)
    return False


def _is_of_same_task(before: bytes, proposed: bytes) -> bool:
    from ryeos.imports.tasks import is_of_same_task

    return is_of_same_task(before, proposed)


def _is_of_same_source(before: bytes, proposed: bytes) -> bool:
    from ryeos.imports.tool_texts import is_of_same_source

    return is_of_same_source(before, proposed)


def _obstacle(item: ProposedItem, target: SignTarget) -> tuple[WriteState, str] | None:
    """The obstacle to writing an item in this space."""
    if item.problems:
        return WriteState.REFUSED, "; ".join(item.problems)
    try:
        require_writable(target)
        validate_item(target, item.data)
        for relative in item.files:
            safe_join(target.space.ai, relative)
    except LilluxError as error:
        return WriteState.REFUSED, str(error)
    others = [path.name for path in candidates(target.space, item.ref) if path.exists()]
    if others not in ([], [target.path.name]):
        return WriteState.CONFLICT, f"{', '.join(others)}: another item has this id"
    return None


def _bytes_at(path: Path, within: Path | None = None) -> bytes | None:
    with suppress(FileNotFoundError):
        return read_bytes(path, MAX_ITEM_BYTES, within=within)
    return None


def _body(data: bytes, target: SignTarget) -> object:
    """A text without the lines of its signature; the bytes where it has none."""
    try:
        where = str(target.path)
        return split(decode(data, where), form_for(target.kind, target.path.suffix), where).body
    except LilluxError:
        return data


def write_items(
    writes: Sequence[PlannedWrite],
    env_file: Path,
    user: Space,
    on_kept: Callable[[Path], None] = lambda _: None,
) -> list[ReadItem]:
    """Write what is due, all of it or nothing: step (3). The items, with the bytes of each.

    A text that is replaced is kept in user space; ``on_kept`` gets its path. Raises
    FileSystemError, FileChangedError, RyeError `CONFLICT`; nothing of this import stays then.
    """
    due = [write for write in writes if write.is_due]
    writing = _ImportWriting(user, on_kept)
    try:
        for write in due:
            space = write.target.space
            writing.write(write.target.path, write.item.data, write.before, space)
            for relative, data in write.item.files.items():
                path = safe_join(space.ai, relative)
                writing.write(path, data, _bytes_at(path, space.within), space)
        keep_secrets([one for write in due for one in write.item.secrets], env_file)
    except BaseException:
        writing.undo()
        raise
    return [ReadItem(write.target, write.item.data) for write in due]


class _ImportWriting:
    """Files that an import wrote, and what they held before."""

    def __init__(self, user: Space, on_kept: Callable[[Path], None]) -> None:
        self._user, self._on_kept = user, on_kept
        self._done: list[tuple[Path, bytes | None, Path | None]] = []

    def write(self, path: Path, data: bytes, before: bytes | None, space: Space) -> None:
        """Replace a file that holds ``before``, or make one."""
        if data == before:
            return
        within = space.within
        make_directory(path.parent, within=within)
        if before is None:
            mode = 0o755 if data.startswith(b"#!") else 0o644
            try:
                create_file(path, data, mode=mode, within=within)
            except FileExistsError:
                hint = "look at it, and import again"
                raise target_exists_error(str(path), "a file", hint) from None
        else:
            self._on_kept(keep_replaced(self._user, path, before))
            write_atomic(path, data, expected=before, within=within)
        self._done.append((path, before, within))

    def undo(self) -> None:
        """Put everything back, the last first."""
        for path, before, within in reversed(self._done):
            with suppress(OSError, LilluxError):
                if before is None:
                    remove_file(path, within=within)
                else:
                    write_atomic(path, before, within=within)


def keep_secrets(secrets: Sequence[MovedSecret], env_file: Path) -> None:
    """Write the values to the user's ``.env``, which its owner alone may read.

    Raises RyeError `IMPORT_UNREADABLE` for a value that such a file cannot hold, FileSystemError.
    """
    from ryeos.imports.plan import source_error

    if not secrets:
        return
    make_directory(env_file.parent)
    with locked(user_lock(env_file.parent, "env")):
        before = _bytes_at(env_file)
        known = read_dotenv(env_file.parent, {}, name=env_file.name).variables
        new = {one.variable: one.value for one in secrets if known.get(one.variable) != one.value}
        if not new:
            return
        start = before or b""
        start += b"" if start.endswith(b"\n") or not start else b"\n"
        lines = "".join(f"{name}={_quoted(value)}\n" for name, value in new.items())
        _write_private(env_file, start + lines.encode(), before)
        read = read_dotenv(env_file.parent, {}, name=env_file.name).variables
        lost = [name for name, value in new.items() if read.get(name) != value]
        if lost:
            if before is None:
                env_file.unlink()
            else:
                write_atomic(env_file, before)
            problem = f"{', '.join(lost)}: a value that a .env file cannot hold"
            raise source_error(
                str(env_file), problem, hint="set the variable in your shell, and import again"
            )


def _write_private(path: Path, data: bytes, before: bytes | None) -> None:
    if before is not None:
        write_atomic(path, data, mode=0o600, expected=before)
        return
    try:
        create_file(path, data, mode=0o600)
    except FileExistsError as error:
        raise file_system_error(path, error) from error


def _quoted(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def propose(rye: Rye, items: Sequence[ReadItem], client: str = CLIENT) -> list[Proposal]:
    """Let unsigned items wait for ``rye approve``, with the bytes that were written: step (4).

    Raises FileSystemError where that place is out of reach, as it is for what an agent starts, and
    RyeError where too many wait.
    """
    waiting = Proposals(rye.context.spaces.user)
    project = str(rye.context.project_path or "")
    found = []
    for item in items:
        is_project = item.target.space.tier == PROJECT
        found.append(waiting.add(item, project=project if is_project else "", client=client))
    return found
