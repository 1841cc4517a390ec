"""Collects the files that a run has written into the user's store, after the run has ended.

No secret of the run is stored: it is masked before. There is room for all of it, or nothing is
stored at all.
"""

import logging
import os
import stat
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

from lillux.canonical_json import canonical_json, compute_integrity
from lillux.digests import sha256_hex
from lillux.errors import LilluxError
from lillux.files import read_bytes, write_atomic
from lillux.redaction import Redaction
from lillux.store import Durability, Store
from lillux.store_layout import ObjectKind, is_digest
from lillux.values import dataclass, replace
from rye_services.node.store.objects import Usage
from rye_services.node.store.push import MAX_PATHS
from rye_services.node.worker.redaction import shortened
from rye_services.node.worker.workspaces import Checkout
from ryeos.items.refs import Kind
from ryeos.sync.admission import problem_of
from ryeos.sync.contents import ContentStore
from ryeos.sync.entries import MAX_ENTRY_BYTES
from ryeos.sync.objects import ExecutionSnapshot, OutputsBundle, SourceManifest
from ryeos.sync.paths import (
    Neighbours,
    UnsafeManifestError,
    is_link,
    path_problem,
    require_safe_paths,
)
from ryeos.sync.rules import ManifestRules, NameRules
from ryeos.sync.stat_table import StatTable
from ryeos.sync.tree import Tree, build_project_tree
from ryeos.sync.tree_walk import SkippedFile
from ryeos.trust.signature import MAX_ITEM_BYTES, Identity, decode, form_for, split
from ryeos.trust.signing_key import SigningKey

# --- sound trees ----------------------------------------------------------------------------------
# What a run has made of a project, without what no manifest may have: it is left out and named.
#
# A head that the next push or execution refuses would be the end of the project on this node.


@dataclass(frozen=True, slots=True)
class AdmissibleTree:
    """A tree whose manifest any node and client takes, and what was left out for that."""

    tree: Tree
    left_out: tuple[SkippedFile, ...]


def admissible_tree(
    tree: Tree, base: SourceManifest, untouched: AbstractSet[str]
) -> AdmissibleTree:
    """The tree with those files of ``base`` that the run left alone, or put something unsound at.

    ``untouched`` are paths of ``base`` that the tree does not have though their files are there.
    """
    skipped = [one for one in tree.skipped if one.path not in untouched]
    now = {*tree.manifest.items, *tree.manifest.files}
    kept = {*untouched, *_hidden_paths(base, skipped)} - now
    known = {*base.items, *base.files}
    # The base is sound, and so is any part of it.
    left_out = list(_unsound(now | kept, known, tree.manifest)) if now - known else []
    refused = {one.path for one in left_out}
    if not kept and not refused:
        return AdmissibleTree(tree, tuple(skipped))
    manifest = SourceManifest(
        "project",
        _join_entries(base.items, kept, tree.manifest.items, refused),
        _join_entries(base.files, kept, tree.manifest.files, refused),
    )
    return AdmissibleTree(tree.with_manifest(manifest), (*skipped, *left_out))


def _hidden_paths(base: SourceManifest, skipped: Iterable[SkippedFile]) -> set[str]:
    """Paths of the base at which there is something else now that cannot travel, or below it."""
    places = {one.path.rstrip("/") for one in skipped}
    if not places:
        return set()
    return {path for path in (*base.items, *base.files) if not places.isdisjoint(_way_to(path))}


def _way_to(path: str) -> Iterable[str]:
    """The path, and each folder that it is in."""
    while path:
        yield path
        path = path.rpartition("/")[0]


def _unsound(
    paths: AbstractSet[str], known: AbstractSet[str], manifest: SourceManifest
) -> Iterable[SkippedFile]:
    """What cannot be beside the others; of two that were not known, the later one."""
    beside = Neighbours()
    count = 0
    for path in sorted(paths, key=lambda path: (path not in known, path)):
        problem = "" if path in known else _problem(path, manifest)
        if not problem and count == MAX_PATHS:
            problem = f"expected at most {MAX_PATHS} files"
        problem = problem or beside.add(path)
        if problem:
            yield SkippedFile(path, problem)
        else:
            count += 1


def _problem(path: str, manifest: SourceManifest) -> str:
    return path_problem(path) or problem_of(path, is_item=path in manifest.items)


def _join_entries(
    base: Mapping[str, str],
    kept: AbstractSet[str],
    now: Mapping[str, str],
    refused: AbstractSet[str],
) -> dict[str, str]:
    found = {path: digest for path, digest in base.items() if path in kept} | dict(now)
    return {path: digest for path, digest in found.items() if path not in refused}


# --- local objects --------------------------------------------------------------------------------
# What an execution has put into the store of its checkout, on its way into that of the user.
#
# Everything is hashed again. Where a secret is found in it, it is masked, and so has another
# digest: then all that names it is written anew as well, so that nothing leads to what is not
# there.


@dataclass(frozen=True, slots=True)
class PromotedContent:
    """What was put into the user's store.

    new        digests that were not there before, ``new_bytes`` of them
    renamed    digests of the checkout that have another one now
    """

    new: tuple[str, ...]
    new_bytes: int
    renamed: Mapping[str, str]

    def renamed_in(self, data: bytes) -> bytes:
        """A text with the digests that its objects have now."""
        for old, new in self.renamed.items():
            data = data.replace(old.encode(), new.encode())
        return data


def stored_bytes(local: Store) -> int:
    """How much there is to promote."""
    return sum(stored.size for space in ObjectKind for stored in local.stored(space))


def promote(local: Store, store: ContentStore, redaction: Redaction) -> PromotedContent:
    """Put all of a checkout's store into the user's.

    Raises ObjectChangedError for what is not what its name says, ObjectUnreadableError, and what
    else a store raises.
    """
    blobs = [stored.digest for stored in local.stored(ObjectKind.BLOB)]
    objects = [stored.digest for stored in local.stored(ObjectKind.OBJECT)]
    renamed = _renamed_digests(local, blobs, objects, redaction) if redaction.is_needed else {}
    new, new_bytes = [], 0
    for digest in blobs:
        is_new = not store.has_blob(renamed.get(digest, digest))
        data = redaction.data(local.get_blob(digest))
        put = store.put_blob(data, Durability.AT_SYNC)
        if is_new:
            new.append(put)
            new_bytes += len(data)
    for digest in objects:
        is_new = not store.has_object(renamed.get(digest, digest))
        value = _rewritten(redaction.value(local.get_object(digest)), renamed)
        put = store.put_object(value, Durability.AT_SYNC)
        if is_new:
            new.append(put)
            new_bytes += store.size(ObjectKind.OBJECT, put) or 0
    return PromotedContent(tuple(new), new_bytes, renamed)


def _renamed_digests(
    local: Store, blobs: Iterable[str], objects: Iterable[str], redaction: Redaction
) -> dict[str, str]:
    """The digests that change, each with its new one.

    What names a renamed object is renamed itself, until nothing changes any more: what is stored
    by its digest cannot lead back to itself.
    """
    renamed: dict[str, str] = {}
    for digest in blobs:
        found = sha256_hex(redaction.data(local.get_blob(digest)))
        if found != digest:
            renamed[digest] = found
    values = {digest: redaction.value(local.get_object(digest)) for digest in objects}
    while True:
        found_now = {
            digest: compute_integrity(_rewritten(value, renamed))
            for digest, value in values.items()
        }
        now = renamed | {old: new for old, new in found_now.items() if old != new}
        if now == renamed:
            return renamed
        renamed = now


def _rewritten(value: Any, renamed: Mapping[str, str]) -> Any:  # noqa: ANN401 - JSON
    if not renamed:
        return value
    match value:
        case str():
            return renamed.get(value, value)
        case dict():
            return {key: _rewritten(one, renamed) for key, one in value.items()}
        case list():
            return [_rewritten(one, renamed) for one in value]
        case _:
            return value


# --- collected outputs ----------------------------------------------------------------------------

LOCAL_STORE = ".ai/state/objects"
_LOCKS = ".ai/lockfiles/"  # they stay where they are made
_NO_STORE = ".none"  # beside the project, where no run can put anything
_AT_SYNC = Durability.AT_SYNC
_GRAPHS = "graphs/"
_MAX_LISTED, _MAX_LISTED_CHARACTERS = 100, 500
_log = logging.getLogger(__name__)
_MAX_WARNINGS = 100
_MAX_OUTSIDE, _NAMED = 1000, 5
# What interpreters and package managers write beside what their user wanted.
_TOOLS_FOLDERS = frozenset({"__pycache__", "node_modules", ".venv", ".git"})
_SPARE_BYTES = 64 * 1024  # objects that are made here, of which the manifest is counted apart


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerRun:
    """A run that has ended.

    base           the manifest that it started from, ``base_hash`` its digest
    rules          which files are part of the project, read before the run
    envelope       what it answered, without secrets
    """

    thread_id: str
    item_ref: str
    workspace: Checkout
    base: SourceManifest
    base_hash: str
    user_manifest_hash: str | None
    rules: ManifestRules
    envelope: Mapping[str, Any]
    system_version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectedOutputs:
    """What is in the user's store now.

    new_objects   digests that the caller has to fetch to have all of it
    masked        paths of the project in which a secret was found
    left_out      files that no manifest may have: what was at their paths before, is there still
    warnings      what was left out, for a person
    """

    manifest_hash: str
    execution_snapshot_hash: str
    outputs_bundle_hash: str | None
    result_hash: str
    new_objects: tuple[str, ...]
    masked: tuple[str, ...]
    left_out: tuple[SkippedFile, ...] = ()
    warnings: tuple[str, ...] = ()


def outside(project: Path, rules: ManifestRules, manifest: SourceManifest) -> Iterator[str]:
    """Files of a workspace that are not the project's, and that no rule leaves out on purpose."""
    _, excluded = rules.file_rules()
    names = NameRules(rules)
    starts = [""]
    while starts:
        start = starts.pop()
        with suppress(OSError):  # gone, or too far down
            for entry in sorted(os.scandir(project / start), key=lambda one: one.name):
                path = f"{start}{entry.name}"
                if entry.is_dir(follow_symlinks=False):
                    is_known = path == ".ai" or entry.name in _TOOLS_FOLDERS
                    if not is_known and not excluded.match(f"{path}/"):
                        starts.append(f"{path}/")
                elif path not in manifest.files and not (
                    names.forbids(entry.name) or excluded.match(path)
                ):
                    yield path


class OutputCollector:
    """Takes runs of one user in."""

    def __init__(
        self,
        *,
        user_id: str,
        store: ContentStore,
        usage: Usage,
        max_bytes: int,
        key: SigningKey,
        redaction: Redaction,
    ) -> None:
        self._user_id, self._store, self._usage = user_id, store, usage
        self._max_bytes, self._key, self._redaction = max_bytes, key, redaction
        self._new: dict[str, None] = {}
        self._written = 0
        self._warnings: dict[str, None] = {}

    def collect_outputs(self, ran: WorkerRun) -> CollectedOutputs:
        """Take in what a run has left. Where every file is as it was, only what became of it.

        (1) The files that changed; (2) secrets in them are masked, pages signed. (3) Room for all
        of it. (4) The objects of the run. (5) What became of it. (6) Its outputs. (7) The files
        that changed, and the manifest.

        Raises QuotaExceededError, RyeError `CONFLICT`, ObjectChangedError, FileSystemError.
        """
        if _is_untouched(ran.workspace):
            return self.keep_result(ran)
        project = ran.workspace.project
        sound = self._tree(ran)  # (1)
        sound, masked = self._redacted_tree(sound, ran)  # (2)
        tree = sound.tree
        self._warn_of_what_stays(ran, tree.manifest)
        changed = changed_paths(ran.base, tree.manifest)
        local, outputs = local_store(project), self._output_files(project)
        reserved = self._reserve(tree, changed, local, outputs.values(), ran)  # (3)
        try:
            stored = self._stored(
                ran, tree, changed=changed, masked=masked, local=local, outputs=outputs
            )
            return replace(stored, left_out=self._first_left_out(sound.left_out))
        finally:
            self._usage.add(self._user_id, self._written - reserved, store=self._store)

    def keep_result(self, ran: WorkerRun) -> CollectedOutputs:
        """Take in nothing of the files that a run has left, only what became of it.

        Raises QuotaExceededError, FileSystemError.
        """
        reserved = len(canonical_json(dict(ran.envelope))) + _SPARE_BYTES
        self._usage.reserve(self._user_id, reserved, max_bytes=self._max_bytes, store=self._store)
        try:
            result_hash = self._put_result(ran)
            snapshot_hash = self._made_here(ran)
        finally:
            self._usage.add(self._user_id, self._written - reserved, store=self._store)
        return CollectedOutputs(
            manifest_hash=ran.base_hash,
            execution_snapshot_hash=snapshot_hash,
            outputs_bundle_hash=None,
            result_hash=result_hash,
            new_objects=tuple(self._new),
            masked=(),
        )

    def _stored(
        self,
        ran: WorkerRun,
        tree: Tree,
        *,
        changed: Sequence[str],
        masked: tuple[str, ...],
        local: Store,
        outputs: Iterable[str],
    ) -> CollectedOutputs:
        promoted = promote(local, self._store, self._redaction)  # (4)
        self._note(promoted)
        result_hash = self._put_result(ran)
        snapshot_hash = self._execution(ran, local, promoted)  # (5)
        bundle_hash = self._outputs(ran, outputs, promoted, snapshot_hash)  # (6)
        manifest_hash = ran.base_hash
        if changed:  # (7)
            self._put_tree(tree, changed)
            manifest_hash = self._put_object(tree.manifest.as_object())
        return CollectedOutputs(
            manifest_hash=manifest_hash,
            execution_snapshot_hash=snapshot_hash,
            outputs_bundle_hash=bundle_hash,
            result_hash=result_hash,
            new_objects=tuple(self._new),
            masked=masked,
            warnings=tuple(self._warnings)[:_MAX_WARNINGS],
        )

    def _first_left_out(self, left_out: Sequence[SkippedFile]) -> tuple[SkippedFile, ...]:
        """For a caller: the first ones, in text that JSON can carry, without secrets."""
        if len(left_out) > _MAX_LISTED:
            _log.warning("%s files left out, %s are named", len(left_out), _MAX_LISTED)
        return tuple(
            SkippedFile(self._redacted_text(one.path), self._redacted_text(one.problem))
            for one in left_out[:_MAX_LISTED]
        )

    def _redacted_text(self, text: str) -> str:
        data = self._redaction.data(text.encode("utf-8", "backslashreplace"))
        return data.decode("utf-8", "replace")[:_MAX_LISTED_CHARACTERS]

    def _redacted_tree(
        self, sound: AdmissibleTree, ran: WorkerRun
    ) -> tuple[AdmissibleTree, tuple[str, ...]]:
        """The tree without secrets and with signed pages, and where secrets were."""
        project = ran.workspace.project
        masked, signed, tree = [], False, sound.tree
        for path in changed_paths(ran.base, tree.manifest):
            if path not in tree.manifest.items and path not in tree.manifest.files:
                continue
            if self._redaction.is_needed and self._mask(project / path):
                masked.append(path)
            signed = sign_page(project, path, self._key) or signed
        if masked or signed:
            sound = self._tree(ran)
        return sound, tuple(masked)

    def _tree(self, ran: WorkerRun) -> AdmissibleTree:
        """The project after the run, with files that the rules leave out and the run left alone.

        Another client may take more files for the project's than our rules do: what it pushed must
        not seem to be removed by every run. What no manifest may have is left out.
        """
        project = ran.workspace.project
        tree = build_project_tree(project, ran.rules, ran.workspace.table)
        kept = untouched(ran.base, tree.manifest, project, ran.workspace.written)
        return self._without_telling_names(admissible_tree(tree, ran.base, kept), ran.base)

    def _without_telling_names(self, sound: AdmissibleTree, base: SourceManifest) -> AdmissibleTree:
        """Without files whose names hold a secret."""
        found = sound.tree.manifest
        if found == base:
            return sound
        manifest = SourceManifest(
            "project",
            {
                path: one
                for path, one in found.items.items()
                if self._may_be_named(path, base.items)
            },
            {
                path: one
                for path, one in found.files.items()
                if self._may_be_named(path, base.files)
            },
        )
        if manifest == found:
            return sound
        return replace(sound, tree=sound.tree.with_manifest(manifest))

    def _warn_of_what_stays(self, ran: WorkerRun, manifest: SourceManifest) -> None:
        """Warn of files of a run that are lost with its workspace, as no rule keeps them."""
        found = list(islice(outside(ran.workspace.project, ran.rules, manifest), _MAX_OUTSIDE))
        if not found:
            return
        named = ", ".join(f"{self._redaction.text(shortened(path))!a}" for path in found[:_NAMED])
        more = f" and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
        words = (
            f"written, and not kept: {named}{more}; sync.include of config/cas/manifest.yaml says"
        )
        self._warnings[f"{words} which files outside of .ai belong to the project"] = None

    def _output_files(self, project: Path) -> dict[str, int]:
        found = output_files(project, self._warn)
        return {path: size for path, size in found.items() if self._may_be_named(path, ())}

    def _may_be_named(self, path: str, known: Container[str]) -> bool:
        """Whether no secret is in the name of a file, or the user had given it that name."""
        if path in known or self._redaction.text(path) == path:
            return True
        self._warn(path, "a secret is in its name")
        return False

    def _warn(self, path: str, problem: str) -> None:
        self._warnings[f"left out: {self._redaction.text(shortened(path))!a}: {problem}"] = None

    def _mask(self, path: Path) -> bool:
        data = read_bytes(path, MAX_ENTRY_BYTES * 8)
        clean = self._redaction.data(data)
        if clean == data:
            return False
        write_atomic(path, clean)
        return True

    def _reserve(
        self,
        tree: Tree,
        changed: Iterable[str],
        local: Store,
        outputs: Iterable[int],
        ran: WorkerRun,
    ) -> int:
        here = (tree.root / path for path in changed)
        files = sum(path.stat().st_size + 1024 for path in here if path.is_file())
        manifest = len(tree.manifest_data) if files else 0
        result = len(canonical_json(dict(ran.envelope)))
        needed = files + manifest + result + stored_bytes(local) + sum(outputs) + _SPARE_BYTES
        self._usage.reserve(self._user_id, needed, max_bytes=self._max_bytes, store=self._store)
        return needed

    def _execution(self, ran: WorkerRun, local: Store, promoted: PromotedContent) -> str:
        """The execution snapshot: that of the graph, else one that is made here."""
        newest = _newest_graph(local)
        digest = promoted.renamed.get(newest, newest)
        if digest and self._store.has_object(digest):
            self._new[digest] = None
            return digest
        return self._made_here(ran)

    def _made_here(self, ran: WorkerRun) -> str:
        envelope = ran.envelope
        error = envelope.get("error")
        snapshot = ExecutionSnapshot(
            graph_run_id=ran.thread_id,
            graph_id=ran.item_ref,
            project_manifest_hash=ran.base_hash,
            user_manifest_hash=ran.user_manifest_hash,
            system_version=ran.system_version,
            status=str(envelope.get("status", "error")),
            errors=({"message": shortened(str(error)), "phase": "execution"},) if error else (),
        )
        return self._put_object(snapshot.as_object())

    def _outputs(
        self, ran: WorkerRun, outputs: Iterable[str], promoted: PromotedContent, snapshot_hash: str
    ) -> str | None:
        files = {}
        for relative in outputs:
            data = read_bytes(ran.workspace.project / relative, MAX_ENTRY_BYTES)
            files[relative] = self._put_blob(promoted.renamed_in(self._redaction.data(data)))
        if not files:
            return None
        bundle = OutputsBundle(ran.thread_id, snapshot_hash, files)
        return self._put_object(bundle.as_object())

    def _put_result(self, ran: WorkerRun) -> str:
        value = {"schema": 2, "kind": "node_result", "result": dict(ran.envelope)}
        return self._put_object(value, is_for_caller=False)

    def _put_tree(self, tree: Tree, changed: Iterable[str]) -> None:
        for path in changed:
            if path in tree.manifest.items:
                digest = tree.manifest.items[path]
                value = tree.get_object(digest)
                self._put_object(value)
                self._put_blob(tree.get_blob(value["content_blob_hash"]))
            elif path in tree.manifest.files:
                self._put_blob(tree.get_blob(tree.manifest.files[path]))

    def _put_blob(self, data: bytes) -> str:
        if not self._store.has_blob(sha256_hex(data)):
            self._written += len(data)
        digest = self._store.put_blob(data, _AT_SYNC)
        self._new[digest] = None
        return digest

    def _put_object(self, value: Any, *, is_for_caller: bool = True) -> str:  # noqa: ANN401 - JSON
        data = canonical_json(value)
        if not self._store.has_object(sha256_hex(data)):
            self._written += len(data)
        digest = self._store.put_object(value, _AT_SYNC)
        if is_for_caller:
            self._new[digest] = None
        return digest

    def _note(self, promoted: PromotedContent) -> None:
        self._written += promoted.new_bytes
        self._new |= dict.fromkeys(promoted.new)


def _is_untouched(workspace: Checkout) -> bool:
    """Whether a run has changed no file, and left none but those of the engine itself."""
    try:
        found = workspace.differences()
    except LilluxError as error:  # what it has left cannot even be looked at
        _log.info("%s", error)
        return False
    return not found.changed and all(path.startswith(_LOCKS) for path in found.removed)


def local_store(project: Path) -> Store:
    """The store that a run has left; an empty one where it has left none of its own."""
    if is_own(project, LOCAL_STORE):
        return Store(project / LOCAL_STORE)
    return Store(project.parent / _NO_STORE)


def changed_paths(base: SourceManifest, now: SourceManifest) -> list[str]:
    """Paths that were added, changed or removed, sorted."""
    if base == now:
        return []
    before, after = {**base.files, **base.items}, {**now.files, **now.items}
    differing = {path for path, digest in after.items() if before.get(path) != digest}
    return sorted(differing | (before.keys() - after.keys()))


def untouched(
    base: SourceManifest, now: SourceManifest, project: Path, written: StatTable
) -> frozenset[str]:
    """Paths that are in the first manifest only, and whose files are as they were written."""
    missing = (base.items.keys() - now.items.keys()) | (base.files.keys() - now.files.keys())
    missing -= now.items.keys() | now.files.keys()
    found = set()
    for path in missing:
        try:
            status = (project / path).lstat()
        except OSError:
            continue
        if written.entry(path, status) is not None:
            found.add(path)
    return frozenset(found)


def _newest_graph(local: Store) -> str:
    """The snapshot that the last graph run has left, ``""`` if absent."""
    newest, found = 0.0, ""
    try:
        for name, value in local.refs(_GRAPHS):
            path = local.root / "refs" / f"{name}.json"
            modified = path.stat().st_mtime
            if modified >= newest and is_digest(value.get("hash")):
                newest, found = modified, str(value["hash"])
    except (LilluxError, OSError):  # a run may leave anything there
        return found
    return found


# --- outputs --------------------------------------------------------------------------------------
# What a run leaves beside the project's own files: transcripts, pages of knowledge, refs.
#
# A client writes them back into its project, so nothing is taken that would overwrite what is its
# own there: no registry, no lock, no object of a store. Rules: ``docs/node.md``, Outputs.

STATE, PAGES, REFS = ".ai/state/", ".ai/knowledge/state/", ".ai/state/objects/refs/"
MAX_FILES = 10_000
_OBJECTS = ".ai/state/objects/"
_OWN = (".ai/state/threads/registry.db", ".ai/state/remote/", ".ai/state/approvals")
_OWN_SUFFIXES = (".lock", ".tmp", ".db-wal", ".db-shm", "/.gitignore", ".key", ".pem")


def is_output(relative: str) -> bool:
    """Whether a file of this path is an output, if it is a plain file."""
    if not relative.startswith((STATE, PAGES)):
        return False
    if relative.startswith(_OBJECTS) and not relative.startswith(REFS):
        return False
    return not relative.startswith(_OWN) and not relative.endswith(_OWN_SUFFIXES)


def is_own(root: Path, folder: str) -> bool:
    """Whether a folder is there, and no part of the way to it from ``root`` is a link.

    A run may have put a link where a folder was, to have the node read what is not its own.
    """
    path = root
    try:
        for name in folder.split("/"):
            path /= name
            status = os.lstat(path)
            if is_link(status) or not stat.S_ISDIR(status.st_mode):
                return False
    except OSError:
        return False
    return True


def output_files(project: Path, warn: Callable[[str, str], object]) -> dict[str, int]:
    """The outputs below a project and their sizes, sorted; no link is followed.

    What could not travel is left out; ``warn`` gets its path and why.
    """
    found: dict[str, int] = {}
    for folder in (STATE.rstrip("/"), PAGES.rstrip("/")):
        for relative, size in sorted(_files(project, folder) if is_own(project, folder) else ()):
            if not is_output(relative):
                continue
            if size > MAX_ENTRY_BYTES:
                warn(relative, f"expected at most {MAX_ENTRY_BYTES} bytes, found {size}")
            elif len(found) == MAX_FILES:
                warn(relative, f"expected at most {MAX_FILES} outputs, found more")
            elif not _is_safe(relative):
                warn(relative, "not every machine can hold a file of this name")
            else:
                found[relative] = size
    return found


def _files(root: Path, top: str) -> Iterator[tuple[str, int]]:
    """The plain files of a folder, however deep."""
    waiting = [top]
    while waiting:
        folder = waiting.pop()
        try:
            names = sorted(path.name for path in (root / folder).iterdir())
        except OSError:  # also what is too deep to be named
            continue
        for name in names:
            relative = f"{folder}/{name}"
            try:
                status = os.lstat(root / relative)
            except OSError:
                continue
            if is_link(status):
                continue
            if stat.S_ISDIR(status.st_mode):
                waiting.append(relative)
            elif stat.S_ISREG(status.st_mode) and status.st_nlink == 1:
                yield relative, status.st_size


def _is_safe(relative: str) -> bool:
    """Whether any machine can hold a file of this name. All outputs are below ``.ai/state``."""
    try:
        require_safe_paths([relative.removeprefix(".ai/state/").removeprefix(".ai/knowledge/")])
    except (UnsafeManifestError, ValueError):
        return False
    return True


def sign_page(project: Path, relative: str, key: SigningKey) -> bool:
    """Sign a page of knowledge that a run has written; False when there is nothing to be signed.

    A page that is signed already stays as it is, and so does one that cannot be.
    """
    if not (relative.startswith(PAGES) and relative.endswith(".md")):
        return False
    path = project / relative
    try:
        form = form_for(Kind.KNOWLEDGE, ".md", relative)
        signed = split(decode(read_bytes(path, MAX_ITEM_BYTES), relative), form, relative)
        if signed.signature is not None:
            return False
        identity = Identity(
            Kind.KNOWLEDGE.value, relative[len(".ai/knowledge/") : -len(".md")], "md"
        )
        text = key.signed_text(Kind.KNOWLEDGE, signed, form, relative, identity)
        write_atomic(path, text.encode())
    except (LilluxError, FileNotFoundError) as error:
        _log.warning("page not signed: %s", error)
        return False
    return True
