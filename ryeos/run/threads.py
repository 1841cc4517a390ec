"""A background run as a value: fields, statuses, transitions, and the files of its folder."""

import json
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lillux.errors import FileSystemError, LilluxError, UnsafePathError
from lillux.files import (
    create_file,
    is_directory,
    is_inside,
    locked,
    make_directory,
    read_bytes,
    require_plain_path,
    safe_join,
    write_atomic,
)
from lillux.values import dataclass
from lillux.watch import TERMINAL_STATUSES
from ryeos.items.context import log_warning
from ryeos.items.errors import RyeError, UsageError
from ryeos.items.refs import Spaces
from ryeos.items.rights import rights_as_json, rights_of_json
from ryeos.run.model import ExecutionRequest, ThreadRequest

if TYPE_CHECKING:
    from lillux.background import StartedProcess


# --- model ----------------------------------------------------------------------------------------


class Status(StrEnum):
    """What has become of a thread."""

    CREATED = "created"
    RUNNING = "running"
    COMPLETED = "completed"
    COMPLETED_WITH_ERRORS = "completed_with_errors"
    ERROR = "error"
    CANCELLED = "cancelled"
    CONTINUED = "continued"
    KILLED = "killed"
    RELEASED = "released"


INTERRUPTED = "interrupted"
"""The state of a thread of an agent whose process died: it can be resumed."""
TERMINAL = frozenset(Status(name) for name in TERMINAL_STATUSES)
"""Statuses that nothing follows."""

FOLLOWING: Mapping[Status, frozenset[Status]] = {
    status: frozenset() if status in TERMINAL else TERMINAL for status in Status
} | {Status.CREATED: TERMINAL | {Status.RUNNING}}
"""Which statuses may follow each."""


REOPENABLE = (Status.ERROR, Status.CANCELLED, Status.KILLED)
"""Statuses of a graph's run that can be resumed."""


def leavable(status: Status) -> tuple[Status, ...]:
    """The statuses that a thread may leave for this one: the guard of every update."""
    return tuple(earlier for earlier in Status if status in FOLLOWING[earlier])


@dataclass(frozen=True, slots=True, kw_only=True)
class Thread:
    """One row of the registry, as it was read.

    status       a `Status`, or a word of another program that shares the registry
    directive    the bare id of the item; the name is that of the registry's first users
    result       the envelope of the answer as JSON text; not read for lists
    start_token  tells the runner from a later process with its number
    state        of a thread of an agent, see `ryeos.agent.journal`
    """

    thread_id: str
    directive: str = ""
    parent_id: str | None = None
    status: str = Status.CREATED
    created_at: str | None = None
    updated_at: str | None = None
    completed_at: str | None = None
    result: str | None = None
    turns: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    spend: float = 0.0
    spawn_count: int = 0
    pid: int | None = None
    model: str | None = None
    continuation_of: str | None = None
    continuation_thread_id: str | None = None
    chain_root_id: str | None = None
    tool_id: str | None = None
    item_id: str | None = None
    kind: str | None = None
    target: str | None = None
    thread_mode: str | None = None
    start_token: str | None = None
    error: str | None = None
    state: str | None = None

    @property
    def has_ended(self) -> bool:
        """Whether its status will not change any more."""
        return self.status in TERMINAL

    @property
    def shown_state(self) -> str:
        """What has become of it in one word, the same wherever it is shown.

        Of a thread of an agent that is its state; one whose process died while it ran is
        interrupted. Of any other that is its status.
        """
        if self.state == Status.RUNNING and self.has_ended:
            return INTERRUPTED
        return self.state or self.status

    def is_older(self, than_s: float) -> bool:
        """Whether it was changed last before a time in seconds; not where no time is known."""
        from datetime import datetime

        try:
            changed_at = datetime.fromisoformat(self.updated_at or "")
        except ValueError:
            return False
        return changed_at.tzinfo is not None and changed_at.timestamp() < than_s

    def describe(self) -> dict[str, Any]:
        """The thread as answers show it, without its result."""
        named = {name: getattr(self, name) for name in self.__slots__}
        if self.state:
            named["state"] = self.shown_state
        numbers = dict.fromkeys(("turns", "input_tokens", "output_tokens", "spend", "spawn_count"))
        return {
            name: value
            for name, value in named.items()
            if name != "result" and value is not None and not (name in numbers and not value)
        }

    def answer(self) -> Any:  # noqa: ANN401 - JSON passes through
        """The envelope that it ended with; None without one, or when it is no JSON."""
        try:
            return json.loads(self.result) if self.result else None
        except (ValueError, RecursionError):
            return None


def time_text(seconds: float) -> str:
    """A time in seconds as the registry has it: those texts have the order of their times."""
    from datetime import UTC, datetime

    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")


_WHOLE = ("turns", "input_tokens", "output_tokens", "spawn_count")


def thread_of(row: Mapping[str, Any]) -> Thread:
    """The thread of a row, maybe of another program: a value of a wrong type counts as none."""
    values: dict[str, Any] = {}
    for name, value in row.items():
        if name in _WHOLE or name == "pid":
            fits = isinstance(value, int)
        elif name == "spend":
            fits = isinstance(value, int | float)
        else:
            fits = isinstance(value, str)
        if fits:
            values[name] = value
    return Thread(**{"thread_id": "", "status": "", **values})


# --- ids ------------------------------------------------------------------------------------------
# Thread ids: made from the item's, opaque to other programs, shortened by people. Pure.

MAX_ID_BYTES = 1024
MAX_NAME_BYTES = 255
_LONGEST_LAST = 120
# Names of what lies beside the folders of threads: see `ThreadsPlace`.
_TAKEN = ("registry.", ".")
_OF_NODES = "rye-remote-"
_MOST_SHOWN, _MOST_CLOSE = 5, 3


_MADE_HERE = re.compile(r".*-\d{10,}(?:-\d+)?(-[0-9a-f]{4})", re.DOTALL)
_SHORT = re.compile("run-[0-9a-f]{4}")


def thread_id_for(item_id: str, *, epoch_ms: int, pid: int, chance: bytes) -> str:
    """``<item id>/<its last segment>-<milliseconds>-<pid of the starter>-<4 hex digits>``."""
    last = item_id.rpartition("/")[2].encode()[:_LONGEST_LAST].decode("utf-8", "ignore")
    folder = f"item-{item_id}" if item_id.lower().startswith(_TAKEN) else item_id
    return f"{folder}/{last}-{epoch_ms}-{pid}-{chance[:2].hex()}"


def short_thread_id(thread_id: str) -> str:
    """The short form of an id from `thread_id_for`, like ``run-d150``; any other as it is."""
    found = _MADE_HERE.fullmatch(thread_id)
    return f"run{found[1]}" if found else thread_id


def looks_like_thread_id(text: str) -> bool:
    """Whether a text has a form that ids of runs have, the short one or the long one."""
    return is_short_thread_id(text) or _MADE_HERE.fullmatch(text) is not None


def is_short_thread_id(text: str) -> bool:
    """Whether a text is such a short form; no item has to have such an id."""
    return _SHORT.fullmatch(text) is not None


def valid_thread_id(thread_id: str) -> str:
    """The id, if it may be used as a relative path. Raises RyeError `INVALID_REF`."""
    try:
        require_plain_path(thread_id)
    except UnsafePathError as error:
        raise thread_id_error(thread_id, error.problem) from None
    data = thread_id.encode("utf-8", "surrogateescape")
    if len(data) > MAX_ID_BYTES or any(len(name) > MAX_NAME_BYTES for name in data.split(b"/")):
        raise thread_id_error(thread_id, f"expected at most {MAX_ID_BYTES} bytes, 255 in a segment")
    if thread_id.lower().startswith(_TAKEN):
        raise thread_id_error(thread_id, "names a file of the registry")
    return thread_id


def find_thread_id(text: str, known: Iterable[str], registry: str) -> str:
    """The id that was meant: whole, its beginning, its end, or the beginning of its last part.

    ``run-d150`` is the short form of one that ends with ``-d150``: see `short_thread_id`.

    Raises RyeError `INVALID_REF`, ThreadNotFoundError with the closest, AmbiguousThreadError, and a
    RyeError of the same code as the second for a run on a node.
    """
    ids = list(known)
    if text in ids:
        return text
    if text.startswith(_OF_NODES):
        raise RyeError(
            f"thread not found: {text[:300]} is the id of a run on a node",
            code="THREAD_NOT_FOUND",
            hint=f"see: rye remote thread {text[:300]}; or wait for it, with --wait",
        )
    valid_thread_id(text.strip("/") or text)
    part = text.removeprefix("run") if _SHORT.fullmatch(text) else text
    found = [
        one
        for one in ids
        if one.startswith(part) or one.endswith(part) or one.rpartition("/")[2].startswith(part)
    ]
    if len(found) > 1:
        raise AmbiguousThreadError(text, found[:_MOST_SHOWN])
    if not found:
        raise ThreadNotFoundError(text, registry, _closest(text, ids))
    return found[0]


def _closest(text: str, ids: list[str]) -> list[str]:
    """The ids that differ little from the text, as a whole or in their last part."""
    from difflib import get_close_matches

    lasts = {one.rpartition("/")[2]: one for one in ids}
    close = get_close_matches(text, ids, _MOST_CLOSE, 0.6)
    close += [lasts[last] for last in get_close_matches(text, lasts, _MOST_CLOSE, 0.6)]
    return list(dict.fromkeys(close))[:_MOST_CLOSE]


# --- errors ---------------------------------------------------------------------------------------
# What can be wrong with a registry of threads, or with asking for one of them.


def registry_error(path: str, problem: str, *, hint: str = "") -> RyeError:
    """The error of a registry of threads that is damaged, of another kind, or not to be trusted."""
    return RyeError(
        f"{path}: {problem}",
        code="REGISTRY_INVALID",
        hint=hint or "move it away, with the files beside it; the next run --async makes one",
        path=path,
    )


def thread_id_error(thread_id: str, problem: str) -> RyeError:
    """The error of a thread id that could not be the name of a thread's folder."""
    return RyeError(
        f"thread id {thread_id[:200]!r}: {problem}",
        code="INVALID_REF",
        hint="list threads with: rye threads list",
    )


class ThreadNotFoundError(RyeError):
    """No thread of this registry has that id."""

    code = "THREAD_NOT_FOUND"

    def __init__(self, text: str, registry: str, suggestions: Sequence[str] = ()) -> None:
        self.text, self.registry = text, registry
        self.suggestions = tuple(suggestions)
        hint = f"did you mean {', '.join(suggestions)}?" if suggestions else ""
        super().__init__(
            f"thread not found: {text} (searched: {registry})",
            hint=hint or "list threads with: rye threads list --all",
        )


class AmbiguousThreadError(RyeError):
    """A shortened thread id that more than one thread answers to."""

    code = "AMBIGUOUS_ITEM"

    def __init__(self, text: str, candidates: Sequence[str]) -> None:
        self.text = text
        self.suggestions = tuple(candidates)
        super().__init__(
            f"{text}: more than one thread is called like this: {', '.join(candidates)}",
            hint="give more of the id",
        )


class UnknownRunnerError(RyeError):
    """Nothing of the user's own shows that a process is the runner of a thread."""

    code = "INTEGRITY"

    def __init__(self, thread_id: str, pid: int | None, reason: str) -> None:
        self.thread_id, self.pid, self.reason = thread_id, pid, reason
        named = f"process {pid}" if pid else "any process"
        super().__init__(
            f"{thread_id}: will not end {named}: {reason}",
            hint="the registry is a file of the project, and any program may have written it; "
            "look at the process before you end it yourself",
        )


# --- place ----------------------------------------------------------------------------------------
# Where threads are kept: the registry, and a folder each. A project is foreign data.
#
# ``.ai/state/threads/`` of the project, where it has an ``.ai``; else of user space. No link of a
# project leads a read or a write out of its ``.ai``.

REGISTRY, DOCUMENT, RUNNER, LOG = "registry.db", "thread.json", "runner.json", "spawn.log"
GRANTS, CANCEL = "grants.json", "cancel"
_PRIVATE = 0o700
_IGNORE = b"# Runs of this machine only.\n*\n"


@dataclass(frozen=True, slots=True)
class ThreadsPlace:
    """The threads below one ``.ai`` folder; ``within`` is the project that it is of, if any."""

    ai: Path
    within: Path | None = None

    @property
    def root(self) -> Path:
        """The folder from which everything here is written without links."""
        return self.within or self.ai

    @property
    def folder(self) -> Path:
        """The folder of everything about threads."""
        return self.ai / "state" / "threads"

    @property
    def registry(self) -> Path:
        """The database."""
        return self.folder / REGISTRY

    def require_inside(self) -> None:
        """Refuse a folder that a link leads out of ``.ai``. Raises RyeError `REGISTRY_INVALID`."""
        if not is_inside(self.folder, self.ai):
            raise registry_error(
                str(self.folder),
                f"leads outside {self.ai} through a link",
                hint="remove the link; threads are kept in a folder of their own",
            )

    def make(self) -> None:
        """Make the folder, and keep it out of version control. Raises FileSystemError."""
        self.require_inside()
        if not is_directory(self.root):  # a user space that is not there yet
            make_directory(self.root)
        make_directory(self.folder, mode=_PRIVATE, within=self.root)
        try:
            create_file(self.folder / ".gitignore", _IGNORE, within=self.root)
        except FileExistsError:
            return

    def thread_folder(self, thread_id: str) -> Path:
        """The folder of a thread, which may not be there.

        Raises RyeError `INVALID_REF` or `REGISTRY_INVALID`.
        """
        return self._within(valid_thread_id(thread_id))

    def make_thread_folder(self, thread_id: str) -> Path:
        """Make it. Raises as `thread_folder`, FileSystemError."""
        folder = self.thread_folder(thread_id)
        if not is_directory(self.root):
            make_directory(self.root)
        make_directory(folder, mode=_PRIVATE, within=self.root)
        return folder

    def file(self, thread_id: str, name: str) -> Path:
        """The path of a file in a thread's folder, no link of which leads out of there."""
        return self._within(f"{valid_thread_id(thread_id)}/{name}")

    def _within(self, relative: str) -> Path:
        self.require_inside()
        try:
            return safe_join(self.folder, relative)
        except UnsafePathError as error:
            raise registry_error(
                str(self.folder / relative), error.problem, hint="remove the link"
            ) from None


def threads_place(spaces: Spaces) -> ThreadsPlace:
    """Where the threads of these spaces are kept."""
    project = spaces.project
    if project is not None and is_directory(project.ai):
        return ThreadsPlace(project.ai, project.within)
    return ThreadsPlace(spaces.user.ai)


# --- seal -----------------------------------------------------------------------------------------
# What shows that a process is the runner of a thread: a code that only this user can make.
#
# A registry lies in a project, and a project is foreign data: its rows may name any process of
# the user. So the number and the start of a runner are also written to ``runner.json`` with an
# HMAC-SHA256 under a key of user space, and a process is ended only where that code is right.

KEY_FILE = "runners.key"
KEY_BYTES = 32
_MAX_RUNNER_BYTES = 4096
_RUNNER_PURPOSE = "rye runner 1"
_TASK_PURPOSE = "rye task 1"
TASK_CODE_CHARACTERS = 32


@dataclass(frozen=True, slots=True)
class ThreadRunner:
    """The process that runs a thread."""

    pid: int
    start_token: str


class RunnerSeals:
    """Seals of one user: ``user_ai`` is the ``.ai`` folder of user space, which holds the key."""

    def __init__(self, user_ai: Path) -> None:
        self._path = user_ai / "state" / KEY_FILE

    def seal(
        self, place: ThreadsPlace, thread_id: str, started: "StartedProcess | ThreadRunner"
    ) -> None:
        """Record which process runs the thread.

        Raises FileSystemError, RyeError `REGISTRY_INVALID`.
        """
        code = self.code(_RUNNER_PURPOSE, thread_id, started.pid, started.start_token)
        document = {"pid": started.pid, "start_token": started.start_token, "seal": code}
        data = json.dumps(document).encode() + b"\n"
        write_atomic(place.file(thread_id, RUNNER), data, mode=0o600, within=place.root)

    def runner(self, place: ThreadsPlace, thread_id: str) -> ThreadRunner:
        """The process that runs the thread, as this user wrote it. Raises UnknownRunnerError."""
        path = place.file(thread_id, RUNNER)
        try:
            document = json.loads(read_bytes(path, _MAX_RUNNER_BYTES))
            pid, token, code = (document[name] for name in ("pid", "start_token", "seal"))
        except FileNotFoundError:
            raise UnknownRunnerError(thread_id, None, f"there is no {path}") from None
        except (ValueError, KeyError, TypeError, RecursionError, LilluxError):
            raise UnknownRunnerError(thread_id, None, f"{path} is not what rye writes") from None
        if not (isinstance(pid, int) and isinstance(token, str) and isinstance(code, str)):
            raise UnknownRunnerError(thread_id, None, f"{path} is not what rye writes")
        if not token:
            raise UnknownRunnerError(thread_id, pid, "the system did not tell when it began")
        if not self.is_code(code, _RUNNER_PURPOSE, thread_id, pid, token):
            raise UnknownRunnerError(thread_id, pid, f"{path} was not written by you")
        return ThreadRunner(pid, token)

    def code(self, purpose: str, *values: object) -> str:
        """A code over values of JSON that only this user can make. Raises FileSystemError."""
        return _code_over(self._key(), purpose, *values)

    def task_code(self, thread_id: str) -> str:
        """What shows that a client learned of a thread: 128 bits in hex digits."""
        return self.code(_TASK_PURPOSE, thread_id)[:TASK_CODE_CHARACTERS]

    def is_task_code(self, thread_id: str, code: str) -> bool:
        """Whether this is `task_code` of a thread."""
        from hmac import compare_digest

        key = self._known_key()
        expected = _code_over(key, _TASK_PURPOSE, thread_id)[:TASK_CODE_CHARACTERS]
        return bool(key) and compare_digest(
            expected.encode(), code.encode("utf-8", "backslashreplace")
        )

    def is_code(self, code: str, purpose: str, *values: object) -> bool:
        """Whether this user has made the code, over these very values."""
        from hmac import compare_digest

        key = self._known_key()
        expected = _code_over(key, purpose, *values).encode()
        return bool(key) and compare_digest(expected, code.encode("utf-8", "backslashreplace"))

    def _known_key(self) -> bytes:
        """The key, empty if absent, or where it is just being written."""
        try:
            key = read_bytes(self._path, KEY_BYTES)
        except (FileNotFoundError, LilluxError):
            return b""
        return key if len(key) == KEY_BYTES else b""

    def _key(self) -> bytes:
        """The key, made when it is first needed."""
        key = self._known_key()
        if key:
            return key
        make_directory(self._path.parent, mode=0o700)
        with locked(self._path.parent / "locks" / f"{KEY_FILE}.lock"):
            key = self._known_key() or os.urandom(KEY_BYTES)
            write_atomic(self._path, key, mode=0o600)
        return key


def _code_over(key: bytes, *values: object) -> str:
    import hashlib
    import hmac

    return hmac.new(key, json.dumps(values).encode(), hashlib.sha256).hexdigest()


# --- grants ---------------------------------------------------------------------------------------
# What the run of a graph may call, recorded for the processes that it starts.
#
# Those know the run by ``RYE_PARENT_THREAD_ID``. The file lies in a project, and a project is data
# of other people: so it has a code that only this user can make. Page: ``docs/running.md``.

_MAX_BYTES = 1024 * 1024
_GRANTS_PURPOSE = "rye grants 2"


@dataclass(frozen=True, slots=True)
class Grants:
    """Lists that must each allow a call, and how many further graphs there may be below.

    lists  of the run's starter; they bind it also when it is resumed
    own    the graph's list, as it was; None where it has none
    """

    lists: tuple[tuple[str, ...], ...]
    own: tuple[str, ...] | None = None
    depth: int | None = None


def write_grants(
    place: ThreadsPlace,
    seals: RunnerSeals,
    thread_id: str,
    grants: Grants,
    warn: Callable[[str], None] = log_warning,
) -> None:
    """Record what a run may call. Raises FileSystemError, RyeError `REGISTRY_INVALID`.

    Where this user's code cannot be made, no reader will believe the file: that is a warning.
    """
    lists = [list(one) for one in grants.lists]
    own = None if grants.own is None else list(grants.own)
    try:
        code = seals.code(_GRANTS_PURPOSE, thread_id, lists, own, grants.depth)
    except FileSystemError as error:
        warn(f"graphs that processes of this run start will be refused: {error}")
        code = ""
    document = {"capabilities": lists, "graph": own, "depth": grants.depth, "seal": code}
    place.make_thread_folder(thread_id)
    data = json.dumps(document, ensure_ascii=True).encode() + b"\n"
    write_atomic(place.file(thread_id, GRANTS), data, mode=0o600, within=place.root)


def read_grants(place: ThreadsPlace, seals: RunnerSeals, thread_id: str) -> Grants | None:
    """What this user's run may call; None where nothing was recorded.

    Raises ValueError with the reason for a file that this user's Rye has not written.
    """
    path = place.file(thread_id, GRANTS)
    try:
        document: Any = json.loads(read_bytes(path, _MAX_BYTES))
        lists, own, depth, code = (
            document[name] for name in ("capabilities", "graph", "depth", "seal")
        )
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError, RecursionError, LilluxError):
        raise ValueError(f"{path} is not what rye writes") from None
    if not isinstance(code, str) or not seals.is_code(
        code, _GRANTS_PURPOSE, thread_id, lists, own, depth
    ):
        raise ValueError(f"{path} was not written by you")
    own = None if own is None else tuple(own)
    return Grants(tuple(tuple(one) for one in lists), own, depth)


def is_run_of_this_user(place: ThreadsPlace, seals: RunnerSeals, thread_id: str) -> bool:
    """Whether the thread is a run of a graph that this user's Rye has begun."""
    try:
        return read_grants(place, seals, thread_id) is not None
    except (ValueError, LilluxError):
        return False


# --- payload --------------------------------------------------------------------------------------
# What a runner gets on standard input: which thread it is, and what to run.

PARENT_VARIABLE = "RYE_PARENT_THREAD_ID"
LOCAL, INLINE, FORK = "local", "inline", "fork"


@dataclass(frozen=True, slots=True)
class Payload:
    """A run to be carried out. ``item_id`` is a canonical reference, like ``tool:mine/hello``."""

    thread_id: str
    item_id: str
    place: ThreadsPlace
    request: ExecutionRequest

    def dump(self) -> bytes:
        """The payload as JSON."""
        request = self.request
        document = {
            "thread_id": self.thread_id,
            "item_id": self.item_id,
            "parameters": request.parameters,
            "target": LOCAL,
            "thread": INLINE if request.thread is None else FORK,
            "model": request.thread.model if request.thread else "",
            "limits": dict(request.thread.limits) if request.thread else {},
            "space": str(self.place.ai),
            "within": str(self.place.within) if self.place.within else None,
            "timeout_s": request.timeout_s,
            "at_most_s": request.at_most_s,
            "env": dict(request.extra_env),
            "trace": request.trace,
            "use_lockfile": request.use_lockfile,
            "cwd": request.cwd,
            "caller": dict(request.caller),
            "known_texts": dict(request.known_texts),
            "callers": [rights_as_json(one) for one in request.callers],
        }
        return json.dumps(document).encode()


def parse_payload(data: bytes) -> Payload:
    """The payload that `Payload.dump` wrote. Raises UsageError for anything else."""
    try:
        document: dict[str, Any] = json.loads(data)
        thread_id, item_id = str(document["thread_id"]), str(document["item_id"])
        request = ExecutionRequest(
            item_id=item_id.partition(":")[2],
            parameters=document["parameters"],
            timeout_s=document["timeout_s"],
            at_most_s=document.get("at_most_s"),
            trace=document["trace"],
            use_lockfile=document["use_lockfile"],
            cwd=document.get("cwd"),
            caller=dict(document.get("caller") or {}),
            known_texts=dict(document.get("known_texts") or {}),
            callers=tuple(map(rights_of_json, document.get("callers") or ())),
            in_background=True,
            thread=_thread_request(document) if document.get("thread") == FORK else None,
            run_id=thread_id,
            extra_env={**document.get("env", {}), PARENT_VARIABLE: thread_id},
        )
        within = document.get("within")
        place = ThreadsPlace(Path(document["space"]), Path(within) if within else None)
        return Payload(thread_id, item_id, place, request)
    except (ValueError, KeyError, TypeError) as error:
        hint = "this command is for rye itself; start a background run with: rye run REF --async"
        raise UsageError("standard input: expected the payload of a thread", hint=hint) from error


def _thread_request(said: Mapping[str, Any]) -> ThreadRequest:
    """How a directive is to be carried out. Raises KeyError, TypeError."""
    return ThreadRequest(model=str(said.get("model", "")), limits=dict(said.get("limits") or {}))
