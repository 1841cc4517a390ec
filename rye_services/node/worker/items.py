"""Runs the items of a checkout, in the worker's process only."""

import json
import os
import sys
from codecs import getincrementaldecoder
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import TYPE_CHECKING, Any

from lillux.cancellation import Cancellation
from lillux.errors import LilluxError
from lillux.landlock import confine
from lillux.seccomp import Sockets, refuse_sockets
from lillux.system_places import program_places, system_places
from lillux.values import dataclass, replace
from rye_services.node.worker.jobs import (
    BEGIN,
    CONFIDENTIAL,
    LEAKED,
    RETRYABLE,
    STDERR,
    STDOUT,
    Job,
    JobAction,
    WorkerAnswer,
    report,
    sealed_spend,
    secret_names,
    without_leaked_limits,
)
from ryeos.app.workspace import Rye
from ryeos.items.context import Context, context_from
from ryeos.items.errors import Answer, error_answer
from ryeos.items.refs import USER, Kind, Reference, Space, parse_reference
from ryeos.run.model import ExecutionRequest, ThreadRequest
from ryeos.trust.bundles import embedded_bundle
from ryeos.trust.store import Approvals

if TYPE_CHECKING:
    from ryeos.app.thread_workspace import ThreadSource
    from ryeos.trust.sign import Signer, SignReport
    from ryeos.trust.sign_targets import SignTarget

# Not /dev/shm: what is left there, tools of other users would find.
_REPORTED_CHARACTERS = 4096
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty", "ptmx", "pts", "fd")


def do(
    job: Job,
    cancellation: Cancellation,
    wait_to_begin: Callable[[], None],
    prepared: "Prepared",
) -> WorkerAnswer:
    """Do the job. What Rye cannot do is an answer too, as anywhere else.

    ``prepared`` is the answer of `prepare`. Where the job asks first, no process of the item is
    started before the server lets it begin.
    """
    warnings: list[str] = []

    def begin() -> None:
        if job.asks_first:
            report(_to_server, BEGIN, "")
            wait_to_begin()

    rye = Rye(_context(job), warn=warnings.append)
    try:
        if isinstance(prepared.source, Exception):
            raise prepared.source
        rye.thread_source = prepared.source
        _approve_by_id(job)
        if job.action is not JobAction.SIGN:
            # Drops every right on files but those that the job needs, where the system can.
            confine(prepared.readable, prepared.writable)
            allowed = Sockets(local=job.unix_sockets, network=job.network)
            if allowed != Sockets(local=True):
                refuse_sockets(allowed)
        answer = _answer(rye, job, cancellation, begin)
    except LilluxError as error:
        answer = error_answer(error)
    finally:
        rye.close()
    spend = None
    if job.agent is not None:  # without a source of threads nothing was sent to a model
        charged = rye.thread_source.ledger.charged if rye.thread_source else 0
        spend = sealed_spend(charged, str(job.agent["seal_key"]))
    return WorkerAnswer(answer.envelope, tuple(dict.fromkeys(warnings)), spend)


def _context(job: Job) -> Context:
    """Where the job happens. Secrets reach the tools, and never decide about Rye itself."""
    context = context_from(
        job.environ,
        cwd=job.project,
        project=str(job.project),
        user_space=str(job.user),
        bundles=(embedded_bundle(job.bundle, job.bundle_version),),
    )
    return replace(
        context,
        process_env={**context.process_env, **job.secrets},
        dev_mode=False,
        confines=True,
        on_node=True,
        node_policy=job.policy,
        reaches_sockets=job.unix_sockets,
        receipts="on",
        pages_are_signed_later=True,  # by the server, when all of this has ended
    )


@dataclass(frozen=True, slots=True)
class Prepared:
    """What is found before a job becomes another user and gives its rights on files away.

    readable   files and folders that it may read, ``writable`` those that it may write too
    source     where threads of a model have their configuration from, or why they have none; None
               for a job without a model
    """

    readable: Sequence[Path]
    writable: Sequence[Path]
    source: "ThreadSource | Exception | None"


def prepare(job: Job) -> Prepared:
    """See `Prepared`. For the process that still is the user of the node."""
    readable, writable = _places_of(job)
    if job.agent is None:
        return Prepared(readable, writable, None)
    try:
        return Prepared(readable, writable, _thread_source(job, job.agent))
    except Exception as error:  # noqa: BLE001 - raised again where it can be answered
        return Prepared(readable, writable, error)


def _thread_source(job: Job, agent: Mapping[str, Any]) -> "ThreadSource":
    """The configuration of threads: of the bundle and of the operator, never of what was pushed."""
    from rye_services.node.worker.providers import operator_config
    from ryeos.agent.ledger import GrantedLedger
    from ryeos.app.thread_workspace import ThreadSource

    config, _ = operator_config(job.environ, job.home, job.operator, job.bundle, job.bundle_version)
    return ThreadSource(
        config=config,
        ledger=GrantedLedger(int(agent["granted"])),
        thread_spend=int(agent["thread_spend"]),
    )


def _approve_by_id(job: Job) -> None:
    """Trust keys that the user approved for this project, which lies elsewhere there.

    An approval names a folder of the user's machine. What identifies the project here is the last
    part of that folder, as it is what a client calls the project.
    """
    approvals = Approvals(job.user / ".ai")
    for folder, digest in approvals.all():
        if job.project_id in {folder, _last_part(folder)}:
            approvals.approve(job.project, digest)


def _last_part(folder: str) -> str:
    return PureWindowsPath(folder).name if "\\" in folder else PurePosixPath(folder).name


def _answer(rye: Rye, job: Job, cancellation: Cancellation, begin: Callable[[], None]) -> Answer:
    match job.action:
        case JobAction.EXECUTE:
            return _execute(rye, job, cancellation, begin)
        case JobAction.FETCH:
            from ryeos.app.search import fetch

            begin()
            return fetch(rye, job.parameters)
        case JobAction.SIGN:
            begin()
            return _sign(rye, job)


def _execute(rye: Rye, job: Job, cancellation: Cancellation, begin: Callable[[], None]) -> Answer:
    reference = parse_reference(job.item_ref)
    parameters = dict(job.parameters)
    leaked: tuple[str, ...] = ()
    if reference.kind is Kind.TOOL and not parameters.keys().isdisjoint(LEAKED):
        with suppress(LilluxError):  # executing it says what is wrong
            chain = rye.executor.build_chain(reference.id)
            parameters, leaked = without_leaked_limits(parameters, chain)
    limit_s = job.parameters.get("timeout") if "timeout" in leaked else None
    leaked = tuple(name for name in leaked if name != "timeout")
    request = ExecutionRequest(
        item_id=reference.id,
        parameters=parameters,
        timeout_s=limit_s if isinstance(limit_s, int | float) else None,
    )
    _report_facts(rye, reference, job.parameters)
    begin()
    request = replace(request, on_stdout=_teller(STDOUT))
    if job.agent is not None:
        request = _carried_out(request, job.agent)
    answer = rye.execute(reference, request, cancellation=cancellation, on_stderr=_teller(STDERR))
    metadata = answer.envelope.get("metadata")
    if leaked and isinstance(metadata, dict):
        warning = f"{', '.join(leaked)}: left out, the tool has no such parameter"
        metadata["warnings"] = [*metadata.get("warnings", ()), warning]
    return answer


def _carried_out(request: ExecutionRequest, agent: Mapping[str, Any]) -> ExecutionRequest:
    """The request for a model to carry the directive out; what it says and does is reported."""
    from ryeos.app.agent_threads import logged

    asked = ThreadRequest(model=str(agent["model"]), limits=dict(agent["limits"]))
    return replace(
        request,
        run_id=str(agent["thread_id"]).replace(":", "-"),
        thread=logged(asked, _teller(STDOUT), _teller(STDERR)),
    )


def _report_facts(rye: Rye, reference: Reference, parameters: Mapping[str, Any]) -> None:
    """Report to the server, before the item runs, what the server cannot read itself.

    Which parameters are secret; and whether the item may be executed once more. Of an item that
    cannot be read nothing is known: the server keeps no parameters of it.
    """
    names: list[str] = []
    with suppress(LilluxError):  # executing it says what is wrong
        if reference.kind is Kind.TOOL:
            spec = rye.executor.build_chain(reference.id).tool.spec
            names = secret_names(spec.config_schema, parameters)
            if spec.retryable:
                report(_to_server, RETRYABLE, "true")
        report(_to_server, CONFIDENTIAL, json.dumps(names))


def _teller(stream: str) -> Callable[[bytes], None]:
    """Reports to the server what programs write to a stream, as it comes."""
    decoder = getincrementaldecoder("utf-8")("replace")

    def hear(chunk: bytes) -> None:
        text = decoder.decode(chunk)
        for start in range(0, len(text), _REPORTED_CHARACTERS):
            report(_to_server, stream, text[start : start + _REPORTED_CHARACTERS])

    return hear


def _to_server(data: bytes) -> None:
    sys.stderr.buffer.write(data)
    sys.stderr.buffer.flush()


def _sign(rye: Rye, job: Job) -> Answer:
    """Sign with the node's key for items, which counts for as long as that takes."""
    from lillux.signing import KeyPair, public_pem_of
    from ryeos.app.sign import batch_answer, is_glob, single_answer, targets_of
    from ryeos.trust.sign import Signer
    from ryeos.trust.signing_key import SigningKey
    from ryeos.trust.store import document_path, write_key_document

    private_pem = job.signing_pem.encode()
    key = SigningKey(KeyPair(private_pem, public_pem_of(private_pem)))
    document = document_path(Space(USER, job.user), key.fingerprint)
    document.parent.mkdir(parents=True, exist_ok=True)
    text = write_key_document(key.public_pem, "node", covers_all=True)
    document.write_text(text, encoding="utf-8")
    item, source = str(job.parameters["item_id"]), str(job.parameters.get("source", "project"))
    targets = targets_of(rye, item, None, source)
    reports = [_sign_file(rye, Signer(key, rye.verifier), target) for target in targets]
    if is_glob(item):
        return batch_answer(reports, len(targets), dry_run=False)
    return single_answer(reports[0])


def _sign_file(rye: Rye, signer: "Signer", target: "SignTarget") -> "SignReport":
    """Sign a file, unless it has a valid signature: the user's own is never replaced."""
    from ryeos.app.sign import is_signed
    from ryeos.trust.sign import SignReport
    from ryeos.trust.sign_targets import read_item

    item = read_item(target)
    found = is_signed(rye, item)
    if found:
        return SignReport(target=target, signature=found, unchanged=True)
    (report,) = signer.sign_all([item], force=False)
    return report


def _places_of(job: Job) -> tuple[list[Path], list[Path]]:
    """The files and folders that the job may read, and those that it may write too.

    Most of those to read are not there: they are looked for as text, once.
    """
    path = job.environ.get("PATH", os.defpath)
    programs = [Path(folder) for folder in path.split(os.pathsep) if Path(folder).is_absolute()]
    own = [Path(entry) for entry in sys.path if Path(entry).is_absolute()]
    program = [*own, job.bundle]
    wanted = [
        *system_places(),
        *map(Path, (sys.prefix, sys.base_prefix)),
        *(place for folder in programs for place in program_places(folder)),
        *program,
    ]
    writable = [
        job.project,
        job.user,
        job.home,
        job.temporary,
        *(Path("/dev", name) for name in _DEVICES),
    ]
    hidden = [os.path.realpath(one) for one in job.hidden]
    there = [one for one in dict.fromkeys(map(str, wanted)) if os.path.lexists(one)]
    parts = [Path(part) for one in there for part in _visible_parts(one, hidden)]
    return [*parts, *(one for one in program if _is_unpacked_within(str(one), hidden))], writable


def _is_unpacked_within(path: str, hidden: Sequence[str]) -> bool:
    """Whether a folder of this program was unpacked below what is hidden, and holds none of it.

    So it is where the home of the node is the folder of its data, as in a container.
    """
    real = os.path.realpath(path)
    if any(_is_below(one, real) for one in hidden):
        return False
    return any(_is_below(real, one) for one in hidden)


def _visible_parts(path: str, hidden: Sequence[str]) -> Iterator[str]:
    """The folder, or the parts of it that lead to nothing hidden where something in it is.

    ``hidden`` are real paths.
    """
    real = os.path.realpath(path)
    if any(_is_below(real, one) for one in hidden):
        return
    if not any(_is_below(one, real) for one in hidden):
        yield path
        return
    with suppress(OSError):
        for name in sorted(os.listdir(real)):  # noqa: PTH208 - text
            yield from _visible_parts(os.path.join(real, name), hidden)  # noqa: PTH118


def _is_below(path: str, folder: str) -> bool:
    """Whether a real path is a folder or lies in it."""
    return path == folder or path.startswith(f"{folder.rstrip(os.sep)}{os.sep}")
