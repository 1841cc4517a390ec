"""The values of an execution, from the chain to the result. See ``docs/running.md``."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lillux.attempts import Attempts
from lillux.digests import sha256_hex
from lillux.errors import LilluxError
from lillux.values import dataclass, field
from ryeos.items.refs import Location, Resolution
from ryeos.items.specs import ToolSpec
from ryeos.trust.verify import VerifiedItem

if TYPE_CHECKING:
    from lillux.cancellation import Cancellation
    from lillux.sandbox import Confinement
    from ryeos.items.rights import Rights
    from ryeos.run.held_folder import HeldFolder
    from ryeos.run.receipt_statements import Evidence

BUILT_IN_SPACE = "system:builtin"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainElement:
    """One element: a verified file, or a primitive that the engine has without one.

    item_id       the canonical id; ``requested_id`` is what its child (or the caller) wrote
    integrity     SHA-256 of the signed text, ``""`` for a built-in primitive
    """

    item_id: str
    requested_id: str
    space: str
    spec: ToolSpec
    item: VerifiedItem | None = None
    shadowed: tuple[Location, ...] = ()
    provider_version: str = ""

    @property
    def path(self) -> Path | None:
        """The file, or None for a built-in primitive."""
        return self.item.target.path if self.item else None

    @property
    def integrity(self) -> str:
        """The hash that lockfiles pin."""
        return self.item.content_hash if self.item else ""

    @property
    def executor_id(self) -> str | None:
        """The next element's id as written, None at the end."""
        return self.spec.executor_id if isinstance(self.spec.executor_id, str) else None

    def describe(self) -> dict[str, Any]:
        """The element as results, lockfiles and traces show it."""
        description: dict[str, Any] = {
            "item_id": self.item_id,
            "space": self.space,
            "tool_type": self.spec.tool_type,
            "executor_id": self.executor_id,
            "integrity": self.integrity,
        }
        if self.provider_version:
            description["provider_id"] = self.space.partition(":")[2]
            description["provider_version"] = self.provider_version
        return description


@dataclass(frozen=True, slots=True, kw_only=True)
class Chain:
    """``[tool, runtime, ..., primitive]``, every file verified.

    missed    paths that were looked at in vain: a file that appears there changes the chain
    """

    elements: tuple[ChainElement, ...]
    missed: tuple[Path, ...] = field(default=(), repr=False)
    warnings: tuple[str, ...] = ()

    @property
    def tool(self) -> ChainElement:
        """The first element."""
        return self.elements[0]

    @property
    def primitive(self) -> ChainElement:
        """The last element."""
        return self.elements[-1]

    @property
    def digest(self) -> str:
        """SHA-256 over the ids, spaces and hashes of all elements, in order."""
        parts = (f"{e.item_id}\0{e.space}\0{e.integrity}\n" for e in self.elements)
        return sha256_hex("".join(parts).encode())

    def describe(self) -> list[dict[str, Any]]:
        """All elements as results show them."""
        return [element.describe() for element in self.elements]

    def first_with(self, name: str) -> tuple[ChainElement, Any] | None:
        """The first element, from the tool on, whose spec declares ``name``, and the value."""
        for element in self.elements:
            value = getattr(element.spec, name)
            if value is not None:
                return element, value
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadRequest:
    """The thread that a caller wants a directive carried out in (``thread: fork``).

    model    PROVIDER/MODEL or a tier, instead of the directive's; ``""`` for that
    limits   those that the caller lowers, as a header says them
    on_piece, on_event  hear parts of answers, and what happens, while the thread runs
    finish   ends it after the present turn
    goes_on  a thread that a kill cut off, of the same caller with the same inputs, goes on instead
    """

    model: str = ""
    goes_on: bool = False
    limits: Mapping[str, Any] = field(default_factory=dict)
    on_piece: Callable[[Any], None] | None = field(default=None, repr=False, compare=False)
    on_event: Callable[[str, Mapping[str, Any]], None] | None = field(
        default=None, repr=False, compare=False
    )
    finish: "Cancellation | None" = field(default=None, repr=False, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionRequest:
    """A request of a caller: what to run, and how.

    parameters   the caller's values; never changed, never read as templates
    timeout_s    the caller's own limit, instead of any other; 0 means none
    cwd          where the tool runs, instead of any other; from the project on
    at_most_s    a limit that counts where it is lower than the one that holds
    grants       lists of capabilities, each of which must allow what a graph calls
    depth        how many further graphs a graph may be the outermost of; None for no limit
    in_background  no caller waits for it: its item's own limit of time counts, and no default
    run_id       the id of the run of a graph, where its starter has chosen one
    resolution   where the tool is, if the caller has resolved ``item_id`` already
    may_pin      whether a first success writes the lockfile
    confined     a graph asks for it: see `ryeos.items.context.Context.baseline`
    callers      the rights of its callers: it gets no more than each of them
    wants_receipt  whether the result has its ``evidence``
    caller       who calls it, for a receipt: ``{"kind": "cli"}``
    is_watched   what the program tries goes to ``attempts``; it is not held to what it declares
    on_stdout    hears what a program writes to its standard output while it runs
    known_texts  digests of texts that the caller knows, by item: see `ryeos.trust.known_texts`
    is_one_of_many  others like it come right before and after: see `ryeos.run.engine`
    thread       of a directive: how a model is to carry it out; None renders it
    """

    item_id: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    timeout_s: float | None = None
    cwd: str | None = None
    at_most_s: float | None = None
    validate_chain: bool = True
    trace: bool = False
    use_lockfile: bool = True
    may_pin: bool = True
    confined: bool = False
    dry_run: bool = False
    extra_env: Mapping[str, str] = field(default_factory=dict)
    grants: tuple[tuple[str, ...], ...] = ()
    depth: int | None = None
    in_background: bool = False
    run_id: str = ""
    resolution: Resolution | None = None
    callers: "tuple[Rights, ...]" = ()
    wants_receipt: bool = False
    caller: Mapping[str, Any] = field(default_factory=dict)
    is_watched: bool = False
    attempts: Attempts = field(default_factory=Attempts, repr=False, compare=False)
    on_stdout: Callable[[bytes], None] | None = field(default=None, repr=False, compare=False)
    known_texts: Mapping[str, str] = field(default_factory=dict)
    is_one_of_many: bool = False
    thread: "ThreadRequest | None" = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldFiles:
    """The verified bytes that a start of Python needs.

    files      by path
    folders    the real path of each verified folder, by the path that names it
    variables  what the starter sets: an interpreter would look for modules of its own there
    modules_in  folders whose modules are imported from ``files`` alone, and which are not verified
               otherwise
    """

    starter: bytes = field(repr=False)
    files: Mapping[str, bytes] = field(repr=False)
    folders: Mapping[str, str] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict, repr=False)
    modules_in: tuple[str, ...] = ()

    def packed(self) -> bytes:
        """The content of the sealed file; ``start.py`` of the Python runtimes reads it."""
        index: list[str] = []
        for path, data in self.files.items():
            index += ("file", path, str(len(data)))
        for path, real in self.folders.items():
            index += ("folder", path, real)
        for name, value in self.variables.items():
            index += ("variable", name, value)
        for path in self.modules_in:
            index += ("modules", path, "")
        text = "\0".join(index).encode("utf-8", "surrogateescape")
        numbers = b"%d %d\n" % (len(self.starter), len(text))
        return b"".join((numbers, self.starter, text, *self.files.values()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Invocation:
    """A process to start, nothing left to resolve.

    contributed   names of environment variables that the chain set
    confinement   what the program may not do, None for all that its user may
    attempts      gets what a supervised program tries
    withheld      names of variables that it does not get
    held          the files that its starter reads, instead of ``sealed`` bytes
    folder        the copies of the files that it opens by their paths
    is_text       the caller wrote the command, so what it prints is no answer of a tool
    on_stdout     hears what it writes to its standard output
    """

    argv: tuple[str, ...]
    env: Mapping[str, str] = field(repr=False)
    cwd: Path
    stdin: bytes = field(repr=False)
    timeout_s: float | None
    max_output_bytes: int
    confinement: "Confinement | None" = None
    attempts: Attempts = field(default_factory=Attempts, repr=False, compare=False)
    withheld: tuple[str, ...] = ()
    sealed: bytes | None = field(default=None, repr=False)
    held: HeldFiles | None = field(default=None, repr=False)
    folder: "HeldFolder | None" = field(default=None, repr=False)
    is_text: bool = False
    on_stdout: Callable[[bytes], None] | None = field(default=None, repr=False, compare=False)
    contributed: tuple[str, ...] = ()


@dataclass(slots=True, kw_only=True)
class ExecutionResult:
    """The result of an execution.

    success      the tool ran and did not say that it failed
    data         the tool's JSON, else ``{"stdout", "stderr", "return_code"}``
    error        one text when not successful
    evidence     what a receipt is made of, where the request asks for it
    failure      the exception when Rye itself could not run it; None when the tool failed
    chain        element dicts, as far as the chain was built
    """

    success: bool
    data: Any = None
    error: str | None = None
    duration_ms: float = 0.0
    chain: list[dict[str, Any]] = field(default_factory=list)
    metadata: dict[str, Any] = field(default_factory=dict)
    trace: list[dict[str, Any]] = field(default_factory=list)
    failure: LilluxError | None = None
    evidence: "Evidence | None" = None
