"""Runs on nodes as answers of this program, like those of a run here."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lillux.errors import LilluxError
from lillux.key_files import KeyNotFoundError, load_keypair
from ryeos.items.errors import Answer, RyeError, UsageError, failed_run_status, no_project_error
from ryeos.items.refs import ItemRef, Kind, Reference, Space
from ryeos.remote.link import Link, RemoteEnvironment, open_link
from ryeos.remote.local_secrets import LocalSecrets
from ryeos.remote.replies import RemoteExecution
from ryeos.remote.run import (
    FinishedRun,
    RemoteOptions,
    RemoteRun,
    RunFollower,
    SignPage,
    execute,
    sent_parameters,
)
from ryeos.run.model import Chain, ExecutionRequest
from ryeos.run.workspace import Workspace

if TYPE_CHECKING:
    from ryeos.trust.sign import Signer


REMOTE, INLINE = "remote", "inline"
NO_LIMIT_S = 7 * 24 * 3600.0


def execute_on(
    around: RemoteEnvironment,
    remote: str | None,
    reference: Reference,
    request: ExecutionRequest,
    options: RemoteOptions,
    *,
    follower: RunFollower | None = None,
) -> Answer:
    """Run an item of the project on a remote, once nothing here would keep it from running.

    ``follower`` hears it while it runs, where the node lets runs be followed. Raises what finding
    it raises, as `ryeos.remote.link.open_link`, and as `execute`; UsageError for a directive that
    is not to be forked.
    """
    checked = around.workspace.check(reference, request)
    if checked.exit_status:
        return checked
    item_ref, chain = verified_item(around.workspace, reference)
    if options.thread == INLINE and item_ref.startswith(f"{Kind.DIRECTIVE}:"):
        raise UsageError(
            f"{item_ref}: thread inline: a directive is forked on a node",
            hint="leave it out, or render the directive here with: rye run",
        )
    link = open_link(around, remote)
    metadata = checked.envelope.get("metadata", {})
    run = RemoteRun(
        item_ref=item_ref,
        parameters=sent_parameters(chain, request, metadata) if chain else request.parameters,
        thread=options.thread,
        is_async=options.is_async,
        vault_keys=options.vault_keys,
        secrets=_secrets(around) if options.sends_secrets else {},
        agent=_agent(request) if options.agent is None else options.agent,
        applies=options.applies,
        timeout_s=_limit(request),
        follower=follower,
    )
    ran = execute(link, run, sign_page=_page_signer(around) if options.resigns else None)
    found = _texts(metadata.get("warnings"))
    answer = answer_of(ran, link.node.name, item_ref, found)
    receipt = ran.executed.result.get("receipt")
    return _with_receipt(around.workspace, link, ran, answer) if receipt else answer


def _agent(request: ExecutionRequest) -> Mapping[str, Any] | None:
    """The way in which a model is to carry a directive out, as it was asked for here."""
    asked = request.thread
    if asked is None:
        return None
    limits, seconds = dict(asked.limits), request.timeout_s or request.at_most_s
    said = limits.get("duration_s")
    if seconds and (said is None or isinstance(said, int)):
        whole = max(int(seconds), 1)
        limits["duration_s"] = whole if said is None else min(whole, said)
    return {"model": asked.model, "limits": limits}


def _with_receipt(workspace: Workspace, link: Link, ran: FinishedRun, answer: Answer) -> Answer:
    """The answer with the id of the node's receipt in our log, or a warning if it is not valid."""
    envelope = dict(answer.envelope)
    metadata = envelope["metadata"] = dict(envelope.get("metadata") or {})
    try:
        statement = node_statement(ran.executed, link.node.verify().public_key_pem)
        said = {name: value for name, value in statement["predicate"].items() if name not in _PLACE}
        said["remote"] = {"name": link.node.name, "receipt": ran.executed.result["receipt"]}
        kind = str(statement.get("predicateType"))
        metadata["receipt"] = workspace.receipts.keep(said, statement["subject"], kind)
    except (LilluxError, KeyError, TypeError, AttributeError) as error:
        warning = f"remote {link.node.name}: its receipt is not kept: {error}"
        metadata["warnings"] = [*_texts(metadata.get("warnings")), warning]
    return Answer(envelope, answer.exit_status)


_PLACE = ("number", "previous")


def node_statement(executed: RemoteExecution, identity_pem: bytes) -> dict[str, Any]:
    """Verify a node's receipt: its receipt key signs it, and its pinned key signs that key.

    Raises SignedDocumentError, EnvelopeError, RyeError for one that is about another run.
    """
    from lillux import dsse
    from lillux.signing import compute_key_fingerprint
    from ryeos.remote.identity import decode_public_key
    from ryeos.remote.signed_documents import RECEIPT_KEY_KIND, verify_document
    from ryeos.run.receipt_statements import PAYLOAD_TYPE, result_digest

    receipt = executed.result["receipt"]
    document = receipt["key"]
    verify_document(document, identity_pem)
    if document.get("kind") != RECEIPT_KEY_KIND:
        raise RyeError("expected the key of receipts, found another document", code="INTEGRITY")
    key_pem = decode_public_key(document.get("public_key"))
    statement: dict[str, Any] = dsse.opened(receipt["envelope"], PAYLOAD_TYPE, key_pem)
    predicate = statement["predicate"]
    node_id = f"fp:{compute_key_fingerprint(identity_pem)}"
    expected = {"node": node_id, "thread": executed.thread_id}
    for name, value in expected.items():
        if predicate["caller"].get(name) != value:
            raise RyeError(f"its receipt is of another {name}", code="INTEGRITY")
    if predicate["result"]["sha256"] != result_digest(executed.result):
        raise RyeError("its receipt is of another result", code="INTEGRITY")
    return statement


def verified_item(workspace: Workspace, reference: Reference) -> tuple[str, Chain | None]:
    """The canonical reference of an item, verified with what runs it; and the chain of a tool.

    Raises UsageError, ItemNotFoundError, IntegrityError, ChainError.
    """
    kind = reference.kind or workspace.resolver.resolve(reference).location.ref.kind
    if kind is Kind.CONFIG:
        raise UsageError(f"{reference}: configuration is read by tools, never run")
    if kind is Kind.TOOL:
        chain = workspace.executor.build_chain(reference.id)
        return f"{kind}:{chain.tool.item_id}", chain
    return str(workspace.load(Reference(kind, reference.id))[0].location.ref), None


def _limit(request: ExecutionRequest) -> float | None:
    """The time that the reply may take; None for what the remote is configured with."""
    given = [seconds for seconds in (request.timeout_s, request.at_most_s) if seconds is not None]
    if not given:
        return None
    return min((seconds for seconds in given if seconds), default=NO_LIMIT_S)


def _secrets(around: RemoteEnvironment) -> Mapping[str, str]:
    """The user's own: all that the key at hand opens."""
    context = around.context
    try:
        private_pem = load_keypair(context.key_directory).private_pem
    except KeyNotFoundError:
        return {}
    return LocalSecrets(context.spaces.user.base, private_pem).values()


def _page_signer(around: RemoteEnvironment) -> SignPage:
    from ryeos.trust.sign import Signer

    space = around.context.spaces.project
    if space is None:
        raise no_project_error("there is no page to sign")
    return page_signer(space, Signer(around.workspace.signing_key(), around.workspace.verifier))


def page_signer(space: Space, signer: "Signer") -> SignPage:
    """The signer of the bytes of a project's page; refused where its file has others by then."""
    from ryeos.trust.sign_targets import ReadItem, SignTarget

    def sign(path: Path, data: bytes) -> object:
        relative = path.relative_to(space.directory(Kind.KNOWLEDGE)).with_suffix("").as_posix()
        ref = ItemRef(Kind.KNOWLEDGE, relative)
        target = SignTarget(path=path, kind=Kind.KNOWLEDGE, space=space, ref=ref)
        return signer.sign(ReadItem(target, data), force=True)

    return sign


def answer_of(ran: FinishedRun, remote: str, item_ref: str, found: Sequence[str] = ()) -> Answer:
    """The result of the run, flattened, and under ``remote`` what came of it besides.

    ``found`` are warnings of the checks before it.
    """
    executed = ran.executed
    kind, _, item_id = item_ref.partition(":")
    is_thread = executed.result.get("type") == "thread"
    common = {
        "type": "thread" if is_thread else kind,
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
    result = {name: value for name, value in executed.result.items() if name != "receipt"}
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
    return Answer(envelope, failed_run_status(str(envelope["code"])))


def _outcome(ran: FinishedRun) -> dict[str, Any]:
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
