"""A run on a node as an answer of this program: the same envelope as of a run here."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from lillux.signing import KeyNotFoundError, load_keypair
from ryeos.envelope import EXIT_BY_CODE, TOOL_FAILED, Answer
from ryeos.errors import NoProjectError, UsageError
from ryeos.executor.model import Request
from ryeos.items import ItemRef, Kind, Reference
from ryeos.remote.execute import Ran, RemoteRun, execute
from ryeos.remote.local_secrets import LocalSecrets
from ryeos.remote.opening import Surroundings, Workspace, open_link
from ryeos.remote.options import RemoteOptions
from ryeos.remote.sent_parameters import sent_parameters

REMOTE, INLINE = "remote", "inline"
NO_LIMIT_S = 7 * 24 * 3600.0


def execute_on(
    around: Surroundings,
    remote: str | None,
    reference: Reference,
    request: Request,
    options: RemoteOptions,
) -> Answer:
    """Run an item of the project on a remote, once nothing here would keep it from running.

    Raises what finding it raises, as `ryeos.remote.opening.open_link`, and as
    `ryeos.remote.execute.execute`; UsageError for a directive that is not to be forked.
    """
    checked = around.workspace.check(reference, request)
    if checked.exit_status:
        return checked
    item_ref = verified_reference(around.workspace, reference)
    if options.thread == INLINE and item_ref.startswith(f"{Kind.DIRECTIVE}:"):
        raise UsageError(
            f"{item_ref}: thread inline: a directive is forked on a node",
            hint="leave it out, or render the directive here with: rye run",
        )
    link = open_link(around, remote)
    metadata = checked.envelope.get("metadata", {})
    run = RemoteRun(
        item_ref=item_ref,
        parameters=_parameters(around.workspace, item_ref, request, metadata),
        thread=options.thread,
        is_async=options.is_async,
        vault_keys=options.vault_keys,
        secrets=_secrets(around) if options.sends_secrets else {},
        applies=options.applies,
        timeout_s=_limit(request),
    )
    ran = execute(link, run, sign_page=_page_signer(around) if options.resigns else None)
    found = _texts(metadata.get("warnings"))
    return answer_of(ran, link.node.name, item_ref, found)


def verified_reference(workspace: Workspace, reference: Reference) -> str:
    """The canonical reference of an item, itself and what runs it verified.

    Raises UsageError, ItemNotFoundError, IntegrityError, ChainError.
    """
    kind = reference.kind or workspace.resolver.resolve(reference).location.ref.kind
    if kind is Kind.CONFIG:
        raise UsageError(f"{reference}: configuration is read by tools, never run")
    if kind is Kind.TOOL:
        return f"{kind}:{workspace.executor.build_chain(reference.id).tool.item_id}"
    return str(workspace.load(Reference(kind, reference.id))[0].location.ref)


def _parameters(
    workspace: Workspace, item_ref: str, request: Request, described: Mapping[str, Any]
) -> Mapping[str, Any]:
    kind, _, item_id = item_ref.partition(":")
    if kind != Kind.TOOL:
        return request.parameters
    return sent_parameters(workspace.executor.build_chain(item_id), request, described)


def _limit(request: Request) -> float | None:
    """How long the reply may take; None for what the remote is configured with."""
    given = [seconds for seconds in (request.timeout_s, request.at_most_s) if seconds is not None]
    if not given:
        return None
    return min((seconds for seconds in given if seconds), default=NO_LIMIT_S)


def _secrets(around: Surroundings) -> Mapping[str, str]:
    """The user's own: all that the key at hand opens."""
    context = around.context
    try:
        private_pem = load_keypair(context.key_directory).private_pem
    except KeyNotFoundError:
        return {}
    return LocalSecrets(context.spaces.user.base, private_pem).values()


def _page_signer(around: Surroundings) -> Callable[[Path], object]:
    from ryeos.sign import Signer
    from ryeos.sign_targets import SignTarget

    space = around.context.spaces.project
    if space is None:
        raise NoProjectError("there is no page to sign")
    signer = Signer(around.workspace.signing_key(), around.workspace.verifier)

    def sign(path: Path) -> object:
        relative = path.relative_to(space.directory(Kind.KNOWLEDGE)).with_suffix("").as_posix()
        ref = ItemRef(Kind.KNOWLEDGE, relative)
        target = SignTarget(path=path, kind=Kind.KNOWLEDGE, space=space, ref=ref)
        return signer.sign(target, force=True)

    return sign


def answer_of(ran: Ran, remote: str, item_ref: str, found: Sequence[str] = ()) -> Answer:
    """The result of the run, flattened, and under ``remote`` what came of it besides.

    ``found`` are warnings of the checks before it.
    """
    executed = ran.executed
    kind, _, item_id = item_ref.partition(":")
    common = {
        "type": kind,
        "item_id": item_id,
        "execution_mode": REMOTE,
        "thread_id": executed.thread_id,
    }
    facts = {
        "name": remote,
        "snapshot_hash": ran.pushed.snapshot_hash,
        "merged": list(ran.pushed.merged.paths),
    }
    if executed.is_accepted_only:
        envelope = {"status": "success", "async": True, "state": "running", **common}
        return Answer({**envelope, "remote": {**facts, "objects_pushed": ran.pushed.objects_sent}})
    result = dict(executed.result)
    metadata = result.pop("metadata", None)
    metadata = dict(metadata) if isinstance(metadata, Mapping) else {}
    warnings = [*found, *_texts(metadata.get("warnings")), *ran.warnings]
    if warnings:
        metadata["warnings"] = list(dict.fromkeys(warnings))
    envelope = {
        **result,
        "status": _status(result, executed.status),
        **common,
        "remote": facts | _outcome(ran),
        "metadata": metadata,
    }
    if envelope["status"] == "success":
        return Answer(envelope)
    envelope.setdefault("error", f"the run on {remote} failed")
    envelope.setdefault("code", "EXECUTION_FAILED")
    return Answer(envelope, EXIT_BY_CODE.get(str(envelope["code"]), TOOL_FAILED))


def _outcome(ran: Ran) -> dict[str, Any]:
    executed = ran.executed
    outcome: dict[str, Any] = {
        "snapshot_hash": executed.snapshot_hash or ran.pushed.snapshot_hash,
        "merge_type": executed.merge_type,
        "execution_snapshot_hash": executed.execution_snapshot_hash or None,
        "runtime_outputs_bundle_hash": executed.outputs_bundle_hash or None,
        "objects_pushed": ran.pushed.objects_sent,
        "objects_pulled": ran.fetched,
        "outputs_materialized": list(ran.outputs.written),
        "applied": list(ran.applied),
        "system_version": executed.system_version,
    }
    if executed.conflicts:
        outcome["conflicts"] = dict(executed.conflicts)
        outcome["unmerged_snapshot"] = executed.unmerged_snapshot
    if executed.masked_paths:
        outcome["masked_paths"] = list(executed.masked_paths)
    return outcome


def _status(result: Mapping[str, Any], fallback: str) -> str:
    """``success`` or ``error``. Of texts and directives there is a status of their own."""
    status = str(result.get("status") or fallback)
    return "success" if status in {"success", "completed", "ok"} else status


def _texts(value: object) -> list[str]:
    return [str(one) for one in value] if isinstance(value, list) else []
