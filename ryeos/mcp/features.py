"""Rye's offers over MCP: its tools, and directives and items as prompts and resources.

Nothing here is imported before it is asked for: the first answers need none of it.
"""

from __future__ import annotations

from _thread import allocate_lock  # as in `ryeos.mcp.wire`
from collections.abc import Callable, Hashable, Mapping
from functools import cached_property, partial
from importlib import import_module

from lillux.errors import LilluxError
from lillux.jsonrpc import INVALID_PARAMS
from ryeos.mcp.revisions import TASKS_EXTENSION, McpCall, Pace, RpcError, Server, Watch, WatchedName
from ryeos.mcp.wire import MESSAGE, Log, quiet, report_failure

TYPE_CHECKING = False  # importing `typing` would slow the start
if TYPE_CHECKING:  # the engine comes with the first call
    from pathlib import Path
    from typing import Any

    from lillux.cancellation import Cancellation
    from ryeos.app.policy import AgentPolicy
    from ryeos.app.progress import CallContext, Progress
    from ryeos.app.verbs import ToolArguments
    from ryeos.app.workspace import Rye
    from ryeos.items.context import Context
    from ryeos.items.refs import ItemRef
    from ryeos.mcp.changes import ChangeWatcher
    from ryeos.mcp.questions import PriorValues, States
    from ryeos.mcp.waiting import ProposedTexts
    from ryeos.run.threads.start import Program

_TRACE_FIELDS = ("traceparent", "tracestate", "baggage")
_FIRST_LOOK_S = 5.0
PROMPT_CHOICES = ("tagged", "all", "none")

# What answers each method beside those of tools: a module and a function in it, by capability.
_PROMPTS = {
    "prompts/list": ("prompts", "list_prompts"),
    "prompts/get": ("prompts", "get_prompt"),
}
_RESOURCES = {
    "resources/list": ("resources", "list_resources"),
    "resources/templates/list": ("resources", "list_templates"),
    "resources/read": ("resources", "read_resource"),
}
_COMPLETIONS = {"completion/complete": ("completion", "complete")}
_TASKS = {
    "tasks/get": ("tasks", "get_task"),
    "tasks/update": ("tasks", "update_task"),
    "tasks/cancel": ("tasks", "cancel_task"),
}
_SKILLS = {
    "skills/list": ("skills", "list_skills"),
    "skills/get": ("skills", "get_skill"),
    "resources/directory/read": ("skills", "read_directory"),
}
_ANSWERS: Mapping[str, tuple[str, str]] = {
    **_PROMPTS,
    **_RESOURCES,
    **_COMPLETIONS,
    **_TASKS,
    **_SKILLS,
}
SKILLS_EXTENSION = "io.modelcontextprotocol/skills"


class RyeFeatures:
    """See `ryeos.mcp.stdio.Features`.

    rye      makes the public API; called once, when the first call needs it
    program  how this program is started once more, for runs in the background
    hold     keeps what may still be read of the program's own file
    profile  which tools are listed
    log      gets what no client sees
    prompts  which directives are prompts: ``tagged`` are those of project and user, and of the
             system those with the tag ``prompt``; ``all``; ``none``
    skills   whether directives are skills as well
    sign     what becomes of a wish to sign: ``ask``, ``never``, ``allow``; else as user space says
    rules    pairs of a decision (``allow``, ``ask``, ``deny``) and a pattern of items
    """

    def __init__(
        self,
        rye: Callable[[], Rye],
        program: Callable[[Context], Program],
        hold: Callable[[], None],
        *,
        profile: str = "five",
        prompts: str = PROMPT_CHOICES[0],
        skills: bool = False,
        sign: str = "",
        rules: tuple[tuple[str, str], ...] = (),
        log: Log = quiet,
    ) -> None:
        self._sign, self._rules, self._client = sign, rules, ""
        self._make_rye, self._program, self._hold = rye, program, hold
        self._profile, self._prompts, self._skills = profile, prompts, skills
        self._log = log
        self._rye: Rye | None = None
        self._lock, self._ready_lock = allocate_lock(), allocate_lock()
        self._is_ready = False
        self._session: dict[str, bool] = {}
        self._told: set[str] = set()  # warnings that hold until the user approves something
        self._proposed: ProposedTexts | None = None

    @property
    def rye(self) -> Rye:
        """The public API for the server's own project. Raises LilluxError where there is none."""
        with self._lock:  # or two calls would make one each
            if self._rye is None:
                self._rye = self._make_rye()
                self._rye.require_visible = self._require_visible
                self._rye.require_project = self._require_project
                self._rye.caller = self._caller
            return self._rye

    def _caller(self) -> Mapping[str, Any]:
        """The caller for receipts; the client reports its own name."""
        return {"kind": "mcp", "client": self._client}

    def _require_visible(self, ref: ItemRef) -> None:
        self.policy.require_visible(self._client, ref)

    def _require_project(self, path: Path) -> None:
        from ryeos.app.agent_projects import require_project
        from ryeos.app.policy import POLICY_PATH

        context = self.rye.context
        policy = context.spaces.user.ai / "config" / POLICY_PATH
        require_project(path, context, self.policy.projects, policy)

    @cached_property
    def policy(self) -> AgentPolicy:
        """The policy of the user for this client. Raises LilluxError for a broken policy."""
        from ryeos.app.policy import policy_of

        return policy_of(self.rye.config, sign=self._sign, rules=self._rules)

    def began(self) -> None:
        """Import the engine while the client reads the first answer."""
        self._make_ready()

    def _make_ready(self) -> None:
        """Have the engine, and need the program's own file no longer; once, before any call."""
        with self._ready_lock:
            if self._is_ready:
                return
            import ryeos.app.execute  # noqa: F401 - for what it brings along

            self._hold()
            self._is_ready = True

    def close(self) -> None:
        """End warm workers."""
        if self._rye:
            self._rye.close()

    def watch(self, watch: Watch, changed: Callable[[WatchedName], None]) -> None:
        """Look out for changes; not while there is no subscriber."""
        if watch.lists or watch.uris or watch.tasks or "_watching" in self.__dict__:
            self._watching.watch(watch, changed)

    @cached_property
    def _watching(self) -> ChangeWatcher:
        """Used by the reader's thread only."""
        from ryeos.mcp.changes import ChangeWatcher

        return ChangeWatcher(self._state_of)

    def task(self, task_id: str) -> dict[str, Any] | None:
        """The state of a task; None where that is unknown."""
        from ryeos.mcp.tasks import reported_task

        return reported_task(lambda: self.rye, task_id)

    def _state_of(self, name: WatchedName) -> Hashable:
        from ryeos.mcp.changes import state_of

        return state_of(lambda: self.rye, name)

    def pace(self, call: McpCall) -> Pace:
        """The cost of a call: it runs programs, looks things up, or needs no more than a table."""
        if call.method == "tools/list":
            return Pace.AT_ONCE
        is_execute = str(call.params.get("name")).endswith("execute")
        return Pace.LONG if call.method == "tools/call" and is_execute else Pace.SHORT

    def answer(
        self, call: McpCall, cancellation: Cancellation, progress: Progress
    ) -> dict[str, Any]:
        """The result of a call. Raises RpcError."""
        match call.method:
            case "tools/list":
                if call.params.get("cursor") is not None:  # all tools are on one page
                    raise RpcError(INVALID_PARAMS, "cursor: expected one that this server gave")
                from ryeos.app.verbs import listed

                return {"tools": [*listed(self._profile), *self._named_tools()]}
            case "tools/call":
                return self._call_tool(call, cancellation, progress)
        module, function = _ANSWERS[call.method]
        if "_watching" in self.__dict__:  # who learns of changes misses none after this answer
            self._watching.await_look(_FIRST_LOOK_S)
        from ryeos.mcp.request_context import RequestContext, refusal

        states, prior_values = self._kept()
        request = RequestContext(
            make_rye=lambda: self.rye,
            call=call,
            prompts=self._prompts,
            skills=self._skills,
            states=states,
            prior_values=prior_values,
        )
        answer: Callable[[RequestContext], dict[str, Any]]
        answer = getattr(import_module(f"ryeos.mcp.{module}"), function)
        try:
            return answer(request)
        except LilluxError as error:  # of the environment: each module reports its own
            raise refusal(error) from None

    def _kept(self) -> tuple[States, PriorValues]:
        """Values that one request leaves for another, for as long as this process lives."""
        with self._lock:
            return self._kept_values

    @cached_property
    def _kept_values(self) -> tuple[States, PriorValues]:
        from ryeos.mcp.questions import PriorValues, States

        return States(), PriorValues()

    def _call_tool(
        self, call: McpCall, cancellation: Cancellation, progress: Progress
    ) -> dict[str, Any]:
        from ryeos.app.progress import CallContext
        from ryeos.app.verb_arguments import with_options
        from ryeos.app.verbs import tool_named

        self._make_ready()
        name, arguments = call.params.get("name"), call.params.get("arguments", {})
        if not isinstance(name, str):
            raise RpcError(INVALID_PARAMS, "name: expected a string")
        if not isinstance(arguments, dict):
            raise RpcError(INVALID_PARAMS, "arguments: expected an object")
        tool = tool_named(name)
        self._client = call.caller.client
        if tool is None:
            named = self._named_item(name)
            if named:
                arguments = {"item_id": named, "parameters": arguments}
                tool = tool_named("execute")
        if tool is None:
            from ryeos.mcp.other_names import unknown_tool

            said, instead = unknown_tool(name, arguments)
            raise RpcError(INVALID_PARAMS, said, {"next": [instead]} if instead else None)
        calling = CallContext(
            cancellation=cancellation,
            progress=progress,
            wants_progress=call.caller.progress_token is not None,
            extra_env=_trace_variables(call.caller.meta),
            known_texts=self._proposed.known if self._proposed else {},
        )
        from ryeos.items.errors import error_envelope
        from ryeos.mcp.results import sent_once, tool_result

        try:
            arguments = with_options(arguments)
            return sent_once(self._carried_out(call, tool.name, arguments, calling), arguments)
        except LilluxError as error:
            failed = self._with_next(error_envelope(error), tool.name, arguments)
            return tool_result(failed, verb=tool.name)
        except RpcError:
            raise
        except Exception as error:  # noqa: BLE001 - a door: the envelope says it to a model
            reference = report_failure(error, self._log)
            hint = f"this is a bug in rye; standard error has more under {reference}"
            envelope = {"status": "error", "error": MESSAGE, "code": "INTERNAL"}
            return tool_result({**envelope, "error_ref": reference, "hint": hint})

    def _carried_out(
        self, call: McpCall, name: str, given: Mapping[str, object], calling: CallContext
    ) -> dict[str, Any]:
        """The result of a call: ``given`` is read once, before any rule looks at it."""
        from ryeos.app.verb_arguments import valid_arguments
        from ryeos.app.verbs import TOOLS, refused
        from ryeos.items.errors import VerbArgumentError
        from ryeos.mcp.outputs import read_on
        from ryeos.mcp.results import tool_result

        rye = self.rye
        output = read_on(rye.context, given) if name == "load" else None
        if output:
            return tool_result(output)
        result = partial(
            tool_result, context=rye.context, verb=name, arguments=given, told=self._told
        )
        if name == "execute" and given.get("batch") is not None:
            return result(self._batch(call, given, calling), verb="batch")
        try:
            arguments = valid_arguments(TOOLS[name], given)
        except VerbArgumentError as error:
            if name in {"execute", "sign"}:
                raise
            return result(refused(error, given).envelope)
        decided = self._policy_answer(call, name, arguments, calling)
        if decided is not None:
            is_question = decided.get("resultType") == "input_required"
            return dict(decided) if is_question else result(decided)
        envelope = self._tool_answer(rye, name, arguments, calling)
        if self._proposed and name in {"load", "fetch"} and arguments.get("text") is True:
            self._proposed.note_read(envelope)
        if envelope.get("code") == "CONFLICT" and name in {"load", "fetch"}:
            from ryeos.mcp.questions import confirmed

            states, _ = self._kept()
            confirmation = confirmed(states, call, envelope)
            if isinstance(confirmation, dict):
                return confirmation
            if confirmation:
                envelope = self._tool_answer(rye, name, {**given, "overwrite": True}, calling)
        if name == "execute" and call.caller.extends(TASKS_EXTENSION):
            from ryeos.mcp.tasks import created

            task = created(rye, call.caller, envelope)
            if task:
                return task
        return result(self._with_next(envelope, name, given))

    def _with_next(
        self, envelope: Mapping[str, Any], name: str, arguments: Mapping[str, object]
    ) -> Mapping[str, Any]:
        """The answer of a failed call with the one that goes on, if there is one."""
        if envelope.get("status") != "error":
            return envelope
        from ryeos.mcp.waiting import with_next

        try:
            return with_next(envelope, self.rye.context.spaces, name, arguments)
        except LilluxError:  # no Rye could be made: that is the answer
            return envelope

    def _batch(
        self, call: McpCall, arguments: Mapping[str, object], calling: CallContext
    ) -> dict[str, Any]:
        """The answers of several runs, each as it would be alone; none after a failure."""
        from ryeos.app.verb_arguments import valid_arguments, with_options
        from ryeos.app.verbs import TOOLS
        from ryeos.items.errors import VerbArgumentError, error_envelope

        shared = {n: value for n, value in arguments.items() if n in {"project_path", "verbose"}}
        wrong = sorted(arguments.keys() - {"batch", *shared})
        if wrong:
            raise VerbArgumentError(wrong[0], "expected within each call of batch", hint="move it")
        answers: list[dict[str, Any]] = []
        wanted = valid_arguments(TOOLS["execute"], arguments)["batch"]
        for one in wanted:
            # Also in the form of ``next``: {"name": "execute", "arguments": {...}}.
            is_call = one.keys() == {"name", "arguments"} and one["name"] == "execute"
            inner = one["arguments"] if is_call and isinstance(one["arguments"], dict) else one
            given = {**shared, **with_options(inner)}
            if "batch" in given:
                raise VerbArgumentError("batch", "expected no batch within a batch")
            try:
                answer = self._carried_out(call, "execute", given, calling)
            except LilluxError as error:
                answer = {"structuredContent": error_envelope(error), "isError": True}
            asked = {"status": "not_run", "hint": "your user is asked first: execute it by itself"}
            answers.append(answer.get("structuredContent") or asked)
            if answer.get("isError") is not False:
                break
        left = len(wanted) - len(answers)
        is_error = answers[-1].get("status") == "error"
        status = {"status": "error" if is_error else "success"}
        cause = {"error": f"call {len(answers)}: {answers[-1].get('error')}"} if is_error else {}
        return {**status, **cause, "results": answers, **({"not_made": left} if left else {})}

    def _policy_answer(
        self, call: McpCall, name: str, arguments: ToolArguments, calling: CallContext
    ) -> Mapping[str, Any] | None:
        """The outcome of ``sign``, or of a run that policy stops; None for all others."""
        from ryeos.app.policy import Decision, may_name_shell

        asks = self.policy.may_say(Decision.ASK) or may_name_shell(arguments.get("item_id"))
        if name != "sign" and not (name == "execute" and asks):
            return None
        from ryeos.mcp.approvals import ClientQuestions, may_execute, sign_for_agent
        from ryeos.mcp.waiting import ProposedTexts

        self._proposed = proposed = self._proposed or ProposedTexts()
        states = self._kept()[0]
        questions = ClientQuestions(call, states, self.policy, self._session, proposed)
        if name == "sign":
            signed = sign_for_agent(self.rye, arguments, questions)
            return self._tried(call, signed, arguments, calling)
        ref = _item_of_execute(self.rye, arguments)
        return may_execute(ref, arguments, questions) if ref else None

    def _tried(
        self,
        call: McpCall,
        signed: Mapping[str, Any],
        arguments: ToolArguments,
        calling: CallContext,
    ) -> Mapping[str, Any]:
        """The answer of ``sign`` with that of a first run, where one is asked for."""
        parameters = arguments.get("try_parameters")
        if parameters is None or signed.get("status") != "signed":
            return signed
        same = {name: arguments[name] for name in ("project_path",) if name in arguments}
        wanted = {"item_id": signed.get("ref"), "parameters": parameters, **same}
        tried = self._carried_out(call, "execute", wanted, calling)
        # A question to the user is for a call of its own.
        answer = tried.get("structuredContent") or {"status": "not_run", "hint": "execute it"}
        # A trial shows what a directive says; it is not carried out.
        shown = {name: value for name, value in answer.items() if name != "instructions"}
        return {**signed, "tried": shown}

    def _named_tools(self) -> list[dict[str, Any]]:
        """The items that user space wants listed as tools of their own."""
        from ryeos.app.policy import POLICY_PATH

        path = self._policy_file(POLICY_PATH)
        if path is None or not path.is_file():  # the usual case, which needs no engine
            return []
        from ryeos.mcp.listing import named_tools

        return named_tools(self.rye, self.policy.tools)

    def _named_item(self, name: str) -> str | None:
        from ryeos.mcp.listing import tool_name

        return next((ref for ref in self.policy.tools if tool_name(ref) == name), None)

    def _policy_file(self, relative: str) -> Path | None:
        try:
            return self.rye.context.spaces.user.ai / "config" / relative
        except LilluxError:
            return None

    def _tool_answer(
        self, rye: Rye, name: str, arguments: Mapping[str, object], calling: CallContext
    ) -> Mapping[str, Any]:
        if name != "execute":
            from ryeos.app.verbs import answer

            return answer(rye, name, arguments, calling).envelope
        from ryeos.app.execute import execute

        return execute(rye, arguments, calling, self._program).envelope


def server(
    version: str,
    where: str,
    *,
    prompts: str = PROMPT_CHOICES[0],
    skills: bool = False,
) -> Server:
    """This server's words on itself. ``where`` names the project; others as in `RyeFeatures`."""
    capabilities: dict[str, Any] = {
        "tools": {},
        "resources": {"subscribe": True, "listChanged": True},
        "completions": {},
        "extensions": {TASKS_EXTENSION: {}},
    }
    methods = {
        **dict.fromkeys(("tools/list", "tools/call"), "tools"),
        **dict.fromkeys(_RESOURCES, "resources"),
        **dict.fromkeys(_COMPLETIONS, "completions"),
        **dict.fromkeys(_TASKS, "extensions"),
    }
    if prompts != "none":
        capabilities["prompts"] = {"listChanged": True}
        methods |= dict.fromkeys(_PROMPTS, "prompts")
    if skills:
        capabilities["extensions"][SKILLS_EXTENSION] = {"directoryRead": True}
        methods |= dict.fromkeys(_SKILLS, "extensions")
    return Server(
        info={"name": "rye", "title": "Rye OS", "version": version},
        instructions=(
            "Rye runs signed items by id: tools, directives (instructions for you), knowledge."
            " search finds them, load describes one, execute runs it. To make one: sign with its"
            f" id, content and try_parameters writes, signs and runs it. {where}"
        ),
        capabilities=capabilities,
        methods=methods,
        extensions=frozenset({*_TASKS, *_SKILLS}),
    )


def _item_of_execute(rye: Rye, arguments: ToolArguments) -> ItemRef | None:
    """The item that an ``execute`` means; None for what it refuses itself."""
    from ryeos.app.verb_arguments import item_reference, rye_of

    item_id = arguments.get("item_id")
    if item_id is None:
        return None
    try:
        here = rye_of(rye, arguments)
        reference = item_reference(here, item_id, arguments.get("item_type"))
        return here.resolver.resolve(reference).location.ref
    except LilluxError:
        return None


def _trace_variables(meta: Mapping[str, Any]) -> dict[str, str]:
    """The variables that join the processes of a call to the trace of its caller."""
    found = {name.upper(): meta.get(name) for name in _TRACE_FIELDS}
    return {
        name: value
        for name, value in found.items()
        if isinstance(value, str) and value.isprintable()
    }
