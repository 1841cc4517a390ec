"""Rye as a library: ``import ryeos`` gives these names, late. Page: ``docs/running.md``.

What a host program calls runs with the rights of that program's user, as ``rye run`` does.
"""

import os
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lillux.cancellation import Cancellation
from lillux.store import Store
from lillux.store_files import ObjectKind
from lillux.values import dataclass, replace
from ryeos import __version__
from ryeos.app.workspace import Rye
from ryeos.items.context import context_from
from ryeos.items.errors import IntegrityError, ItemNotFoundError
from ryeos.items.refs import Kind, Reference, parse_reference
from ryeos.run.chain import ChainValidator
from ryeos.run.model import ExecutionRequest, ExecutionResult
from ryeos.trust.bundles import discover, embedded_bundle, installed_bundles, own_bundle

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


# --- executor -------------------------------------------------------------------------------------


class PrimitiveExecutor:
    """Runs tools of a workspace by their ids."""

    def __init__(self, workspace: Rye) -> None:
        self._workspace = workspace

    def execute(
        self,
        item_id: str,
        parameters: Mapping[str, Any] | None = None,
        *,
        validate_chain: bool = True,
        trace: bool = False,
        cancellation: Cancellation | None = None,
    ) -> ExecutionResult:
        """Run a tool. Failures are in the result: ``success``, ``error``, ``failure``.

        ``validate_chain`` checks the spaces and versions of neighbours in the chain first. The
        signatures are always verified: nothing turns that off.
        """
        reference = parse_reference(item_id, Kind.TOOL.value)
        if validate_chain:
            chain = self._workspace.executor.build_chain(reference.id)
            found = ChainValidator().validate_chain(chain.elements)
            if not found.valid:
                return ExecutionResult(success=False, error="; ".join(found.issues))
        request = ExecutionRequest(
            item_id=reference.id, parameters=dict(parameters or {}), trace=trace
        )
        return self._workspace.executor.execute(request, cancellation=cancellation)


# --- resolvers ------------------------------------------------------------------------------------


class _KindResolver:
    """Finds items of one kind: project, then user, then bundles."""

    kind: Kind

    def __init__(self, workspace: Rye) -> None:
        self._workspace = workspace

    def resolve(self, item_id: str) -> Path | None:
        """The file of an item, not verified; None where no space has it. Raises InvalidRefError."""
        try:
            found = self._workspace.resolver.resolve(Reference(self.kind, item_id))
        except ItemNotFoundError:
            return None
        return found.location.path


class ToolResolver(_KindResolver):
    """Finds tools."""

    kind = Kind.TOOL


class DirectiveResolver(_KindResolver):
    """Finds directives."""

    kind = Kind.DIRECTIVE


class KnowledgeResolver(_KindResolver):
    """Finds knowledge."""

    kind = Kind.KNOWLEDGE


# --- signatures -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ItemSignature:
    """Who signed an item, and what. ``fingerprint`` is None for an item of a bundle's manifest."""

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


# --- objects --------------------------------------------------------------------------------------


def export_objects(hashes: Sequence[str], root: str | os.PathLike[str]) -> list[dict[str, str]]:
    """The objects and blobs of a store as entries for a node: ``{hash, kind, data}``, in base64.

    Raises DigestError, ObjectMissingError, ObjectChangedError.
    """
    store = Store(Path(root))
    entries = []
    for digest in hashes:
        is_object = store.has_object(digest)
        if is_object:
            data = store.path_of(ObjectKind.OBJECT, digest).read_bytes()
        else:
            data = store.get_blob(digest)
        kind = ObjectKind.OBJECT if is_object else ObjectKind.BLOB
        entries.append(
            {"hash": digest, "kind": kind.value, "data": b64encode(data).decode("ascii")}
        )
    return entries


def import_objects(entries: Iterable[Mapping[str, str]], root: str | os.PathLike[str]) -> list[str]:
    """Keep entries in a store; their digests. One that is not what its hash says keeps none.

    Raises IntegrityError, ObjectTooLargeError, FileSystemError.
    """
    from lillux.digests import sha256_hex

    checked: list[tuple[ObjectKind, str, bytes]] = []
    for entry in entries:
        try:
            digest, kind = str(entry["hash"]), ObjectKind(entry.get("kind", ObjectKind.BLOB.value))
            data = b64decode(entry["data"], validate=True)
        except (KeyError, TypeError, ValueError) as error:
            raise IntegrityError("entry", f"expected hash, kind and base64 data: {error}") from None
        if sha256_hex(data) != digest:
            raise IntegrityError(digest[:80], "the data have another hash")
        checked.append((kind, digest, data))
    store = Store(Path(root))
    for kind, digest, data in checked:
        store.keep(kind, digest, data)
    return [digest for _, digest, _ in checked]


def resolve_remote(name: str | None, project_path: str | os.PathLike[str]) -> "RemoteConfig":
    """A configured node: its address and key.

    Raises RemoteNotFoundError, RemoteConfigError, RyeError `REMOTE_NOT_APPROVED`.
    """
    from ryeos.remote.link import RemoteEnvironment, remotes_of

    return remotes_of(RemoteEnvironment(workspace=open_workspace(project_path))).resolve(name)
