"""``execute``: run a tool, render a directive, give a knowledge text; here or in the background.

(1) arguments; those of another action are for another tool   (2) which item, of which project;
the id of a run, ``run-d150`` or the long one, is the answer of that run
(3) ``parameters.dry_run`` means ``dry_run``, unless the item has an input of this name
(4) what may go together   (5) run
"""

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from lillux.cancellation import Cancellation
from lillux.values import dataclass, replace
from ryeos.app.parameters import THREAD_ADDRESS
from ryeos.app.progress import CallContext, ToolProgress
from ryeos.app.verb_arguments import boolean, item_reference, rye_of, valid_arguments
from ryeos.app.verbs import TOOLS
from ryeos.app.workspace import Rye
from ryeos.items.context import Context
from ryeos.items.errors import TOOL_FAILED, Answer, UnsupportedError, VerbArgumentError
from ryeos.items.refs import SYSTEM, ItemRef, Kind, Reference, parse_reference
from ryeos.run.model import ExecutionRequest, ThreadRequest

if TYPE_CHECKING:
    from ryeos.run.threads.start import Program

FORWARDED = ("load",)
DRY_RUN = "dry_run"
_STATUS_TOOL, _CANCEL_TOOL = "rye/core/processes/status", "rye/core/processes/cancel"
INLINE, FORK, LOCAL, REMOTE = "inline", "fork", "local", "remote"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecuteOptions:
    """A caller's request for an item, checked."""

    reference: Reference
    parameters: Mapping[str, Any]
    target: str
    thread: str
    dry_run: bool
    in_background: bool
    trace: bool
    timeout_s: float | None
    cwd: str | None


def execute(
    rye: Rye,
    arguments: Mapping[str, object],
    calling: CallContext,
    program: "Callable[[Context], Program]",
) -> Answer:
    """The answer of the item. Raises what finding it raises, and VerbArgumentError."""
    values = valid_arguments(TOOLS["execute"], arguments)  # (1)
    if values["action"] in FORWARDED:
        from ryeos.app.verbs import answer

        action = values["action"]
        return answer(
            rye, action, forwarded(action, values.given, values.get("parameters", {})), calling
        )
    rye = rye_of(rye, values)  # (2)
    run = _named_run(rye, values)
    if run:
        return _answer_of_run(rye, run, values, values.given)
    wish = _options_from(rye, values, is_here=values.given.get("target") == LOCAL)
    kind, resolution = rye.kind_of(wish.reference)
    wish = _without_dry_run_input(rye, wish, kind)  # (3)
    if "wait_s" in values and _can_go_on(wish, kind):
        wish = replace(wish, in_background=True)
    _validate_combination(wish, kind)  # (4)
    if wish.thread != FORK:
        _require_no_options_of_forks(values)
    request = ExecutionRequest(  # (5)
        item_id=wish.reference.id,
        parameters=wish.parameters,
        at_most_s=wish.timeout_s,
        cwd=wish.cwd,
        trace=wish.trace,
        dry_run=wish.dry_run,
        extra_env=calling.extra_env,
        known_texts=calling.known_texts,
        resolution=resolution,
        thread=_thread_request(values) if wish.thread == FORK else None,
    )
    reference = Reference(kind, wish.reference.id)
    if wish.target != LOCAL:
        return _elsewhere(rye, wish, reference, request, calling)
    if wish.in_background:
        started = rye.start(reference, request, program(rye.context))
        return _await_run(rye, started, values["wait_s"]) if "wait_s" in values else started
    if _is_cancelling(rye, reference, wish):
        return _cancelled(rye, reference, request)
    return _run_here(rye, reference, request, calling)


def _can_go_on(wish: ExecuteOptions, kind: Kind) -> bool:
    """True if the item can take longer than its caller waits: what is rendered is there at once."""
    lasts = kind is Kind.TOOL or wish.thread == FORK
    return lasts and wish.target == LOCAL and not wish.dry_run


def _thread_request(values: Mapping[str, Any]) -> ThreadRequest:
    """A client's choice of how a directive is carried out."""
    return ThreadRequest(
        model=values.get("model", ""), limits=dict(values.get("limit_overrides") or {})
    )


def _require_no_options_of_forks(values: Mapping[str, Any]) -> None:
    """Raise VerbArgumentError for what only a fork heeds: what it was to hold would not hold."""
    for name in ("model", "limit_overrides"):
        if values.get(name):
            raise VerbArgumentError(
                name,
                "expected with a fork, found thread inline",
                hint='have a model carry the directive out: "thread": "fork"; else leave it out',
            )


def _run_here(
    rye: Rye, reference: Reference, request: ExecutionRequest, calling: CallContext
) -> Answer:
    """The answer of a run that its caller waits for."""
    if request.thread is not None:
        return _carry_out(rye, reference, request, request.thread, calling)
    if not calling.wants_progress:
        return rye.execute(reference, request, cancellation=calling.cancellation)
    with ToolProgress(calling.progress) as progress:
        return rye.execute(
            reference,
            request,
            cancellation=calling.cancellation,
            on_stderr=progress.feed,
            on_step=progress.step,
        )


def _carry_out(
    rye: Rye,
    reference: Reference,
    request: ExecutionRequest,
    thread: ThreadRequest,
    calling: CallContext,
) -> Answer:
    """The answer of a directive that a model carries out.

    Cancelled, it ends after its present turn: what the model was asked is paid, and can be used.
    """
    finish = Cancellation()
    with ExitStack() as stack:
        stack.enter_context(calling.cancellation.waking(finish.cancel))
        if calling.cancellation.is_set:
            finish.cancel()
        thread = replace(thread, finish=finish)
        if calling.wants_progress:
            progress = stack.enter_context(ToolProgress(calling.progress))
            thread = replace(
                thread,
                on_piece=lambda piece: progress.piece(piece.kind, piece.text),
                on_event=progress.event,
            )
        return rye.execute(reference, replace(request, thread=thread))


def _is_cancelling(rye: Rye, reference: Reference, wish: ExecuteOptions) -> bool:
    """True if the bundle's tool that ends a run is to be run here, for an agent."""
    if reference.id != _CANCEL_TOOL or not rye.context.confines:
        return False
    found = rye.resolver.find(ItemRef(Kind.TOOL, _CANCEL_TOOL))
    return not wish.dry_run and found is not None and found.location.space.tier == SYSTEM


def _cancelled(rye: Rye, reference: Reference, request: ExecutionRequest) -> Answer:
    """The answer of the tool that ends a run, from this process.

    What an agent starts cannot read the key by which a runner is known to be this user's, so the
    tool itself would end none. Raises as `rye threads kill`.
    """
    from ryeos.run.threads.end import GRACE_S, EndedThread, kill_thread
    from ryeos.run.threads.ids import short_thread_id

    checked = rye.check(reference, request)
    if checked.exit_status:
        return checked
    given = request.parameters
    grace_s = given.get("grace", GRACE_S)
    thread_id = rye.threads.find(given["thread_id"])
    if _kills_here(rye, thread_id, grace_s):
        ended = EndedThread(rye.threads.get(thread_id), by_this=True)
    else:
        ended = kill_thread(rye.threads, thread_id, rye.runner_seals, grace_s=grace_s)
    left = {"leftovers": ended.orphan_processes} if ended.orphan_processes else {}
    data = {
        "success": True,
        "killed": ended.by_this,
        "thread_id": short_thread_id(thread_id),
        "state": ended.thread.shown_state,
        **left,
    }
    return Answer({"status": "success", "type": "tool", "item_id": reference.id, "data": data})


def _kills_here(rye: Rye, thread_id: str, grace_s: float) -> bool:
    """True if the thread was one that a model carries out in this process, and is ended now.

    This process is the agent's own server: what runs in it the agent has started. Of others
    `kill_thread` knows whether they may be ended. Raises RyeError `TIMEOUT`.
    """
    from ryeos.agent.records import AgentRecords
    from ryeos.app.thread_log import is_followed_here, kill

    records = AgentRecords(rye.context.spaces.user.ai, rye.receipts.log.key)
    return is_followed_here(records, thread_id) and kill(records, thread_id, grace_s)


_OF_RUNS = frozenset({"item_id", "wait_s", "project_path", "verbose"})
_LOG_CHARACTERS = 2000
"""So much of the end of what a run has written is shown while it runs."""


def _named_run(rye: Rye, values: Mapping[str, Any]) -> str:
    """The id of a run where ``item_id`` is one and no item has that id, else ``""``.

    Short or long, alone, behind the kind of its item, or as an address.
    """
    from ryeos.run.threads.ids import looks_like_thread_id

    named = str(values.get("item_id", ""))
    text = named.removeprefix(THREAD_ADDRESS)
    for kind in Kind:
        text = text.removeprefix(f"{kind.value}:")
    if "resume_thread_id" in values or not looks_like_thread_id(text):
        return ""
    if named.startswith(THREAD_ADDRESS):
        return text
    reference = parse_reference(named, values.get("item_type"))
    return "" if any(rye.resolver.find(ref) for ref in reference.refs()) else text


def _answer_of_run(
    rye: Rye, text: str, values: Mapping[str, Any], given: Mapping[str, object]
) -> Answer:
    """The answer of a background run; while it runs, what it has written so far.

    Raises VerbArgumentError, ThreadNotFoundError, AmbiguousThreadError.
    """
    from ryeos.run.threads.log import ThreadLog
    from ryeos.run.threads.start import ended_envelope, seconds_of
    from ryeos.run.threads.watch import wait_for

    for name in given:
        if name not in _OF_RUNS and given[name] is not None:
            raise VerbArgumentError(
                name,
                f"expected with an item, found the run {text}",
                hint="leave it out; what ends a run is the item rye/core/processes/cancel",
            )
    rye.require_visible(
        ItemRef(Kind.TOOL, _STATUS_TOOL)
    )  # a policy that hides runs hides them here
    thread = wait_for(rye.threads, rye.threads.find(text), values.get("wait_s", 0))
    if thread.has_ended:
        envelope = ended_envelope(thread)
        status = TOOL_FAILED if envelope["status"] == "error" else 0
        return Answer({**envelope, "thread_id": thread.thread_id}, status)
    written, _ = ThreadLog(rye.threads.place, thread.thread_id).text()
    running = {
        "status": "running",
        "thread_id": thread.thread_id,
        "seconds": seconds_of(thread),
        "log": written[-_LOG_CHARACTERS:],
    }
    return Answer({name: value for name, value in running.items() if value not in (None, "")})


def _await_run(rye: Rye, started: Answer, wait_s: float) -> Answer:
    """The answer of a background run that ends in time, else that it runs."""
    from ryeos.run.threads.watch import wait_for

    thread_id = started.envelope.get("thread_id")
    if not isinstance(thread_id, str):
        return started
    thread = wait_for(rye.threads, thread_id, wait_s)
    answer = thread.answer() if thread.has_ended else None
    if not isinstance(answer, dict):
        return started
    return Answer({**answer, "thread_id": thread_id}, started.exit_status)


def _elsewhere(
    rye: Rye,
    wish: ExecuteOptions,
    reference: Reference,
    request: ExecutionRequest,
    calling: CallContext,
) -> Answer:
    """The answer of a remote. Raises what pushing and asking raise."""
    from ryeos.remote.link import RemoteEnvironment
    from ryeos.remote.run import RemoteOptions
    from ryeos.remote.run_answers import execute_on

    around = RemoteEnvironment(
        workspace=rye,
        progress=lambda what, done, total: calling.progress(done, total, what),
        cancellation=calling.cancellation,
    )
    thread = FORK if wish.thread == FORK else ""
    options = RemoteOptions(thread=thread, is_async=wish.in_background)
    name = wish.target.removeprefix(REMOTE).removeprefix(":")
    return execute_on(around, name or None, reference, request, options)


def _options_from(rye: Rye, values: Mapping[str, Any], *, is_here: bool) -> ExecuteOptions:
    """The options in the values; ``is_here`` says that a caller asked for the target ``local``."""
    if values["action"] != "run":
        known = ", ".join(("run", *FORWARDED))
        problem = f"expected one of {known}, found {values['action']!r:.60}"
        raise VerbArgumentError("action", problem, hint="leave it out to run the item")
    target, thread = _place(values["target"], values["thread"], is_here=is_here)
    parameters = dict(values.get("parameters", {}))
    if "resume_thread_id" in values:
        values = {**values, "resume_thread_id": rye.threads.find(values["resume_thread_id"])}
        reference = _resumed(rye, values)
        _require_kept_inputs(parameters, rye.schema_of(reference))
        parameters["resume_run_id"] = values["resume_thread_id"]
    elif "item_id" in values:
        reference = item_reference(rye, values["item_id"], values.get("item_type"))
    else:
        hint = "name an item, like rye/bash/bash, or what to resume: resume_thread_id"
        raise VerbArgumentError("item_id", "expected by execute, found nothing", hint=hint)
    return ExecuteOptions(
        reference=reference,
        parameters=parameters,
        target=target,
        thread=thread,
        dry_run=values["dry_run"],
        in_background=values["async"],
        trace=values["trace"],
        timeout_s=values.get("timeout"),
        cwd=values.get("cwd"),
    )


def _resumed(rye: Rye, values: Mapping[str, Any]) -> Reference:
    """The graph whose run is to continue. Raises ThreadNotFoundError, UnsupportedError."""
    from ryeos.run.primitives import is_graph

    run = rye.threads.get(values["resume_thread_id"])
    reference = parse_reference(run.item_id or run.directive)
    if "item_id" in values:
        named = item_reference(rye, values["item_id"], values.get("item_type"))
        if named.id != reference.id:
            raise VerbArgumentError("item_id", f"expected {reference}, whose run it is, or nothing")
    if reference.kind is not Kind.TOOL or not is_graph(rye.executor.build_chain(reference.id)):
        raise UnsupportedError(
            f"resume_thread_id: {reference} is not a graph: only runs of graphs can be resumed",
            hint="run the item again",
        )
    return reference


def _require_kept_inputs(parameters: Mapping[str, Any], schema: Mapping[str, Any]) -> None:
    """Raise VerbArgumentError for inputs that the resumed run would not look at."""
    from ryeos.graph.options import split_options

    inputs, options = split_options(parameters, schema)
    if inputs and not options.override_inputs:
        raise VerbArgumentError(
            "parameters",
            f"a resumed run keeps its inputs, found {', '.join(sorted(inputs))}"[:200],
            hint='leave them out, or lay them over those: "override_inputs": true in parameters',
        )


def _without_dry_run_input(rye: Rye, wish: ExecuteOptions, kind: Kind) -> ExecuteOptions:
    """The wish with ``dry_run`` taken out of the parameters, where it is no input of the item.

    Raises VerbArgumentError, and what looking at the item raises.
    """
    if DRY_RUN not in wish.parameters or DRY_RUN in _declared_inputs(rye, wish.reference.id, kind):
        return wish
    parameters = dict(wish.parameters)
    is_dry = boolean(f"parameters.{DRY_RUN}", parameters.pop(DRY_RUN))
    return replace(wish, parameters=parameters, dry_run=wish.dry_run or is_dry)


def _declared_inputs(rye: Rye, item_id: str, kind: Kind) -> Mapping[str, Any]:
    properties = rye.schema_of(Reference(kind, item_id)).get("properties")
    return properties if isinstance(properties, Mapping) else {}


def _place(target: str, thread: str, *, is_here: bool) -> tuple[str, str]:
    """The place and way of a run; ``thread: remote:NAME`` is an older way to say the target."""
    if thread == REMOTE or thread.startswith(f"{REMOTE}:"):
        if is_here or target not in {LOCAL, thread}:
            raise VerbArgumentError("thread", f"expected inline or fork beside target {target}")
        target, thread = thread, INLINE
    if thread not in {INLINE, FORK}:
        raise VerbArgumentError("thread", f"expected inline, fork or remote:NAME, found {thread!r}")
    if target not in {LOCAL, REMOTE} and not target.removeprefix(f"{REMOTE}:"):
        raise VerbArgumentError("target", "expected a name after remote:, found nothing")
    if target not in {LOCAL, REMOTE} and not target.startswith(f"{REMOTE}:"):
        raise VerbArgumentError(
            "target", f"expected local, remote or remote:NAME, found {target!r}"
        )
    return target, thread


def _validate_combination(wish: ExecuteOptions, kind: Kind) -> None:
    if wish.in_background and wish.dry_run:
        raise VerbArgumentError(
            "async", "expected without dry_run, which starts nothing to wait for"
        )
    if wish.dry_run and wish.target != LOCAL:
        raise VerbArgumentError("dry_run", "expected with target local")
    if wish.target != LOCAL:
        return
    if wish.thread == FORK and kind is not Kind.DIRECTIVE:
        raise UnsupportedError(
            "thread fork: only a directive can be forked", hint="use async for a tool"
        )


# ``execute`` with ``action: sign`` or ``load``: what belongs to another tool is handed to it.

# What both take by the same name, and how sign got its space before it had `source`.
_SHARED = {
    "load": frozenset({"item_id", "item_type", "project_path", "verbose"}),
    "sign": frozenset({"item_id", "item_type", "project_path", "dry_run"}),
}
_OLDER_FORM = {"load": frozenset[str](), "sign": frozenset({"location", "category"})}


def forwarded(
    action: str, given: Mapping[str, object], parameters: Mapping[str, Any]
) -> dict[str, object]:
    """The arguments of the tool ``action``: those given, and what ``parameters`` holds for it.

    Raises VerbArgumentError for one that only a run takes.
    """
    shared = _SHARED[action]
    kept = {name: value for name, value in given.items() if value is not None}
    for name in kept:
        if name not in shared | {"action", "parameters"}:
            raise VerbArgumentError(
                name, "expected only with action run", hint=f"leave it out, or call {action}"
            )
    older = {name: value for name, value in parameters.items() if name in _OLDER_FORM[action]}
    own = {name: value for name, value in parameters.items() if name not in older}
    arguments = {name: kept[name] for name in kept if name in shared}
    return {**own, **arguments, **({"parameters": older} if older else {})}
