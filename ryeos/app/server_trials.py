"""The rights that an import proposes for a local MCP server, tried before they are proposed.

(1) after a person agreed that the program may be started, and never for a dry run
(2) the server is started confined by the rights of its item, with the variables that they let
    through, and asked for its tools, as it is when its tools are written
(3) what it was refused is named with the line of its header that would allow it: no right is added
    that the person has not read
"""

from collections.abc import Mapping
from typing import Any

from lillux.cancellation import Cancellation
from lillux.dotenv_files import read_dotenv
from lillux.env_resolver import ResolvedEnv
from lillux.errors import LilluxError
from lillux.mcp_client.versions import AllowedVersions
from lillux.templating import Names
from lillux.values import dataclass, replace
from ryeos.app.workspace import Rye
from ryeos.imports.plan import ProposedItem
from ryeos.imports.server_items import SERVER_FOLDER
from ryeos.items.context import Context
from ryeos.items.refs import Space
from ryeos.items.specs import tool_spec
from ryeos.items.yaml import parse_yaml
from ryeos.run.anchor import Anchor
from ryeos.run.command import max_output_bytes
from ryeos.run.confinement import CallRights, PathFiller
from ryeos.run.mcp import McpStdioCall, server_variables
from ryeos.run.mcp_config import ServerConfig, Variables
from ryeos.run.mcp_program import server_environment, started_server
from ryeos.run.model import ChainElement, Invocation
from ryeos.run.outcomes import MappedResult
from ryeos.run.refusals import header_line
from ryeos.run.sandbox_policy import Level, SandboxPolicy, policy_of
from ryeos.run.silent_servers import SilentServer

MAX_TRIALS = 20


def is_local_server(item: ProposedItem) -> bool:
    """True if an item is a server that is started from a program of this machine."""
    if item.problems or item.ref.category != SERVER_FOLDER:
        return False
    config = _header(item).get("config") or {}
    return bool(config.get("command"))


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerTrial:
    """The outcome of a trial: what kept the server from answering, and what would allow that."""

    problem: str = ""
    refused: tuple[str, ...] = ()
    allow: str = ""

    @property
    def note(self) -> str:
        """For a person who is to sign these rights; ``""`` where the server answered."""
        if not self.problem:
            return ""
        if not self.refused:
            return f"with these rights it does not start: {self.problem}"
        what = f"it was refused: {', '.join(self.refused)}"
        line = f"; if it may have that, write into its header: sandbox: {{{self.allow}}}"
        return f"with these rights it does not start: {what}{line if self.allow else ''}"


def with_trial(
    rye: Rye, item: ProposedItem, space: Space, cancellation: Cancellation
) -> ProposedItem:
    """The item with a note on what its rights keep it from in a space: steps (2) and (3)."""
    note = trial_of(rye, item, space, cancellation).note
    return replace(item, notes=(*item.notes, note)) if note else item


def trial_of(rye: Rye, item: ProposedItem, space: Space, cancellation: Cancellation) -> ServerTrial:
    """Start a server by what its item says, and ask it for its tools."""
    try:
        call = _call_of(rye, item, space)
        result = call.run(cancellation=cancellation) if call else None
    except LilluxError as error:
        return ServerTrial(problem=str(error))
    if result is None or result.success:
        return ServerTrial()
    return _judged(result)


def _judged(result: MappedResult) -> ServerTrial:
    refused = result.metadata.get("refused") or ()
    return ServerTrial(
        problem=str(result.error),
        refused=tuple(f"{one['what']} {one['target']}" for one in refused),
        allow=header_line(one["allow"] for one in refused),
    )


def _header(item: ProposedItem) -> Mapping[str, Any]:
    return parse_yaml(item.data.decode(), str(item.ref))


def _call_of(rye: Rye, item: ProposedItem, space: Space) -> McpStdioCall | None:
    """The call that asks it for its tools; None where nothing holds rights here.

    Raises SpecError, RyeError.
    """
    context, spec = rye.context, tool_spec(_header(item), item.suffix)
    policy = policy_of(rye.config, context)
    if policy.level is Level.OFF or spec.sandbox is None:
        return None
    project = str(context.project_path or context.cwd)
    user = context.spaces.user
    fixed = {
        "project_path": project,
        "user_space": str(user.base),
        "tool_id": item.ref.id,
        **dict.fromkeys(("tool_dir", "anchor_path"), project),
    }
    variables = _variables(rye, item)
    names = Names(variables=variables, fixed=fixed)
    found = ServerConfig(
        tool_name="",
        config=spec.config,
        names=names,
        variables=Variables(variables),
        wanted=AllowedVersions(),
        timeout_s=None,
    )
    element = ChainElement(
        item_id=item.ref.id, requested_id=item.ref.id, space=space.label, spec=spec
    )
    rights = _rights_of(context, policy, element, Anchor(names=fixed))
    words = (spec.config["command"], *(spec.config.get("args") or ()))
    surroundings = server_environment(context.tool_environment(), space.tier)
    server = started_server(found, words, tier=space.tier, env=surroundings)
    allows = rights.allows_variable(ResolvedEnv(variables=server.env))
    server = replace(server, env=server_variables(server.env, found, allows))
    program = rights.program(server.argv[0], server.env, str(server.cwd))
    return McpStdioCall(
        found=found,
        server=server,
        arguments={},
        contributed=(),
        invocation=Invocation(
            argv=(program, *server.argv[1:]),
            env=server.env,
            cwd=server.cwd,
            stdin=b"",
            timeout_s=None,
            max_output_bytes=max_output_bytes(spec.config),
            confinement=rights.confinement(program, server.env),
        ),
        rights=rights,
        starter=b"",
        silent=SilentServer((*server.argv, str(server.cwd)), context.process_env),
    )


def _rights_of(
    context: Context, policy: SandboxPolicy, element: ChainElement, anchor: Anchor
) -> CallRights:
    """The rights that the server's own header gives it, and no more."""
    everything = CallRights(
        level=policy.level,
        declared_by=element.item_id,
        private=policy.private,
        network_env=context.process_env,
        filling=PathFiller(anchor, context, element, {}),
        context=context,
    )
    rights = everything.narrowed(element.spec.sandbox)
    return replace(rights, declared=rights.rights)


def _variables(rye: Rye, item: ProposedItem) -> dict[str, str]:
    """The names in its words: variables of the user, and the values that its settings had."""
    context = rye.context
    own = read_dotenv(context.spaces.user.ai, context.process_env).variables
    moved = {one.variable: one.value for one in item.secrets}
    return {**dict(context.tool_environment()), **own, **moved}
