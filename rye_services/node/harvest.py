"""What a run has left in its workspace, taken into the user's store once nothing of it runs.

No secret of the run is stored: it is masked before. There is room for all of it, or nothing is
stored at all.
"""

import logging
from collections.abc import Container, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from lillux.digests import canonical_json, sha256_hex
from lillux.errors import LilluxError
from lillux.files import read_bytes, write_atomic
from lillux.store import Durability, Store
from lillux.store_files import is_digest
from lillux.values import dataclass, replace
from rye_services.node.local_objects import Promoted, promote, stored_bytes
from rye_services.node.outputs import is_own, output_files, sign_page
from rye_services.node.presentable import shortened
from rye_services.node.redaction import Redaction
from rye_services.node.sound_trees import Sound, sound_tree
from rye_services.node.usage import Usage
from rye_services.node.workspaces import Workspace
from ryeos.sync.entries import MAX_ENTRY_BYTES
from ryeos.sync.objects import ExecutionSnapshot, OutputsBundle, SourceManifest
from ryeos.sync.paths import Skipped
from ryeos.sync.rules import ManifestRules
from ryeos.sync.tree import StatTable, Tree, build_project_tree
from ryeos.trust.keys import SigningKey

LOCAL_STORE = ".ai/state/objects"
_NO_STORE = ".none"  # beside the project, where no run can put anything
_AT_SYNC = Durability.AT_SYNC
_GRAPHS = "graphs/"
_MAX_TOLD, _MAX_TOLD_CHARACTERS = 100, 500
_log = logging.getLogger(__name__)
_MAX_WARNINGS = 100
_SPARE_BYTES = 64 * 1024  # objects that are made here, of which the manifest is counted apart


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """A run that has ended.

    base           the manifest that it started from, ``base_hash`` its digest
    rules          which files are part of the project, read before the run
    envelope       what it answered, without secrets
    """

    thread_id: str
    item_ref: str
    workspace: Workspace
    base: SourceManifest
    base_hash: str
    user_manifest_hash: str | None
    rules: ManifestRules
    envelope: Mapping[str, Any]
    system_version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Harvest:
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
    left_out: tuple[Skipped, ...] = ()
    warnings: tuple[str, ...] = ()


class Harvester:
    """Takes runs of one user in."""

    def __init__(
        self,
        *,
        user_id: str,
        store: Store,
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

    def harvest(self, ran: Ran) -> Harvest:
        """Take in what a run has left.

        (1) The files that changed; (2) secrets in them are masked, pages signed. (3) Room for all
        of it. (4) The objects of the run. (5) What became of it. (6) Its outputs. (7) The files
        that changed, and the manifest.

        Raises QuotaExceededError, TreeChangedError, ObjectChangedError, FileSystemError.
        """
        project = ran.workspace.project
        sound = self._tree(ran)  # (1)
        sound, masked = self._cleaned(sound, ran)  # (2)
        tree = sound.tree
        changed = changed_paths(ran.base, tree.manifest)
        local, outputs = local_store(project), self._output_files(project)
        reserved = self._reserve(tree, changed, local, outputs.values(), ran)  # (3)
        try:
            stored = self._stored(
                ran, tree, changed=changed, masked=masked, local=local, outputs=outputs
            )
            return replace(stored, left_out=self._told(sound.left_out))
        finally:
            self._usage.add(self._user_id, self._written - reserved, store=self._store)

    def refuse(self, ran: Ran) -> Harvest:
        """Take in nothing of what a run has left, only what became of it.

        Raises QuotaExceededError, FileSystemError.
        """
        reserved = len(canonical_json(dict(ran.envelope))) + _SPARE_BYTES
        self._usage.reserve(self._user_id, reserved, max_bytes=self._max_bytes, store=self._store)
        try:
            result_hash = self._put_result(ran)
            snapshot_hash = self._made_here(ran)
        finally:
            self._usage.add(self._user_id, self._written - reserved, store=self._store)
        return Harvest(
            manifest_hash=ran.base_hash,
            execution_snapshot_hash=snapshot_hash,
            outputs_bundle_hash=None,
            result_hash=result_hash,
            new_objects=tuple(self._new),
            masked=(),
        )

    def _stored(
        self,
        ran: Ran,
        tree: Tree,
        *,
        changed: Sequence[str],
        masked: tuple[str, ...],
        local: Store,
        outputs: Iterable[str],
    ) -> Harvest:
        promoted = promote(local, self._store, self._redaction)  # (4)
        self._note(promoted)
        result_hash = self._put_result(ran)
        snapshot_hash = self._execution(ran, local, promoted)  # (5)
        bundle_hash = self._outputs(ran, outputs, promoted, snapshot_hash)  # (6)
        manifest_hash = ran.base_hash
        if changed:  # (7)
            self._put_tree(tree, changed)
            manifest_hash = self._put_object(tree.manifest.as_object())
        return Harvest(
            manifest_hash=manifest_hash,
            execution_snapshot_hash=snapshot_hash,
            outputs_bundle_hash=bundle_hash,
            result_hash=result_hash,
            new_objects=tuple(self._new),
            masked=masked,
            warnings=tuple(self._warnings)[:_MAX_WARNINGS],
        )

    def _told(self, left_out: Sequence[Skipped]) -> tuple[Skipped, ...]:
        """As a caller is told: the first ones, in text that JSON can carry, without secrets."""
        if len(left_out) > _MAX_TOLD:
            _log.warning("%s files left out, %s are named", len(left_out), _MAX_TOLD)
        return tuple(
            Skipped(self._shown(one.path), self._shown(one.problem)) for one in left_out[:_MAX_TOLD]
        )

    def _shown(self, text: str) -> str:
        data = self._redaction.data(text.encode("utf-8", "backslashreplace"))
        return data.decode("utf-8", "replace")[:_MAX_TOLD_CHARACTERS]

    def _cleaned(self, sound: Sound, ran: Ran) -> tuple[Sound, tuple[str, ...]]:
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

    def _tree(self, ran: Ran) -> Sound:
        """The project after the run, with files that the rules leave out and the run left alone.

        Another client may take more files for the project's than our rules do: what it pushed must
        not seem to be removed by every run. What no manifest may have is left out.
        """
        project = ran.workspace.project
        tree = build_project_tree(project, ran.rules, ran.workspace.table)
        kept = untouched(ran.base, tree.manifest, project, ran.workspace.written)
        return self._without_telling_names(sound_tree(tree, ran.base, kept), ran.base)

    def _without_telling_names(self, sound: Sound, base: SourceManifest) -> Sound:
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
        self, tree: Tree, changed: Iterable[str], local: Store, outputs: Iterable[int], ran: Ran
    ) -> int:
        here = (tree.root / path for path in changed)
        files = sum(path.stat().st_size + 1024 for path in here if path.is_file())
        manifest = len(tree.manifest_data) if files else 0
        result = len(canonical_json(dict(ran.envelope)))
        needed = files + manifest + result + stored_bytes(local) + sum(outputs) + _SPARE_BYTES
        self._usage.reserve(self._user_id, needed, max_bytes=self._max_bytes, store=self._store)
        return needed

    def _execution(self, ran: Ran, local: Store, promoted: Promoted) -> str:
        """The execution snapshot: that of the graph, else one that is made here."""
        newest = _newest_graph(local)
        digest = promoted.renamed.get(newest, newest)
        if digest and self._store.has_object(digest):
            self._new[digest] = None
            return digest
        return self._made_here(ran)

    def _made_here(self, ran: Ran) -> str:
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
        self, ran: Ran, outputs: Iterable[str], promoted: Promoted, snapshot_hash: str
    ) -> str | None:
        files = {}
        for relative in outputs:
            data = read_bytes(ran.workspace.project / relative, MAX_ENTRY_BYTES)
            files[relative] = self._put_blob(promoted.renamed_in(self._redaction.data(data)))
        if not files:
            return None
        bundle = OutputsBundle(ran.thread_id, snapshot_hash, files)
        return self._put_object(bundle.as_object())

    def _put_result(self, ran: Ran) -> str:
        value = {"schema": 2, "kind": "node_result", "result": dict(ran.envelope)}
        return self._put_object(value, is_told=False)

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

    def _put_object(self, value: Any, *, is_told: bool = True) -> str:  # noqa: ANN401 - JSON
        data = canonical_json(value)
        if not self._store.has_object(sha256_hex(data)):
            self._written += len(data)
        digest = self._store.put_object(value, _AT_SYNC)
        if is_told:
            self._new[digest] = None
        return digest

    def _note(self, promoted: Promoted) -> None:
        self._written += promoted.new_bytes
        self._new |= dict.fromkeys(promoted.new)


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
    """The snapshot that the last graph run has left, ``""`` for none."""
    newest, found = 0.0, ""
    try:
        for name, value in local.refs(_GRAPHS):
            path = local.root / "refs" / f"{name}.json"
            moment = path.stat().st_mtime
            if moment >= newest and is_digest(value.get("hash")):
                newest, found = moment, str(value["hash"])
    except (LilluxError, OSError):  # a run may leave anything there
        return found
    return found
