"""``sign``: validate and sign one item, or all that a pattern matches."""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from lillux.cancellation import Cancellation
from lillux.contained_paths import safe_join
from lillux.errors import LilluxError
from lillux.files import make_directory, read_bytes, remove_file, write_atomic
from lillux.values import dataclass, replace
from ryeos.app.verb_arguments import (
    item_reference,
    plain_reference,
    project_of,
    rye_of,
    valid_arguments,
)
from ryeos.app.verbs import TOOLS
from ryeos.app.workspace import Rye
from ryeos.items.errors import (
    Answer,
    InvalidRefError,
    ItemNotFoundError,
    SystemImmutableError,
    VerbArgumentError,
    error_answer,
    error_envelope,
)
from ryeos.items.refs import (
    PROJECT,
    SYSTEM,
    USER,
    ItemRef,
    Kind,
    Reference,
    Space,
    parse_kind,
    parse_reference,
)
from ryeos.items.replaced import keep_replaced
from ryeos.items.specs import ToolSpec, tool_spec
from ryeos.items.unknown_keys import misspelt_keys
from ryeos.run.chain import PACKAGES_MARK
from ryeos.run.primitives import PRIMITIVES
from ryeos.trust.item_rules import ValidItem, examine_item, is_module, require_no_issues
from ryeos.trust.resolver import candidates, is_regular_file
from ryeos.trust.sign import Signer, SignReport, require_writable
from ryeos.trust.sign_targets import (
    GLOB_CHARACTERS,
    ReadItem,
    SignTarget,
    exclusions,
    read_item,
    target_of_path,
    targets_of_glob,
    targets_of_reference,
)
from ryeos.trust.signature import MAX_ITEM_BYTES, Signature, decode, form_for, split
from ryeos.trust.verify import Target

MAX_DETAILS = 2
# Gets how many are done, of how many, and which was the last.
OnProgress = Callable[[int, int, str], None]


MAX_KEPT_AT_ONCE = 64
"""Of so many texts that are signed together, copies are kept to compare the next ones with."""


def sign_targets(
    rye: Rye, arguments: Mapping[str, object]
) -> tuple[Rye, tuple[SignTarget | ReadItem, ...], dict[str, Any]]:
    """The project's Rye, the files that the arguments of ``sign`` mean, and these, checked.

    A text is not written yet: it is that text, in its place, see `put_text`. Raises
    VerbArgumentError, ItemNotFoundError, SystemImmutableError.
    """
    values = valid_arguments(TOOLS["sign"], arguments)
    rye = rye_of(rye, values)
    text, item_type = values["item_id"], values.get("item_type")
    label = _source(values)
    if label == SYSTEM:
        raise SystemImmutableError(text)
    if "content" in values:
        if label != PROJECT:  # a text there would stand before the bundle's in every project
            raise VerbArgumentError("content", f"expected source {PROJECT}, found {label}")
        return rye, (_text_of_item(values, rye.space(label)),), values
    return rye, targets_of(rye, text.replace("\\", "/"), item_type, label), values


def sign(
    rye: Rye,
    arguments: Mapping[str, object],
    *,
    on_progress: OnProgress | None = None,
    cancellation: Cancellation | None = None,
) -> Answer:
    """The outcome for one item or many. Raises what keeps all of them from being signed.

    A cancelled batch keeps what is signed by then.
    """
    rye, targets, values = sign_targets(rye, arguments)
    text = values["item_id"]
    put = None
    if "content" in values and not values["dry_run"]:
        rye.signing_key()  # without one nothing is written
        if not checked(rye, targets[0]).error:
            put = put_text(targets[0], rye.context.spaces.user)
    reports: list[SignReport] = []
    for report in signing(rye, targets, dry_run=values["dry_run"], force=values["force"]):
        reports.append(report)
        if on_progress:
            on_progress(len(reports), len(targets), report.target.label)
        if cancellation and cancellation.is_set:
            break
    project: dict[str, Any] = {"project_path": project_of(rye)}
    locks = follow(rye, reports)
    if locks:
        project["locks_updated"] = locks
    if is_glob(text):
        batch = batch_answer(reports, len(targets), dry_run=values["dry_run"])
        return Answer({**batch.envelope, **project}, batch.exit_status)
    one = single_answer(reports[0])
    return Answer({**one.envelope, **project, **of_text(values, reports[0], put)}, one.exit_status)


@dataclass(frozen=True, slots=True)
class PutText:
    """A text that was put into its item's file. ``kept`` is a copy of the ``prior`` one."""

    item: ReadItem
    prior: bytes | None
    kept: Path | None

    def take_back(self) -> None:
        """Leave what was there before. Raises FileSystemError, FileChangedError."""
        path, within = self.item.target.path, self.item.target.space.within
        if self.prior is not None:
            write_atomic(path, self.prior, expected=self.item.data, within=within)
        elif read_bytes(path, MAX_ITEM_BYTES, within=within) == self.item.data:
            remove_file(path, within=within)


def put_text(item: SignTarget | ReadItem, user: Space) -> PutText | None:
    """Put the text of an item into its file, with its folders; None where it is there already.

    A text that was there is kept in user space. Raises FileSystemError, LinkOnTheWayError.
    """
    if not isinstance(item, ReadItem):
        return None
    path, within, prior = item.target.path, item.target.space.within, None
    make_directory(path.parent, within=within)
    if is_regular_file(path):
        prior = read_bytes(path, MAX_ITEM_BYTES, within=within)
    if prior == item.data:
        return None
    kept = None if prior is None else keep_replaced(user, path, prior)
    write_atomic(path, item.data, mode=0o644, expected=prior, within=within)
    return PutText(item, prior, kept)


def of_text(values: Mapping[str, Any], report: SignReport, put: PutText | None) -> dict[str, str]:
    """Of a call with ``content``: the copy of a prior text, or that nothing was written.

    A text that was put and not signed is taken back: it would stand in place of one that runs.
    """
    if "content" not in values:
        return {}
    if not report.error:
        return {"prior_text": str(put.kept)} if put and put.kept else {}
    if put:
        put.take_back()
    if values["dry_run"]:
        return {}
    return {"hint": "; ".join(filter(None, (report.error.hint, "nothing was written")))}


_LANGUAGE_MARKS = (
    (re.compile(r"#!.*\bpython|# /// script"), ".py"),
    (re.compile(r"#!.*\b(node|deno|bun)\b"), ".js"),
    (re.compile(r"#!|# (version|tool_type|executor_id):"), ".sh"),
    (re.compile(r"(export )?(const|let|var) __\w+__|/\*\*|// "), ".js"),
    (
        re.compile(r"__\w+__ *=|[rR]?(\"\"\"|\'\'\'|\"|\')|(from|import|def|class|async def) |@\w"),
        ".py",
    ),
)


@dataclass(frozen=True, slots=True)
class _Place:
    """The place of an item's text, and whether there is one."""

    ref: ItemRef
    path: Path
    is_there: bool


def _place_of_text(values: Mapping[str, Any], space: Space) -> _Place:
    """The file that a text is for.

    The suffix is that of the id, of the file that has the id, or that of the language. Raises
    VerbArgumentError, UnsafePathError, RyeError for what gives rights.
    """
    if is_glob(values["item_id"]):
        raise VerbArgumentError("content", "expected the id of one item, found a pattern")
    text = plain_reference(values["item_id"])
    reference = parse_reference(text, values.get("item_type"))
    kind = reference.kind or Kind.TOOL
    stem, dot, end = reference.id.rpartition(".")
    suffix = f".{end}" if dot and space.has_suffix(kind, f".{end}") else ""
    ref = ItemRef(kind, stem if suffix else reference.id)
    there = next((path for path in candidates(space, ref) if is_regular_file(path)), None)
    suffix = suffix or (there.suffix if there else _suffix(kind, values["content"]))
    path = safe_join(space.directory(kind), f"{ref.id}{suffix}")
    if there and there != path:
        hint = f"leave out the suffix, or remove {there.name} first"
        raise VerbArgumentError("item_id", f"{there.name} has this id already", hint=hint)
    if kind is Kind.CONFIG:
        from ryeos.app.proposals import require_no_rights

        target = SignTarget(path=path, kind=kind, space=space, ref=ref)
        require_no_rights([target], is_new_text=True)
    return _Place(ref, path, is_there=there is not None)


def _text_of_item(values: Mapping[str, Any], space: Space) -> ReadItem:
    """A text in its place, not written; what is there, where that is this text, signed or not.

    Raises as `_place_of_text`.
    """
    place, data = _place_of_text(values, space), values["content"].encode()
    target = SignTarget(path=place.path, kind=place.ref.kind, space=space, ref=place.ref)
    if place.is_there:
        prior = read_bytes(place.path, MAX_ITEM_BYTES, within=space.within)
        if values["content"] == _unsigned(prior, place.ref.kind, place.path):
            return ReadItem(target, prior)
    return ReadItem(target, data)


def _unsigned(data: bytes, kind: Kind, path: Path) -> str | None:
    """A text without its signature; None for one that cannot be read, or of an added type."""
    try:
        signed = split(decode(data, str(path)), form_for(kind, path.suffix), str(path))
    except LilluxError:
        return None
    return f"{signed.shebang}{signed.body}"


def _suffix(kind: Kind, text: str) -> str:
    """The suffix that a text needs, by how its header begins."""
    if kind is Kind.CONFIG:
        return ".yaml"
    if kind is not Kind.TOOL:
        return ".md"
    for line in text.splitlines():
        for mark, suffix in _LANGUAGE_MARKS:
            if mark.match(line):
                return suffix
        if line.strip() and not line.startswith("#"):
            break
    return ".yaml"


def _source(values: Mapping[str, Any]) -> str:
    """The space; the older form says so in ``parameters``."""
    location = values.get("parameters", {}).get("location", values["source"])
    if location not in {PROJECT, USER, SYSTEM}:
        raise VerbArgumentError(
            "parameters.location",
            f"expected one of {PROJECT}, {USER}, found {location!r:.60}",
            hint="give source instead",
        )
    return str(location)


def targets_of(rye: Rye, text: str, item_type: str | None, label: str) -> tuple[SignTarget, ...]:
    """The files that a reference or a pattern means in a space. Raises ItemNotFoundError."""
    space = rye.space(label)
    if is_glob(text):
        excluded = exclusions(rye.context.spaces, rye.verifier, rye.warn)
        return targets_of_glob(*_glob(text, item_type), space, excluded, warn=rye.warn)
    if label == SYSTEM:
        raise SystemImmutableError(text)
    reference = item_reference(rye, text, item_type)
    try:
        return targets_of_reference(reference, space)
    except ItemNotFoundError:
        found = [place for ref in reference.refs() if (place := rye.resolver.find(ref))]
        if found and found[0].location.space.tier == SYSTEM:
            raise SystemImmutableError(str(found[0].location.ref)) from None
        raise


def is_glob(text: str) -> bool:
    """True if a text is a pattern."""
    return bool(GLOB_CHARACTERS & set(text))


def signing(
    rye: Rye, items: Sequence[SignTarget | ReadItem], *, dry_run: bool, force: bool
) -> Iterator[SignReport]:
    """Sign, or only check, one after the other. Raises NoSigningKeyError.

    What was read before is signed as it was read, and shown: a file that is another is refused.
    """
    if not dry_run:
        signer = Signer(rye.signing_key(), rye.verifier)
        rules = RunRules(rye, writes=True)
        for report in signer.sign_all(items, force=force, require=rules.require):
            yield _with_graph_warnings(report)
        named = {one.target if isinstance(one, ReadItem) else one for one in items}
        lists = [one for one in rules.lists if one.target not in named]
        failed = (one for one in signer.sign_all(lists, force=force) if one.error)
        yield from failed
        return
    for item in items:
        yield checked(rye, item)


def read_all(targets: Sequence[SignTarget | ReadItem]) -> list[SignTarget | ReadItem]:
    """Each file with its bytes, read once; one that cannot be read as it is: signing says why."""
    found: list[SignTarget | ReadItem] = []
    for target in targets:
        try:
            found.append(target if isinstance(target, ReadItem) else read_item(target))
        except LilluxError:
            found.append(target)
    return found


def is_signed(rye: Rye, item: ReadItem) -> Signature | None:
    """The signature of a text that is valid as it is, by whatever key that is trusted here."""
    try:
        return rye.verifier.verify(item.target.verify_target, item.data).signature
    except LilluxError:
        return None


def follow(rye: Rye, reports: Sequence[SignReport]) -> list[str]:
    """Let records follow new signatures: signing is the decision. The tools whose lock changed.

    An older version counts in this project from now on. The lockfile of each tool whose chain has
    one of these very files is written anew, if nothing else in it differs; else it is a warning
    that names the other file.
    """
    signed = [one for one in reports if one.signature and not one.unchanged and not one.error]
    names: set[str] = set()
    paths: set[Path] = set()
    for report in signed:
        identity, ref = report.identity, report.target.ref
        if identity and ref and report.signature:
            rye.note_signed(ref, report.target.space, report.signature, identity.version)
        if identity and identity.kind == Kind.TOOL.value:
            names |= {identity.id, report.target.path.name}
            paths.add(report.target.path.resolve())
    if signed and len(signed) <= MAX_KEPT_AT_ONCE:
        from ryeos.app.review import keep_signed

        keep_signed(rye.context.spaces.user, signed)
    return follow_locks(rye, names, paths)


def follow_locks(rye: Rye, names: Collection[str], paths: Collection[Path]) -> list[str]:
    """Write the lockfiles anew that pin one of these files, as they were before a person signed.

    ``names`` are ids of tools, and file names; ``paths`` the very files. One that cannot follow is
    a warning. The tools whose lock changed.
    """
    if not names:
        return []
    updated = []
    for item_id in sorted(set(rye.executor.lockfiles.naming(names))):
        try:
            if rye.executor.follow(item_id, paths):
                updated.append(item_id)
        except LilluxError as error:
            rye.warn(f"the lockfile of {item_id} still pins what was: {error} ({error.hint})")
    return updated


def _problems_of_graph(item: ReadItem, valid: ValidItem) -> list[tuple[str, tuple[int, int]]]:
    """The problems of a graph, each with its line and column; none for any other item."""
    if valid.issues:
        return []
    return [(str(error), place) for error, place in _found_in_graph(item, valid, "errors")]


def graph_warnings(item: ReadItem) -> list[str]:
    """Parts of a graph that nothing uses, each with its line; empty for any other item."""
    try:
        valid = examine_item(item.target, item.data)
        found = _found_in_graph(item, valid, "warnings")
    except LilluxError:
        return []  # signing says what is wrong
    return [f"{item.target.label}, line {line}: {warning}" for warning, (line, _) in found]


def _found_in_graph(
    item: ReadItem, valid: ValidItem, which: str
) -> list[tuple[object, tuple[int, int]]]:
    """The errors or the warnings of a graph with their places. Raises MetadataError."""
    target = item.target
    if not _is_tool(target, valid) or not target.ref:
        return []
    if tool_spec(valid.header, target.verify_target.suffix).tool_type != "graph":
        return []
    from ryeos.graph.problems import lines_of, position_of
    from ryeos.graph.reading import read_graph

    found = getattr(read_graph(valid.header, target.ref.id).before_signing, which)
    lines = lines_of(decode(item.data, str(target.path))) if found else {}
    return [(one, position_of(one.path, lines)) for one in found]


class RunRules:
    """Rules that a run would fail by: cases, keys, executors and graphs are looked at."""

    def __init__(self, rye: Rye, *, writes: bool = False) -> None:
        """``writes``: lists of packages are written, which `lists` are to be signed as well."""
        self._rye, self._writes = rye, writes
        self.lists: list[ReadItem] = []
        self._executors: dict[tuple[str, str], bool] = {}

    def require(self, item: ReadItem, valid: ValidItem) -> None:
        """Raise ItemValidationError, with all problems, for an item that could never run.

        Raises as reading cases.
        """
        issues = [*valid.issues, *self._issues(item, valid)]
        require_no_issues(item, issues, _problems_of_graph(item, valid))
        if _is_tool(item.target, valid):
            self._list_packages(item.target, valid)

    def _issues(self, item: ReadItem, valid: ValidItem) -> Iterator[str]:
        """Problems of an item beside the rules of its kind."""
        target, where = item.target, str(item.target.path)
        if target.kind is Kind.CONFIG:
            from ryeos.app.settings import settings_problems

            relative = target.path.relative_to(target.space.directory(Kind.CONFIG)).as_posix()
            yield from settings_problems(relative, valid.header or {})
        elif target.kind is not Kind.TOOL:
            yield from () if valid.issues else _issues_of_text(target, valid)  # else said twice
        elif target.ref and target.ref.is_test:
            from ryeos.app.case_files import read_case_text

            read_case_text(decode(item.data, where), target.ref.id, where)
        elif _is_tool(target, valid):
            try:
                yield from self._issues_of_tool(target, valid)
            except LilluxError:  # of a field that breaks a rule as well
                if not valid.issues:
                    raise

    def _issues_of_tool(self, target: SignTarget, valid: ValidItem) -> Iterator[str]:
        spec = tool_spec(valid.header, target.verify_target.suffix)
        yield from misspelt_keys(spec, target.verify_target.suffix)
        yield from self._executor_issues(spec, target.space.label)
        yield from self._config_issues(spec, target.space.label)
        yield from self._rights_issues(spec, target.space.label)

    def _list_packages(self, target: SignTarget, valid: ValidItem) -> None:
        """Write the list of the packages that a tool needs, unless a signed one is of its block.

        An unsigned one may be a clone's or an agent's: it is made anew, never signed.
        """
        text = valid.signed.body if valid.signed and target.path.suffix == ".py" else ""
        if PACKAGES_MARK not in text:
            return
        from ryeos.run.package_installer import Installer
        from ryeos.run.packages import list_path, list_text, read_block

        block = read_block(text, str(target.path))
        if block is None or target.ref is None or not self._writes:
            return
        path = list_path(target.path)
        context = self._rye.context
        signed = self._verified_text(path, target)
        is_of_block = f"  block: {block.digest}\n" in signed
        if is_of_block and "  made_for: " not in signed:
            return
        import json
        import sys
        from tempfile import TemporaryDirectory

        from lillux.process import ProcessManager

        installer = Installer(ProcessManager(), context.own_environment, context.platform)
        with TemporaryDirectory(prefix="rye-packages-") as folder:
            made_for = installer.platform_of(sys.executable, Path(folder))
            if is_of_block and f"  made_for: {json.dumps(made_for)}\n" in signed:
                return
            found = installer.resolve(block, sys.executable, Path(folder))
        text = list_text(target.ref.id, block, found, made_for)
        data = text.encode()
        write_atomic(path, data, mode=0o644, within=target.space.within)
        names = ", ".join(line.partition(" ")[0] for line in found)
        self._rye.warn(f"{target.ref} will run with these packages, listed in {path}: {names}")
        self.lists.append(ReadItem(target_of_path(path, context.spaces), data))

    def _verified_text(self, path: Path, beside: SignTarget) -> str:
        """The text of a file beside an item that may be used as it is, ``""`` of any other."""
        try:
            item = self._rye.verifier.verify(
                Target(path=path, kind=beside.kind, space=beside.space)
            )
        except (OSError, LilluxError):
            return ""
        return item.text if item.verified else ""

    def _config_issues(self, spec: ToolSpec, label: str) -> Iterator[str]:
        if spec.tool_type == "graph" or not spec.config or not isinstance(spec.executor_id, str):
            return
        from ryeos.app.settings import config_problems

        found = self._rye.resolver.find_executor(spec.executor_id, label)
        yield from config_problems(spec.config, found.location.ref.id if found else "")

    def _rights_issues(self, spec: ToolSpec, label: str) -> Iterator[str]:
        """The rights that a header declares and its runtime does not allow."""
        if spec.sandbox is None or not isinstance(spec.executor_id, str):
            return
        found = self._rye.resolver.find_executor(spec.executor_id, label)
        try:
            chain = self._rye.executor.build_chain(found.location.ref.id) if found else None
        except LilluxError:  # signing the runtime reports its own problems
            return
        for element in chain.elements if chain else ():
            if element.spec.sandbox is not None:
                for key in spec.sandbox.excess_over(element.spec.sandbox):
                    yield f"sandbox.{key}: asks for more than {element.item_id} gives"

    def _executor_issues(self, spec: ToolSpec, label: str) -> Iterator[str]:
        wanted = spec.executor_id
        if not isinstance(wanted, str) or wanted in PRIMITIVES:
            return
        if (wanted, label) not in self._executors:
            found = self._rye.resolver.find_executor(wanted, label)
            self._executors[wanted, label] = found is not None
        if not self._executors[wanted, label]:
            close = self._rye.resolver.suggest(Reference(Kind.TOOL, wanted), label)
            meant = f"; did you mean {close[0].removeprefix('tool:')}?" if close else ""
            yield f"executor_id: no such item, {wanted[:80]!r}{meant}"


def _is_tool(target: SignTarget, valid: ValidItem) -> bool:
    """True if it runs: no module, no text, no case of a test."""
    if target.ref is None or target.kind is not Kind.TOOL or target.ref.is_test:
        return False
    return bool(valid.header) and not is_module(target, valid.header)


def _issues_of_text(target: SignTarget, valid: ValidItem) -> Iterator[str]:
    """Slips in the header of a directive or of knowledge. Raises MetadataError."""
    from ryeos.app.settings import directive_problems, knowledge_problems

    if target.kind is Kind.DIRECTIVE and valid.signed:
        yield from directive_problems(valid.signed.shebang + valid.signed.body)
    elif target.kind is Kind.KNOWLEDGE and valid.header:
        yield from knowledge_problems(valid.header)


def _glob(text: str, item_type: str | None) -> tuple[Kind | None, str]:
    prefix, colon, pattern = text.partition(":")
    if colon and not pattern:
        raise InvalidRefError(text, f"expected a pattern after '{prefix}:'")
    kind = parse_kind(prefix, text) if colon else None
    typed = parse_kind(item_type, text) if item_type else None
    if kind and typed and kind is not typed:
        raise InvalidRefError(text, f"says {kind.value} where the item type is {typed.value}")
    return kind or typed, pattern if colon else text


def checked(rye: Rye, item: SignTarget | ReadItem) -> SignReport:
    """Problems for which a file would not be signed, without signing it."""
    target = item.target if isinstance(item, ReadItem) else item
    try:
        require_writable(target)
        read = item if isinstance(item, ReadItem) else read_item(target)
        RunRules(rye).require(read, examine_item(target, read.data))
    except LilluxError as error:
        return SignReport(target=target, error=error)
    return _with_graph_warnings(SignReport(target=target, data=read.data))


def _with_graph_warnings(report: SignReport) -> SignReport:
    if report.error:
        return report
    found = graph_warnings(ReadItem(report.target, report.data))
    return replace(report, warnings=(*report.warnings, *found))


def single_answer(report: SignReport) -> Answer:
    """The answer about one item."""
    target, signature = report.target, report.signature
    if report.error:
        failed = error_answer(report.error)
        return Answer({**failed.envelope, "path": str(target.path)}, failed.exit_status)
    described: dict[str, Any] = {
        "status": "signed" if signature else "validation_passed",
        "item_id": target.ref.id if target.ref else None,
        "ref": str(target.ref) if target.ref else None,
        "path": str(target.path),
        "location": target.space.label,
        "unchanged": report.unchanged,
        "warnings": list(report.warnings),
        "message": _message(report),
    }
    if signature:
        described["signature"] = {
            "timestamp": signature.timestamp,
            "hash": signature.content_hash,
            "key_fingerprint": signature.fingerprint,
            "valid": True,
        }
    return Answer(described)


def _message(report: SignReport) -> str:
    label = report.target.label
    if report.signature is None:
        return f"{label} can be signed"
    if report.unchanged:
        return f"{label} is signed already, by {report.signature.fingerprint}"
    return f"signed {label} with {report.signature.fingerprint}"


def batch_answer(reports: Sequence[SignReport], total: int, *, dry_run: bool) -> Answer:
    """The answer about several items: an error only if none of them is good."""
    done = [r.target.label for r in reports if not r.error and not r.unchanged]
    failed = [_failure(report, report.error) for report in reports if report.error]
    good = len(reports) - len(failed)
    verb, count = ("Checked", good) if dry_run else ("Signed", len(done))
    before = "" if dry_run or good == count else f", {good - count} signed already"
    summary = f"{verb} {count}/{total} items{before}, {len(failed)} failed"
    if len(reports) < total:
        summary += f", cancelled before the other {total - len(reports)}"
    envelope: dict[str, Any] = {
        "status": "completed" if good else "error",
        "signed": [] if dry_run else done,
        "unchanged": [r.target.label for r in reports if r.unchanged],
        "failed": failed,
        "total": total,
        "summary": summary,
    }
    if dry_run:
        envelope["valid"] = done
    if not good:
        envelope |= {"error": summary, "code": failed[0]["code"] if failed else "CANCELLED"}
    return Answer(envelope, 1 if failed else 0)


def _failure(report: SignReport, error: LilluxError) -> dict[str, Any]:
    described = {"item": report.target.label, **error_envelope(error)}
    if "details" in described:
        described["details"] = described["details"][:MAX_DETAILS]
    return described
