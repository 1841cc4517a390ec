"""The errors of Rye: codes, exit statuses, classes that callers catch, and the JSON envelope.

The codes are a contract, and stand in one table: `ryeos.items.error_table`. An error about an item
names it the way a user would type it: ``tool:rye/bash/bash``.
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from lillux.errors import LilluxError
from lillux.values import dataclass

RETRY_WITH = "retry_with"
"""Of `RyeError.facts`: the parameters with which the same call goes on."""


class _OfTable:
    """An attribute of an error, and of its class, that the table has for its code."""

    def __init__(self, column: str) -> None:
        self._column = column

    def __get__(self, error: "RyeError | None", kind: "type[RyeError]") -> int:
        from ryeos.items.error_table import error_table

        found: int = getattr(error_table()[(kind if error is None else error).code], self._column)
        return found


class RyeError(LilluxError):
    """Something Rye could not do.

    A failure has a class of its own where a caller catches it or reads its fields; any other is
    this class with a ``code`` of the table. ``path`` is the file that it is about, if any,
    ``suggestions`` what was meant. A class that says nothing else has the statuses of its code.
    """

    exit_status: int = _OfTable("exit_status")  # type: ignore[assignment]  # it gives one
    http_status: int = _OfTable("http_status")  # type: ignore[assignment]  # it gives one
    suggestions: tuple[str, ...] = ()
    details: tuple[str, ...] = ()

    def __init__(self, message: str, *, code: str = "", hint: str = "", path: str = "") -> None:
        if code:
            self.code = code
        if path:
            self.path = path
        super().__init__(message, hint=hint)


class InvalidRefError(RyeError):
    """An item reference that no space could hold."""

    code = "INVALID_REF"

    def __init__(self, ref: str, problem: str, hint: str = "") -> None:
        self.ref, self.problem = ref, problem
        usual = "a reference is kind:path, like tool:rye/bash/bash, or just the path"
        super().__init__(f"item reference {ref[:200]!r}: {problem}", hint=hint or usual)


class AmbiguousItemError(RyeError):
    """A bare id that more than one kind of item answers to."""

    code = "AMBIGUOUS_ITEM"

    def __init__(self, item_id: str, candidates: Sequence[str]) -> None:
        self.item_id = item_id
        self.suggestions = tuple(candidates)
        self.facts = {"candidates": list(candidates)}
        super().__init__(
            f"{item_id}: more than one item has this id: {', '.join(candidates)}",
            hint=f"name the kind, like {candidates[0]}",
        )


class ItemNotFoundError(RyeError):
    """No space holds the item."""

    code = "ITEM_NOT_FOUND"

    def __init__(self, ref: str, searched: Sequence[str], suggestions: Sequence[str] = ()) -> None:
        self.ref, self.searched = ref, tuple(searched)
        self.suggestions = tuple(suggestions)
        self.facts = {"searched_in": list(searched)}
        hint = f"did you mean {', '.join(suggestions)}?" if suggestions else ""
        super().__init__(
            f"{_item_word(ref)} not found: {_bare(ref)} (searched: {', '.join(searched)})",
            hint=hint or "list what there is with: rye search '*'",
        )


def no_project_error(found: str) -> RyeError:
    """The error of a command that needs a project where there is none."""
    return RyeError(
        f"no project: {found}",
        code="NO_PROJECT",
        hint="name one with --project DIR, or make one with: rye init --project",
    )


class SystemImmutableError(RyeError):
    """System items are part of a signed bundle and never change."""

    code = "SYSTEM_IMMUTABLE"

    def __init__(self, ref: str) -> None:
        self.ref = ref
        super().__init__(
            f"{ref}: system items cannot be changed",
            hint=f"copy it first: rye load {ref} --to project",
        )


def target_exists_error(path: str, subject: str, hint: str) -> RyeError:
    """The error of a file that was to be made and is already there; nothing was written."""
    return RyeError(f"{path}: {subject} is already there", code="CONFLICT", hint=hint, path=path)


def bundle_error(root: str, problem: str) -> RyeError:
    """The error of a system bundle that cannot be used. ``root`` is its folder."""
    return RyeError(
        f"bundle {root}: {problem}",
        code="CONFIG_ERROR",
        hint="a bundle is an absolute folder that holds .ai/ (see RYE_BUNDLE_PATH)",
    )


class SpecError(RyeError):
    """A metadata header has a wrong value. ``where`` is its path, like ``env_config.env.X``."""

    code = "CONFIG_ERROR"

    def __init__(self, where: str, problem: str, *, hint: str = "") -> None:
        self.where, self.problem = where, problem
        super().__init__(f"{where}: {problem}", hint=hint or "correct it where it is written")


class ItemValidationError(RyeError):
    """An item breaks rules of its kind; nothing was signed. ``details`` has every problem.

    ``positions``: line and column of the last ones, as many as there are, as far as they are known.
    """

    code = "VALIDATION_FAILED"

    def __init__(
        self, path: str, issues: Sequence[str], positions: Sequence[tuple[int, int]] = ()
    ) -> None:
        self.path = path
        self.details = tuple(issues)
        self.facts = {"issues": list(issues)}
        plain = len(issues) - len(positions)
        words = [f"{path}: {'; '.join(issues[:plain])}"] if plain else []
        placed = zip(positions, issues[plain:], strict=True)
        words += [f"{path}:{line}:{column}: {issue}" for (line, column), issue in placed]
        super().__init__("; ".join(words), hint="fix the file and sign it again")


class IntegrityError(RyeError):
    """The bytes at ``path`` are not what a trusted key signed, or cannot be checked."""

    code = "INTEGRITY"
    state: ClassVar[str] = "tampered"

    def __init__(self, path: str, problem: str, *, hint: str = "") -> None:
        self.path, self.problem = path, problem
        super().__init__(f"{problem}: {path}", hint=hint)


class UnsignedError(IntegrityError):
    """The item has no signature line, and nothing unsigned runs."""

    code = "UNSIGNED"
    state = "unsigned"

    def __init__(self, path: str, sign_command: str) -> None:
        super().__init__(
            path,
            "unsigned item, expected a rye:signed line",
            hint=f"read it, and if you trust it: {sign_command}",
        )


class UntrustedKeyError(IntegrityError):
    """The signature is by a key that the trust store does not hold for this space."""

    code = "UNTRUSTED_KEY"
    state = "untrusted-key"

    def __init__(self, path: str, fingerprint: str, hint: str) -> None:
        self.fingerprint = fingerprint
        super().__init__(path, f"signed by the untrusted key {fingerprint}", hint=hint)


class UnboundSignatureError(IntegrityError):
    """The signature is for another item, or names none although its key always does."""

    code = "UNBOUND_SIGNATURE"
    state = "unbound"

    def __init__(
        self, path: str, problem: str, sign_command: str, *, fingerprint: str, is_named: bool = True
    ) -> None:
        self.fingerprint, self.is_named = fingerprint, is_named
        more = "" if is_named else "; all that you signed before: rye keys upgrade"
        super().__init__(
            path, problem, hint=f"read it, and sign it for this place: {sign_command}{more}"
        )


class ApprovalRequiredError(RyeError):
    """A person has to agree, and there is no terminal to ask at."""

    code = "APPROVAL_REQUIRED"

    def __init__(self, question: str, *, hint: str = "") -> None:
        super().__init__(
            f"not approved: {question}",
            hint=hint or "run the command at a terminal, or with --yes once you have read it",
        )


class SignatureFormatError(IntegrityError):
    """The file cannot be read as a signed item: encoding, size, a second signature line."""

    code = "INTEGRITY"
    state = "bad-format"


class NoSignatureFormError(RyeError):
    """The file type has no comment syntax to hold a signature, and no ``.sig`` lies beside it."""

    code = "VALIDATION_FAILED"

    def __init__(self, path: str, suffix: str) -> None:
        self.path, self.suffix = path, suffix
        super().__init__(f"{path}: no signature form for files ending in {suffix!r}")


class NoSigningKeyError(RyeError):
    """There is no private key to sign with."""

    code = "NO_SIGNING_KEY"

    def __init__(self, directory: str) -> None:
        self.directory = directory
        super().__init__(f"no signing key in {directory}", hint="make one with: rye keys generate")


def key_document_error(path: str, problem: str) -> RyeError:
    """The error of a key document, or another file of keys, that is not what it says."""
    return RyeError(f"{path}: {problem}", code="CONFIG_ERROR", path=path)


class ChainError(RyeError, ValueError):
    """A chain that cannot be built."""

    code = "CHAIN_INVALID"


class ExecutorNotFoundError(ChainError):
    """An element names an executor that no space it may use holds."""

    code = "EXECUTOR_NOT_FOUND"

    def __init__(
        self,
        executor_id: str,
        child_id: str,
        *,
        out_of_reach: str = "",
        suggestions: Sequence[str] = (),
    ) -> None:
        self.executor_id, self.child_id = executor_id, child_id
        self.suggestions = tuple(suggestions)
        hint = "list what there is with: rye search '*' --type tool"
        if suggestions:
            hint = f"did you mean {', '.join(suggestions)}?"
        if out_of_reach:
            hint = f"{out_of_reach} space has it, but only items of that space may use it"
        super().__init__(f"Executor not found: {executor_id} (needed by {child_id})", hint=hint)


class ChainValidationError(ChainError):
    """The chain breaks space, input/output or version rules; ``details`` has every issue."""

    def __init__(self, issues: Sequence[str]) -> None:
        self.details = tuple(issues)
        super().__init__(
            f"Chain validation failed: {'; '.join(issues)}",
            hint="see every element's file, space and version: rye chain ITEM",
        )


class LockfileMismatchError(ChainError):
    """The chain is not the one that the lockfile pins."""

    code = "LOCKFILE_MISMATCH"

    def __init__(self, problem: str, tool_id: str, path: str) -> None:
        self.problem, self.tool_id, self.path = problem, tool_id, path
        super().__init__(
            f"{problem} (lockfile: {path})",
            hint=f"if you meant this change: rye lock update {tool_id}",
        )


class ParameterError(RyeError):
    """Parameters do not fit the item's schema; nothing was started."""

    code = "VALIDATION_FAILED"

    def __init__(self, problems: Sequence[str], *, hint: str = "") -> None:
        self.details = tuple(problems)
        super().__init__(f"Parameter validation failed: {'; '.join(problems)}", hint=hint)


class DirectiveInputError(RyeError):
    """Parameters do not fit a directive's inputs; ``details`` lists what it takes."""

    code = "VALIDATION_FAILED"

    def __init__(self, ref: str, problems: Sequence[str], declared: Sequence[str]) -> None:
        self.ref = ref
        self.details = tuple(declared)
        super().__init__(f"{ref}: {'; '.join(problems)}", hint=f"it takes: {'; '.join(declared)}")


class UnsupportedError(RyeError):
    """Something that is named by the design but that this build does not do."""

    code = "UNSUPPORTED"


class UsageError(RyeError):
    """The command line is wrong as typed."""

    code = "INVALID_PARAMS"


def _item_word(ref: str) -> str:
    kind, _, rest = ref.partition(":")
    return kind.capitalize() if rest else "Item"


def _bare(ref: str) -> str:
    return ref.partition(":")[2] or ref


# What is wrong with a request: an argument, or a query. No item is to blame.


class VerbArgumentError(RyeError):
    """An argument that its tool does not take, or a value that does not fit.

    ``name`` is the argument's path, like ``filters.version``.
    """

    code = "INVALID_PARAMS"

    def __init__(self, name: str, problem: str, *, hint: str = "", **facts: object) -> None:
        self.name, self.problem = name, problem
        self.facts = {"argument": name, **facts}
        super().__init__(f"{name}: {problem}", hint=hint)


class InvalidQueryError(RyeError):
    """A query that breaks the grammar. ``position`` counts its characters from 0."""

    code = "INVALID_QUERY"

    def __init__(self, problem: str, position: int, *, details: Sequence[str] = ()) -> None:
        self.problem, self.position = problem, position
        self.details = tuple(details) or (f"at character {position}: {problem}",)
        self.facts = {"position": position}
        super().__init__(
            f"query: {problem}",
            hint="put text that shall be taken as it is into double quotes; the grammar is in:"
            " rye help search",
        )


# The one shape of every answer: ``{"status": ...}``, errors with ``code``, ``error``, ``hint``.
#
# The command line's ``--json``, and later the MCP server and the node, send exactly this. Keys only
# grow. See ``docs/reference/envelope.md``.

TOOL_FAILED = 1
_ENDED_FROM_OUTSIDE = frozenset({"TIMEOUT", "CANCELLED"})


@dataclass(frozen=True, slots=True)
class Answer:
    """An envelope and the status that a command ends with.

    ``diff`` is for a person at a command line: lines from outside, which no model should read.
    """

    envelope: Mapping[str, Any]
    exit_status: int = 0
    diff: tuple[str, ...] = ()


ONLY_FAILED = frozenset({"success", "error", "error_type"})
"""The keys of the data of a Python function that failed: nothing that its error does not say."""


def http_status_of(error: LilluxError) -> int:
    """The status of the answer to a request that ended with an error; 500 for none of a caller."""
    from ryeos.items.error_table import error_table

    own: int = getattr(error, "http_status", 0)
    return own or error_table()[error.code].http_status or _UNEXPECTED


_UNEXPECTED = 500


def failed_run_status(code: str) -> int:
    """The exit status of a command whose tool failed: 1, but for a run that was ended."""
    from ryeos.items.error_table import error_table

    return error_table()[code].exit_status if code in _ENDED_FROM_OUTSIDE else TOOL_FAILED


def error_envelope(error: LilluxError) -> dict[str, Any]:
    """The envelope of a failure."""
    envelope: dict[str, Any] = {"status": "error", "error": str(error), "code": error.code}
    if error.exit_status == 4:  # noqa: PLR2004 - the status of every trust failure
        envelope["error_type"] = "integrity"
    path = getattr(error, "path", None)
    if isinstance(path, str) and path:
        envelope["path"] = path
    if isinstance(error, RyeError):
        if error.details:
            envelope["details"] = list(error.details)
        if error.suggestions:
            envelope["suggestions"] = list(error.suggestions)
    envelope |= error.facts or {}
    if error.hint:
        envelope["hint"] = error.hint
    return envelope


def error_answer(error: LilluxError) -> Answer:
    """The answer for a failure."""
    return Answer(error_envelope(error), error.exit_status)
