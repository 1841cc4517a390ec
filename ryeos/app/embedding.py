"""Rye as a library: ``import ryeos`` gives these names, late. Page: ``docs/running.md``.

What a host program calls runs with the rights of that program's user, as ``rye run`` does.
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lillux.cancellation import Cancellation
from lillux.store import Store
from lillux.store_layout import ObjectKind
from lillux.values import dataclass, replace
from ryeos import __version__
from ryeos.app.workspace import Rye
from ryeos.items.context import context_from
from ryeos.items.errors import IntegrityError, ItemNotFoundError, RyeError
from ryeos.items.refs import Kind, Location, Reference, parse_reference
from ryeos.run import engine
from ryeos.run.model import ChainElement, ExecutionRequest, ExecutionResult
from ryeos.trust.bundles import discover, embedded_bundle, own_bundle
from ryeos.trust.installed_bundles import installed_bundles

if TYPE_CHECKING:
    from ryeos.items.refs import Space
    from ryeos.remote.settings import RemoteConfig


def open_workspace(
    path: str | os.PathLike[str] | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    user_space: str | None = None,
    bundle: "Space | None" = None,
) -> Rye:
    """The workspace of a project folder, for a ``with``, or `Rye.close` it.

    path        the folder; without one the project that ``rye`` finds from the working directory
    environ     the environment that tools get and settings come from; that of this process
    user_space  the folder whose ``.ai`` is the user's; the home
    bundle      the items of Rye itself; those of the installed package

    Raises RyeError `NO_PROJECT` or `CONFIG_ERROR`, FileSystemError.
    """
    env = dict(os.environ if environ is None else environ)
    spaces = (
        discover(embedded_bundle(Path(own_bundle().locate()), __version__), env)
        if bundle is None
        else (bundle,)
    )
    folder = None if path is None else Path(path).absolute()
    context = context_from(
        env,
        cwd=folder or Path.cwd(),
        project=str(folder) if folder else None,
        user_space=user_space,
        bundles=spaces,
    )
    if bundle is None:
        installed = installed_bundles(context.spaces.user, {one.label for one in spaces})
        context = replace(context, spaces=replace(context.spaces, bundles=(*spaces, *installed)))
    return Rye(context)


@dataclass(frozen=True, slots=True)
class CacheEntry:
    """A chain that is remembered: ``[tool, ..., primitive]``, and the digest of all its files."""

    chain: list[ChainElement]
    combined_hash: str


class PrimitiveExecutor:
    """Runs tools of a workspace by their ids. Names of the first packages are kept."""

    PRIMITIVE_MAP = engine.PrimitiveExecutor.PRIMITIVE_MAP
    MAX_CHAIN_DEPTH = engine.PrimitiveExecutor.MAX_CHAIN_DEPTH

    def __init__(self, workspace: Rye) -> None:
        self._workspace = workspace

    def execute(
        self,
        item_id: str,
        parameters: Mapping[str, Any] | None = None,
        *,
        validate_chain: bool = True,
        use_lockfile: bool = True,
        trace: bool = False,
        cancellation: Cancellation | None = None,
    ) -> ExecutionResult:
        """Run a tool. All failures are in the result: ``success``, ``error``, ``failure``.

        ``validate_chain`` checks the spaces, inputs and versions of neighbours in the chain first.
        ``use_lockfile`` compares the chain with its lockfile, and writes one after a first success.
        The signatures are always verified: nothing turns that off.
        """
        try:
            reference = parse_reference(item_id, Kind.TOOL.value)
        except RyeError as error:
            return ExecutionResult(success=False, error=str(error), failure=error)
        request = ExecutionRequest(
            item_id=reference.id,
            parameters=dict(parameters or {}),
            validate_chain=validate_chain,
            use_lockfile=use_lockfile,
            trace=trace,
        )
        return self._workspace.executor.execute(request, cancellation=cancellation)

    def invalidate_tool(self, item_id: str) -> None:
        """Forget every chain that an item is part of."""
        self._workspace.executor.invalidate_tool(item_id)

    def clear_caches(self) -> None:
        """Forget everything remembered between calls."""
        self._workspace.executor.clear_caches()

    def get_cache_stats(self) -> dict[str, int]:
        """The number of entries that each cache has."""
        return self._workspace.executor.get_cache_stats()

    def _build_chain(self, item_id: str, *, force_refresh: bool = False) -> list[ChainElement]:
        """The verified elements of a tool, the primitive last. Raises RyeError."""
        tool = parse_reference(item_id, Kind.TOOL.value)
        chain = self._workspace.executor.build_chain(tool.id, force_refresh=force_refresh)
        return list(chain.elements)

    def _resolve_tool_path(self, item_id: str) -> tuple[Path, str] | None:
        """The file of a tool, not verified, and its space; None where no space has it."""
        found = _find(self._workspace, Reference(Kind.TOOL, item_id))
        return (found.path, found.space.label) if found else None

    @property
    def _chain_cache(self) -> dict[str, CacheEntry]:
        """The chains that are remembered, by the id of their tool: a copy."""
        return {
            item_id: CacheEntry(list(chain.elements), chain.digest)
            for item_id, chain in self._workspace.executor.chains.items()
        }


class _KindResolver:
    """Finds items of one kind: project, then user, then bundles."""

    kind: Kind

    def __init__(self, workspace: Rye) -> None:
        self._workspace = workspace

    def resolve(self, item_id: str) -> Path | None:
        """The file of an item, not verified; None where no space has it. Raises InvalidRefError."""
        found = _find(self._workspace, Reference(self.kind, item_id))
        return found.path if found else None


def _find(workspace: Rye, reference: Reference) -> Location | None:
    """The place of an item; None where no space has it. Raises InvalidRefError."""
    try:
        return workspace.resolver.resolve(reference).location
    except ItemNotFoundError:
        return None


class ToolResolver(_KindResolver):
    """Finds tools."""

    kind = Kind.TOOL


class DirectiveResolver(_KindResolver):
    """Finds directives."""

    kind = Kind.DIRECTIVE


class KnowledgeResolver(_KindResolver):
    """Finds knowledge."""

    kind = Kind.KNOWLEDGE


@dataclass(frozen=True, slots=True)
class ItemSignature:
    """The signer of an item, and its text. ``fingerprint`` is None for an item of a manifest."""

    ref: str
    content_hash: str
    fingerprint: str | None


class MetadataManager:
    """Signatures and hashes of the items of a workspace."""

    def __init__(self, workspace: Rye) -> None:
        self._workspace = workspace

    def verify(self, item: str) -> ItemSignature:
        """Verify an item by its reference. Raises IntegrityError and similar, ItemNotFoundError."""
        reference = parse_reference(item)
        resolution, found = self._workspace.load(reference)
        key = found.key.fingerprint if found.key else None
        return ItemSignature(str(resolution.location.ref), found.content_hash, key)

    def sign(self, item: str) -> ItemSignature:
        """Sign an item of the project with the user's key, and verify it.

        Raises ItemValidationError, NoSigningKeyError, SystemImmutableError.
        """
        from ryeos.app.sign import sign_targets, signing

        here, targets, _ = sign_targets(self._workspace, {"item_id": item})
        reports = list(signing(here, targets, dry_run=False, force=False))
        for report in reports:
            if report.error:
                raise report.error
        return self.verify(str(reports[0].target.ref or item))


# What a node answers under the same names, for a store of this machine: `ryeos.sync.entries`.


def has_objects(hashes: Sequence[str], root: str | os.PathLike[str]) -> dict[str, list[str]]:
    """The digests that a store has, as object or blob: ``{"present": [...], "missing": [...]}``."""
    store = Store(Path(root))
    found = {one: store.has_object(one) or store.has_blob(one) for one in hashes}
    return {
        "present": [one for one, is_there in found.items() if is_there],
        "missing": [one for one, is_there in found.items() if not is_there],
    }


def get_objects(
    hashes: Sequence[str], root: str | os.PathLike[str]
) -> dict[str, list[dict[str, str]]]:
    """The content of a store as entries: ``{"entries": [...]}``. What is not there is left out.

    Raises ObjectChangedError.
    """
    from ryeos.sync.entries import encode, export_entries

    return {"entries": [encode(one) for one in export_entries(hashes, Store(Path(root)))]}


def put_objects(
    entries: Iterable[Mapping[str, str]], root: str | os.PathLike[str]
) -> dict[str, list[str]]:
    """Keep entries in a store: ``{"stored": [...]}``. Raises as `import_objects`, which keeps."""
    return {"stored": import_objects(entries, root)}


def collect_object_hashes(manifest: Mapping[str, Any], root: str | os.PathLike[str]) -> list[str]:
    """Each digest that a manifest leads to, once: its items, their content, its files.

    What is not in the store is named all the same. Raises ObjectChangedError.
    """
    from lillux.store_errors import ObjectMissingError
    from ryeos.sync.references import references_of

    store = Store(Path(root))
    waiting, found = list(references_of(dict(manifest))), dict[str, None]()
    while waiting:
        reference = waiting.pop()
        if reference.digest in found:
            continue
        found[reference.digest] = None
        if reference.space is not ObjectKind.BLOB:
            with suppress(ObjectMissingError):
                waiting.extend(references_of(store.get_object(reference.digest)))
    return list(found)


def export_objects(hashes: Sequence[str], root: str | os.PathLike[str]) -> list[dict[str, str]]:
    """The objects and blobs of a store as entries for a node: ``{hash, kind, data}``, in base64.

    Raises ObjectMissingError for one that is not there, ObjectChangedError.
    """
    missing = has_objects(hashes, root)["missing"]
    if missing:
        Store(Path(root)).get_blob(missing[0])  # raises the error that names it
    return get_objects(hashes, root)["entries"]


def import_objects(entries: Iterable[Mapping[str, str]], root: str | os.PathLike[str]) -> list[str]:
    """Keep entries in a store; their digests. One that is not what its hash says keeps none.

    Raises IntegrityError, ObjectTooLargeError, FileSystemError.
    """
    from ryeos.sync.entries import decode
    from ryeos.sync.object_shapes import EntryError

    try:
        checked = [decode(entry) for entry in entries]
    except EntryError as error:
        raise IntegrityError(f"entry {error.digest[:80]}", error.problem) from None
    store = Store(Path(root))
    store.keep_all([(ObjectKind(one.kind), one.digest, one.data) for one in checked])
    return [one.digest for one in checked]


def resolve_remote(name: str | None, project_path: str | os.PathLike[str]) -> "RemoteConfig":
    """A configured node: its address and key.

    Raises RemoteNotFoundError, RemoteConfigError, RyeError `REMOTE_NOT_APPROVED`.
    """
    from ryeos.remote.link import RemoteEnvironment, remotes_of

    return remotes_of(RemoteEnvironment(workspace=open_workspace(project_path))).resolve(name)
