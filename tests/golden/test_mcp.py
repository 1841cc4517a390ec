"""What the MCP server answers, in both families of revisions: good, bad and broken messages."""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lillux.cancellation import Cancellation
from lillux.jsonrpc import as_json
from lillux.key_files import save_keypair
from lillux.mcp_client.versions import CAPABILITIES_KEY, KNOWN, MODERN, VERSION_KEY
from lillux.signing import compute_key_fingerprint
from ryeos.app.parameters import Parameter
from ryeos.app.verbs import OPTIONS, TOOLS, Tool
from ryeos.cli.session import own_program
from ryeos.mcp.features import PROMPT_CHOICES, RyeFeatures, server
from ryeos.mcp.protocol import McpSession
from ryeos.mcp.revisions import Begin, Cancel, RpcError, Send, SessionEvent, Watch
from tests.support.golden import Names, compare
from tests.support.mcp_conversation import NEWEST_LEGACY
from tests.support.workspace import Workspace

Message = dict[str, Any]
REVISIONS = (NEWEST_LEGACY, MODERN)
CAPABILITIES: Message = {"extensions": {"io.modelcontextprotocol/tasks": {}}}
WRONG: dict[str, object] = {
    "string": 3,
    "integer": "many",
    "boolean": "perhaps",
    "object": [1],
    "array": 3,
}
GREETING = "tool:mine/greeting"


@pytest.fixture
def workspace_names(workspace: Workspace, tmp_path: Path) -> Names:
    """Names for the folders and keys of this workspace."""
    bundle = workspace.bundles[0]
    return Names(
        {
            workspace.project_path: "<project>",
            workspace.home: "<home>",
            tmp_path: "<tmp>",
            bundle.base: "<bundle>",
            compute_key_fingerprint(bundle.pinned_pem): "<bundle key>",
            workspace.fingerprint: "<own key>",
        }
    )


class Talk:
    """A client's side of one conversation, written down."""

    def __init__(self, workspace: Workspace, names: Names, *, profile: str = "five") -> None:
        rye = workspace.rye()
        self._features = RyeFeatures(lambda: rye, own_program, lambda: None, profile=profile)
        self._session = McpSession(server("1", "/project"), max_line_bytes=64 * 1024)
        self._names = names
        self._next_id = 0
        self.lines: list[str] = []

    def begin(self, version: str) -> None:
        """The beginning that revisions up to the last legacy one have."""
        info = {"name": "client", "version": "1"}
        params = {"protocolVersion": version, "capabilities": CAPABILITIES, "clientInfo": info}
        self.ask(version, "initialize", params)
        self.say({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def ask(self, version: str, method: str, params: object = None) -> None:
        """A request of a revision, and its answer."""
        self._next_id += 1
        message: Message = {"jsonrpc": "2.0", "id": self._next_id, "method": method}
        if version == MODERN:
            meta = {VERSION_KEY: MODERN, CAPABILITIES_KEY: CAPABILITIES}
            given = params if isinstance(params, dict) else {}
            message["params"] = {"_meta": meta, **given}
        elif params is not None:
            message["params"] = params
        shown = {} if params is None else {"params": params}
        self.raw(json.dumps(message).encode(), f"{method} {json.dumps(shown)}")

    def say(self, message: object, *, carry_out: bool = True) -> None:
        """A message as it is, and what follows."""
        text = json.dumps(message)
        self.raw(text.encode(), text, carry_out=carry_out)

    def raw(self, line: bytes, shown: str = "", *, carry_out: bool = True) -> None:
        """The bytes of a line, and what follows."""
        self.lines.append(f"\n> {shown or repr(line)[:200]}")
        for event in self._session.receive(line + b"\n"):
            self._event(event, carry_out=carry_out)

    def _event(self, event: SessionEvent, *, carry_out: bool) -> None:
        match event:
            case Send(message):
                shown = json.dumps(as_json(message), indent=1, ensure_ascii=False)
                self.lines.append(self._names.replaced(f"< {shown}"))
            case Cancel(request_id):
                self.lines.append(f"cancelled {request_id}")
            case Watch(lists, uris, tasks):
                ids = sorted(one.id for one in tasks)
                self.lines.append(f"watches {sorted(lists)} {sorted(uris)} {ids}")
            case Begin(call):
                if carry_out:
                    for answer in self._carried_out(event):
                        self._event(answer, carry_out=True)
                else:
                    self.lines.append(f"began {call.id}")

    def _carried_out(self, begin: Begin) -> Iterable[SessionEvent]:
        call = begin.call
        try:
            result = self._features.answer(call, Cancellation(), lambda *_: None)
        except RpcError as error:
            return list(self._session.fail(call.id, error))
        return list(self._session.succeed(call.id, result))

    def finish(self, name: str) -> None:
        """Compare all of it."""
        self._features.close()
        compare(f"mcp/{name}", "\n".join(self.lines).lstrip("\n"))


@pytest.fixture
def furnished(workspace: Workspace) -> Workspace:
    """A project with items in each state."""
    project = workspace.project
    save_keypair(workspace.context().key_directory, workspace.keypair)
    schema = (
        "config_schema:\n  type: object\n  required: [name]\n  properties:\n"
        "    name: {type: string, minLength: 2, description: a name}\n"
        "    count: {type: integer, maximum: 3, description: how often}\n"
        "  additionalProperties: false\n"
    )
    project.signed_yaml("mine/greeting", f'{schema}config: {{command: "echo hello"}}\n')
    project.signed_yaml("mine/fails", 'config: {command: "echo no >&2; exit 3"}\n')
    project.yaml_tool("mine/unsigned", 'config: {command: "echo hello"}\n')
    changed = project.signed_yaml("mine/changed", 'config: {command: "echo hello"}\n')
    changed.write_text(changed.read_text("utf-8") + "# more\n", "utf-8")
    inputs = '<inputs><input name="name" type="string" required="true">a name</input></inputs>'
    project.sign(project.directive("mine/hello", "Greet {input:name}.", inputs))
    project.sign(project.knowledge("mine/fact"))
    return workspace


def wrong_arguments(tool: Tool) -> Iterator[Message]:
    """Arguments of which one is wrong: its type, its word, its range, its name, its absence."""
    good = {one.name: "x" for one in tool.parameters if one.required}
    if any(one.required for one in tool.parameters):
        yield {}
    for one in tool.parameters:
        for value in _wrong_values(one):
            yield {**good, **({OPTIONS: {one.name: value}} if one.is_rare else {one.name: value})}
    yield {**good, "no_such": 1}
    yield {**good, OPTIONS: {"no_such": 1}}


def _wrong_values(parameter: Parameter) -> Iterator[object]:
    yield WRONG[parameter.type]
    if parameter.enum:
        yield "no-such-word"
    if parameter.maximum is not None:
        yield parameter.maximum + 1
    if parameter.minimum is not None:
        yield parameter.minimum - 1


@pytest.mark.parametrize("version", REVISIONS)
def test_beginnings_and_lists_are_as_recorded(
    furnished: Workspace, workspace_names: Names, version: str
) -> None:
    talk = Talk(furnished, workspace_names)
    if version != MODERN:
        talk.ask(version, "tools/list")
        talk.begin(version)
        talk.begin(version)
    for method in (
        *("server/discover", "ping", "tools/list", "prompts/list", "resources/list"),
        *("resources/templates/list", "skills/list", "no/such", "logging/setLevel"),
    ):
        talk.ask(version, method)
    talk.ask(version, "prompts/list", {"cursor": "no-such"})
    talk.ask(version, "resources/list", {"cursor": 3})

    talk.finish(f"{version}/lists")


@pytest.mark.parametrize("profile", ["five", "node", "all"])
def test_listed_tools_are_as_recorded(
    workspace: Workspace, workspace_names: Names, profile: str
) -> None:
    talk = Talk(workspace, workspace_names, profile=profile)

    talk.ask(MODERN, "tools/list")

    talk.finish(f"tools_{profile}")


@pytest.mark.parametrize("version", sorted(KNOWN))
def test_the_first_answer_in_each_revision_is_as_recorded(
    workspace: Workspace, workspace_names: Names, version: str
) -> None:
    talk = Talk(workspace, workspace_names)

    talk.begin(version)
    talk.ask(version, "tools/call", {"name": "help", "arguments": {"topic": "no-such"}})
    talk.ask(version, "tools/call", {"name": "search", "arguments": {"limit": 0}})

    talk.finish(f"first/{version}")


@pytest.mark.parametrize("version", REVISIONS)
@pytest.mark.parametrize("name", TOOLS)
def test_calls_with_wrong_arguments_are_answered_as_recorded(
    furnished: Workspace, workspace_names: Names, version: str, name: str
) -> None:
    talk = Talk(furnished, workspace_names)
    if version != MODERN:
        talk.begin(version)
    for arguments in wrong_arguments(TOOLS[name]):
        talk.ask(version, "tools/call", {"name": name, "arguments": arguments})
    no_mappings: tuple[object, ...] = (3, [], "x", None)
    for no_arguments in no_mappings:
        talk.ask(version, "tools/call", {"name": name, "arguments": no_arguments})

    talk.finish(f"{version}/wrong_{name}")


@pytest.mark.parametrize("version", REVISIONS)
def test_calls_are_answered_as_recorded(
    furnished: Workspace, workspace_names: Names, version: str
) -> None:
    talk = Talk(furnished, workspace_names)
    if version != MODERN:
        talk.begin(version)
    for name, arguments in _calls():
        talk.ask(version, "tools/call", {"name": name, "arguments": arguments})
    named = ({"name": name} for name in (3, "no-such", "rye_help"))
    for params in ({}, *named, [], "x"):
        talk.ask(version, "tools/call", params)

    talk.finish(f"{version}/calls")


def _calls() -> Iterator[tuple[str, Message]]:
    for item in (
        *("tool:mine/absent", "mine/greting", "thing:mine/x", "tool:", "tool:../x", ""),
        *("tool:mine/unsigned", "tool:mine/changed", "tool:mine/fails", "directive:mine/hello"),
    ):
        yield "execute", {"item_id": item}
        yield "load", {"item_id": item}
    for parameters in ({}, {"name": "x"}, {"name": "ab", "count": 9}, {"name": "ab", "more": 1}):
        yield "execute", {"item_id": GREETING, "parameters": parameters, OPTIONS: {"dry_run": True}}
    yield "execute", {"item_id": GREETING, "parameters": {"name": "ab"}}
    yield "execute", {"item_id": "directive:mine/hello", "parameters": {"name": "Ada"}}
    yield "execute", {"item_id": "knowledge:mine/fact"}
    yield "execute", {"item_id": GREETING, OPTIONS: {"project_path": "/absent"}}
    yield "execute", {"item_id": "thread:absent"}
    yield "load", {"item_id": "knowledge:mine/fact"}
    yield "load", {"item_id": GREETING, "destination": "nowhere"}
    yield "load", {"item_id": "rye://thread/absent"}
    yield "search", {"query": '"'}
    yield "search", {"query": "greeting", "scope": "tool.mine.*"}
    yield "search", {"query": "x", "scope": "nothing"}
    yield "fetch", {}
    yield "fetch", {"item_id": "x", "query": "y"}
    yield "sign", {"item_id": "tool:mine/absent"}
    yield "sign", {"item_id": "tool:rye/bash/bash"}
    yield "sign", {"item_id": "tool:mine/unsigned"}
    yield "sign", {"item_id": "tool:mine/new", "content": "a: [b"}
    yield "help", {"topic": "no-such"}
    yield "help", {"topic": "error:UNSIGNED"}
    yield "help", {"topic": "item:tool:mine/absent"}
    yield "help", {"topic": "refs"}


@pytest.mark.parametrize("version", REVISIONS)
def test_other_requests_are_answered_as_recorded(
    furnished: Workspace, workspace_names: Names, version: str
) -> None:
    talk = Talk(furnished, workspace_names)
    if version != MODERN:
        talk.begin(version)
    prompt = {"type": "ref/prompt", "name": "mine/hello"}
    for method, params in (
        ("prompts/get", {}),
        ("prompts/get", {"name": "no-such"}),
        ("prompts/get", {"name": 3}),
        ("prompts/get", {"name": "mine/hello"}),
        ("resources/read", {}),
        ("resources/read", {"uri": 3}),
        ("resources/read", {"uri": "no-such"}),
        ("resources/read", {"uri": "file:///etc/passwd"}),
        ("resources/read", {"uri": "rye://item/tool:mine/absent"}),
        ("resources/read", {"uri": "rye://knowledge/mine/fact"}),
        ("resources/subscribe", {"uri": "rye://knowledge/mine/fact"}),
        ("resources/subscribe", {"uri": 3}),
        ("resources/unsubscribe", {"uri": "rye://knowledge/mine/fact"}),
        ("subscriptions/listen", {}),
        ("subscriptions/listen", {"notifications": {"toolsListChanged": True}}),
        ("subscriptions/listen", {"notifications": 3}),
        ("completion/complete", {}),
        ("completion/complete", {"ref": prompt, "argument": {"name": "name", "value": "a"}}),
        ("completion/complete", {"ref": {"type": "no-such"}, "argument": {}}),
        ("completion/complete", {"ref": prompt, "argument": 3}),
        ("tasks/get", {"taskId": "no-such"}),
        ("tasks/get", {}),
        ("tasks/update", {"taskId": "no-such"}),
        ("tasks/cancel", {"taskId": "no-such"}),
        ("skills/get", {"name": "no-such"}),
    ):
        talk.ask(version, method, params)

    talk.finish(f"{version}/others")


def test_broken_messages_are_answered_as_recorded(
    workspace: Workspace, workspace_names: Names
) -> None:
    talk = Talk(workspace, workspace_names)
    for line in (
        *(b"", b"{", b"\xff\xfe", b"3", b'"x"', b"null", b"[]", b"[3]", b"{}"),
        b"\xef\xbb\xbf{}",
        b'{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}',
        b'{"jsonrpc":"2.0","id":1,"method":"ping","x":NaN}',
        b"[" * 500,
        b'{"jsonrpc":"2.0","id":1,"method":"' + b"x" * 70_000 + b'"}',
    ):
        talk.raw(line)
    for message in (
        {"id": 1, "method": "ping"},
        {"jsonrpc": "1.0", "id": 1, "method": "ping"},
        {"jsonrpc": "2.0", "id": None, "method": "ping"},
        {"jsonrpc": "2.0", "id": 1.5, "method": "ping"},
        {"jsonrpc": "2.0", "id": True, "method": "ping"},
        {"jsonrpc": "2.0", "id": {}, "method": "ping"},
        {"jsonrpc": "2.0", "id": "x" * 300, "method": "ping"},
        {"jsonrpc": "2.0", "id": 1},
        {"jsonrpc": "2.0", "id": 1, "method": 3},
        {"jsonrpc": "2.0", "id": 1, "method": "ping", "params": 3},
        {"jsonrpc": "2.0", "id": 1, "result": {}},
        {"jsonrpc": "2.0", "id": 1, "error": 3},
        {"jsonrpc": "2.0", "method": "no/such"},
        {"jsonrpc": "2.0", "id": 2, "method": "initialize"},
        {"jsonrpc": "2.0", "id": 3, "method": "initialize", "params": {"protocolVersion": 3}},
        {"jsonrpc": "2.0", "id": 4, "method": "initialize", "params": {"protocolVersion": "2"}},
        [{"jsonrpc": "2.0", "id": 5, "method": "ping"}],
    ):
        talk.say(message)
    for meta in ({VERSION_KEY: "2099-01-01"}, {VERSION_KEY: 3}, {VERSION_KEY: MODERN}, 3):
        params = {"_meta": meta}
        talk.say({"jsonrpc": "2.0", "id": 6, "method": "tools/list", "params": params})

    talk.finish("broken")


@pytest.mark.parametrize("version", REVISIONS)
def test_cancelled_calls_are_answered_as_recorded(
    workspace: Workspace, workspace_names: Names, version: str
) -> None:
    talk = Talk(workspace, workspace_names)
    meta = {VERSION_KEY: MODERN, CAPABILITIES_KEY: CAPABILITIES} if version == MODERN else {}
    if version != MODERN:
        talk.begin(version)
    call = {"name": "help", "arguments": {}, "_meta": meta}
    talk.say({"jsonrpc": "2.0", "id": "a", "method": "tools/call", "params": call}, carry_out=False)
    talk.say({"jsonrpc": "2.0", "id": "a", "method": "tools/call", "params": call}, carry_out=False)
    for params in ({"requestId": "b"}, {"requestId": "a"}, {"requestId": "a"}, {}, 3):
        message = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}
        talk.say(message, carry_out=False)
    talk.ask(version, "ping")

    talk.finish(f"{version}/cancelled")


@pytest.mark.parametrize("choice", PROMPT_CHOICES)
def test_what_a_server_says_of_itself_is_as_recorded(choice: str, names: Names) -> None:
    said = [server("1", "/project", prompts=choice, skills=skills) for skills in (False, True)]

    shown = [
        json.dumps(
            {
                "info": one.info,
                "instructions": one.instructions,
                "capabilities": one.capabilities,
                "methods": one.methods,
            },
            indent=1,
            ensure_ascii=False,
            default=str,
        )
        for one in said
    ]

    compare(f"mcp/server_{choice}", names.replaced("\n".join(shown)))
