"""The errors of Rye: codes, exit statuses, classes that callers catch, and the JSON envelope.

The codes are a contract: ``docs/reference/errors.md`` is generated from here. An error about an
item names it the way a user would type it: ``tool:rye/bash/bash``.
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from lillux.errors import LilluxError
from lillux.values import dataclass

EXIT_STATUS: Mapping[str, int] = {
    "CONFLICT": 1,
    "EXECUTION_FAILED": 1,
    "FILE_SYSTEM_ERROR": 1,
    "INTERNAL": 1,
    "LIMIT_DAILY": 1,
    "LIMIT_DEPTH": 1,
    "LIMIT_DURATION_S": 1,
    "LIMIT_INPUT_TOKENS": 1,
    "LIMIT_OUTPUT_TOKENS": 1,
    "LIMIT_SPAWNS": 1,
    "LIMIT_SPEND": 1,
    "LIMIT_TOKENS": 1,
    "LIMIT_TOOL_CALLS": 1,
    "LIMIT_TURNS": 1,
    "AMBIGUOUS_ITEM": 2,
    "INVALID_PARAMS": 2,
    "INVALID_QUERY": 2,
    "INVALID_REF": 2,
    "NO_PROJECT": 2,
    "SYSTEM_IMMUTABLE": 2,
    "UNSUPPORTED": 2,
    "CREDENTIAL_NOT_FOUND": 3,
    "ITEM_NOT_FOUND": 3,
    "MODEL_NOT_FOUND": 3,
    "OBJECT_NOT_FOUND": 3,
    "REGISTRY_NOT_CONFIGURED": 3,
    "REMOTE_NOT_FOUND": 3,
    "RUN_NOT_FOUND": 3,
    "SECRET_NOT_FOUND": 3,
    "SECRET_UNREADABLE": 3,
    "THREAD_NOT_FOUND": 3,
    "APPROVAL_REQUIRED": 4,
    "ENVELOPE_INVALID": 4,
    "INTEGRITY": 4,
    "NO_SIGNING_KEY": 4,
    "PERMISSION_DENIED": 4,
    "PIN_MISMATCH": 4,
    "REMOTE_INSECURE": 4,
    "REMOTE_NOT_APPROVED": 4,
    "REQUEST_SIGNATURE": 4,
    "ROLLBACK": 4,
    "SERVER_CHANGED": 4,
    "UNBOUND_SIGNATURE": 4,
    "UNSIGNED": 4,
    "UNTRUSTED_KEY": 4,
    "WEBHOOK_REFUSED": 4,
    "CHAIN_INVALID": 5,
    "CHAIN_TOO_DEEP": 5,
    "CIRCULAR_DEPENDENCY": 5,
    "EXECUTOR_NOT_FOUND": 5,
    "LOCKFILE_INVALID": 5,
    "LOCKFILE_MISMATCH": 5,
    "CONFIG_ERROR": 6,
    "EXPRESSION_ERROR": 6,
    "HTTP_INVALID_REQUEST": 6,
    "IMPORT_UNREADABLE": 6,
    "INTERPRETER_NOT_FOUND": 6,
    "PACKAGES_UNAVAILABLE": 6,
    "STORE_UNAVAILABLE": 6,
    "WRONG_DATABASE": 6,
    "WRONG_STORE": 6,
    "PARSING_ERROR": 6,
    "PRICE_UNKNOWN": 6,
    "REGISTRY_INVALID": 6,
    "RESOURCE_EXCEEDED": 6,
    "SANDBOX_UNAVAILABLE": 6,
    "VALIDATION_FAILED": 6,
    "AUTH_FAILED": 7,
    "CAS_ENTRY_INVALID": 7,
    "CAS_OBJECT_INVALID": 7,
    "CONTEXT_FULL": 7,
    "CREDENTIAL_REFUSED": 7,
    "HEAD_MOVED": 7,
    "HTTP_BROKEN": 7,
    "HTTP_PROXY": 7,
    "HTTP_REDIRECT": 7,
    "HTTP_TLS": 7,
    "HTTP_UNREACHABLE": 7,
    "INADMISSIBLE_PATH": 7,
    "PROVIDER_INVALID": 7,
    "PROVIDER_REFUSED": 7,
    "PROVIDER_UNAVAILABLE": 7,
    "REGISTRY_NO_KEY": 7,
    "REGISTRY_REFUSED": 7,
    "REMOTE_CONFLICT": 7,
    "REMOTE_EXCLUDED": 7,
    "REMOTE_HEAD_LOST": 7,
    "REMOTE_HEAD_MOVED": 7,
    "REMOTE_REFUSED": 7,
    "REMOTE_RENAMED": 7,
    "REMOTE_REPLY_INVALID": 7,
    "REMOTE_UNREACHABLE": 7,
    "REMOTE_UNRELATED": 7,
    "STREAM_CUT": 7,
    "UNSAFE_PATH": 7,
    "VERSION_MISMATCH": 7,
    "TIMEOUT": 124,
    "CANCELLED": 130,
}
"""Each code, and the exit status of a command that ends with it.

A few classes have another status for the same code; ``docs/reference/errors.md`` lists them.
"""


RETRY_WITH = "retry_with"
"""Of `RyeError.facts`: the parameters with which the same call goes on."""


class RyeError(LilluxError):
    """Something Rye could not do.

    A failure has a class of its own where a caller catches it or reads its fields; any other is
    this class with a ``code`` of `EXIT_STATUS`. ``path`` is the file that it is about, if any,
    ``suggestions`` what was meant.
    """

    suggestions: tuple[str, ...] = ()
    details: tuple[str, ...] = ()

    def __init__(self, message: str, *, code: str = "", hint: str = "", path: str = "") -> None:
        if code:
            self.code, self.exit_status = code, EXIT_STATUS[code]
        if path:
            self.path = path
        super().__init__(message, hint=hint)


# ---------------------------------------------------------------- references, spaces, items


class InvalidRefError(RyeError):
    """An item reference that no space could hold."""

    code, exit_status = "INVALID_REF", 2

    def __init__(self, ref: str, problem: str, hint: str = "") -> None:
        self.ref, self.problem = ref, problem
        usual = "a reference is kind:path, like tool:rye/bash/bash, or just the path"
        super().__init__(f"item reference {ref[:200]!r}: {problem}", hint=hint or usual)


class AmbiguousItemError(RyeError):
    """A bare id that more than one kind of item answers to."""

    code, exit_status = "AMBIGUOUS_ITEM", 2

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

    code, exit_status = "ITEM_NOT_FOUND", 3

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

    code, exit_status = "SYSTEM_IMMUTABLE", 2

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

    code, exit_status = "CONFIG_ERROR", 6

    def __init__(self, where: str, problem: str, *, hint: str = "") -> None:
        self.where, self.problem = where, problem
        super().__init__(f"{where}: {problem}", hint=hint or "correct it where it is written")


class ItemValidationError(RyeError):
    """An item breaks rules of its kind; nothing was signed. ``details`` has every problem.

    ``positions``: line and column of the last ones, as many as there are, as far as they are known.
    """

    code, exit_status = "VALIDATION_FAILED", 6

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


# ---------------------------------------------------------------- trust


class IntegrityError(RyeError):
    """The bytes at ``path`` are not what a trusted key signed, or cannot be checked."""

    code, exit_status = "INTEGRITY", 4
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

    code, exit_status = "APPROVAL_REQUIRED", 4

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

    code, exit_status = "VALIDATION_FAILED", 6

    def __init__(self, path: str, suffix: str) -> None:
        self.path, self.suffix = path, suffix
        super().__init__(f"{path}: no signature form for files ending in {suffix!r}")


class NoSigningKeyError(RyeError):
    """There is no private key to sign with."""

    code, exit_status = "NO_SIGNING_KEY", 4

    def __init__(self, directory: str) -> None:
        self.directory = directory
        super().__init__(f"no signing key in {directory}", hint="make one with: rye keys generate")


def key_document_error(path: str, problem: str) -> RyeError:
    """The error of a key document, or another file of keys, that is not what it says."""
    return RyeError(f"{path}: {problem}", code="CONFIG_ERROR", path=path)


# ---------------------------------------------------------------- chain


class ChainError(RyeError, ValueError):
    """A chain that cannot be built."""

    code, exit_status = "CHAIN_INVALID", 5


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


# ---------------------------------------------------------------- running


class ParameterError(RyeError):
    """Parameters do not fit the item's schema; nothing was started."""

    code, exit_status = "VALIDATION_FAILED", 6

    def __init__(self, problems: Sequence[str], *, hint: str = "") -> None:
        self.details = tuple(problems)
        super().__init__(f"Parameter validation failed: {'; '.join(problems)}", hint=hint)


class DirectiveInputError(RyeError):
    """Parameters do not fit a directive's inputs; ``details`` lists what it takes."""

    code, exit_status = "VALIDATION_FAILED", 6

    def __init__(self, ref: str, problems: Sequence[str], declared: Sequence[str]) -> None:
        self.ref = ref
        self.details = tuple(declared)
        super().__init__(f"{ref}: {'; '.join(problems)}", hint=f"it takes: {'; '.join(declared)}")


class UnsupportedError(RyeError):
    """Something that is named by the design but that this build does not do."""

    code, exit_status = "UNSUPPORTED", 2


class UsageError(RyeError):
    """The command line is wrong as typed."""

    code, exit_status = "INVALID_PARAMS", 2


def _item_word(ref: str) -> str:
    kind, _, rest = ref.partition(":")
    return kind.capitalize() if rest else "Item"


def _bare(ref: str) -> str:
    return ref.partition(":")[2] or ref


# --- request errors -------------------------------------------------------------------------------
# What is wrong with a request: an argument, or a query. No item is to blame.


class VerbArgumentError(RyeError):
    """An argument that its tool does not take, or a value that does not fit.

    ``name`` is the argument's path, like ``filters.version``.
    """

    code, exit_status = "INVALID_PARAMS", 2

    def __init__(self, name: str, problem: str, *, hint: str = "", **facts: object) -> None:
        self.name, self.problem = name, problem
        self.facts = {"argument": name, **facts}
        super().__init__(f"{name}: {problem}", hint=hint)


class InvalidQueryError(RyeError):
    """A query that breaks the grammar. ``position`` counts its characters from 0."""

    code, exit_status = "INVALID_QUERY", 2

    def __init__(self, problem: str, position: int, *, details: Sequence[str] = ()) -> None:
        self.problem, self.position = problem, position
        self.details = tuple(details) or (f"at character {position}: {problem}",)
        self.facts = {"position": position}
        super().__init__(
            f"query: {problem}",
            hint="put text that shall be taken as it is into double quotes; the grammar is in:"
            " rye help search",
        )


# --- envelope -------------------------------------------------------------------------------------
# The one shape of every answer: ``{"status": ...}``, errors with ``code``, ``error``, ``hint``.
#
# The command line's ``--json``, and later the MCP server and the node, send exactly this. Keys only
# grow. See ``docs/reference/envelope.md``.

EXIT_BY_CODE = {"TIMEOUT": 124, "CANCELLED": 130}
TOOL_FAILED = 1


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
