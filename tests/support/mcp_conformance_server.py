"""A server for the official conformance suite: our protocol engine with the suite's fixtures.

Every scenario of the suite names a tool, a prompt or a resource that it calls; they are here, and
nothing of Rye is. Run as ``python -m tests.support.mcp_conformance_server`` in the checkout.
"""

import hashlib
import hmac
import json
from collections.abc import Callable, Mapping
from typing import Any

from lillux.cancellation import Cancellation
from lillux.jsonrpc import INVALID_PARAMS, METHOD_NOT_FOUND, Notification
from ryeos.mcp.protocol import McpSession
from ryeos.mcp.revisions import McpCall, Pace, RpcError, Server, Watch, WatchedName
from ryeos.mcp.serve import serve
from ryeos.mcp.stdio import Progress
from ryeos.mcp.wire import Wire, take_over

PIXEL = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4"
    "2mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
)
SILENCE = "UklGRiQAAABXQVZFZm10IBAAAAABAAEARKwAAIhYAQACABAAZGF0YQAAAAA="
NOT_FOUND_LEGACY = -32002
KEY = b"the state of one call goes through the client"

Result = dict[str, Any]


def text(words: str) -> Result:
    return {"type": "text", "text": words}


def image() -> Result:
    return {"type": "image", "data": PIXEL, "mimeType": "image/png"}


def resource(uri: str, media_type: str, words: str) -> Result:
    return {"type": "resource", "resource": {"uri": uri, "mimeType": media_type, "text": words}}


def text_result(text_: str) -> Result:
    return {"content": [text(text_)]}


def user(*blocks: Result) -> Result:
    return {"messages": [{"role": "user", "content": block} for block in blocks]}


# --- constant answers

CONTENTS: dict[str, Result] = {
    "test_simple_text": text_result("This is a simple text response for testing."),
    "test_image_content": {"content": [image()]},
    "test_audio_content": {
        "content": [{"type": "audio", "data": SILENCE, "mimeType": "audio/wav"}]
    },
    "test_embedded_resource": {
        "content": [
            resource(
                "test://embedded-resource", "text/plain", "This is an embedded resource content."
            )
        ]
    },
    "test_multiple_content_types": {
        "content": [
            text("Multiple content types test:"),
            image(),
            resource(
                "test://mixed-content-resource", "application/json", '{"test":"data","value":123}'
            ),
        ]
    },
    "test_error_handling": {
        "isError": True,
        **text_result("This tool intentionally returns an error for testing"),
    },
    "test_logging_tool": text_result("nothing was logged"),
}

# --- questions


def form(message: str, properties: Mapping[str, Any], *, required: bool = True) -> Result:
    schema: Result = {"type": "object", "properties": dict(properties)}
    if required:
        schema["required"] = list(properties)
    return {
        "method": "elicitation/create",
        "params": {"message": message, "requestedSchema": schema},
    }


def sampling(prompt: str, max_tokens: int = 100) -> Result:
    messages = [{"role": "user", "content": text(prompt)}]
    return {
        "method": "sampling/createMessage",
        "params": {"messages": messages, "maxTokens": max_tokens},
    }


STRING = {"type": "string"}
ROOTS: Result = {"method": "roots/list"}
TITLED = [
    {"const": f"value{number}", "title": f"{word} Option"}
    for number, word in enumerate(("First", "Second", "Third"), 1)
]
OPTIONS = ["option1", "option2", "option3"]
DEFAULTS = {
    "name": {"type": "string", "default": "John Doe"},
    "age": {"type": "integer", "default": 30},
    "score": {"type": "number", "default": 95.5},
    "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
    "verified": {"type": "boolean", "default": True},
}
ENUMS = {
    "untitledSingle": {"type": "string", "enum": OPTIONS},
    "titledSingle": {"type": "string", "oneOf": TITLED},
    "legacyEnum": {
        "type": "string",
        "enum": ["opt1", "opt2", "opt3"],
        "enumNames": ["Option One", "Option Two", "Option Three"],
    },
    "untitledMulti": {"type": "array", "items": {"type": "string", "enum": OPTIONS}},
    "titledMulti": {"type": "array", "items": {"anyOf": TITLED}},
}
NAME = {"user_name": form("What is your name?", {"name": STRING})}
CONFIRM = {"confirm": form("Please confirm", {"ok": {"type": "boolean"}})}
USER = {"username": STRING, "email": STRING}
PREFIX = "test_input_required_result_"

# By tool: the questions of each round. A round is sent again until it is answered.
ROUNDS: dict[str, list[dict[str, Result]]] = {
    "test_elicitation_sep1034_defaults": [{"form": form("Review", DEFAULTS, required=False)}],
    "test_elicitation_sep1330_enums": [{"form": form("Choose", ENUMS, required=False)}],
    "test_streaming_elicitation": [NAME],
    "test_missing_capability": [{"question": sampling("anything")}],
    PREFIX + "elicitation": [NAME],
    PREFIX + "sampling": [{"capital_question": sampling("What is the capital of France?")}],
    PREFIX + "list_roots": [{"client_roots": ROOTS}],
    PREFIX + "request_state": [CONFIRM],
    PREFIX + "tampered_state": [CONFIRM],
    PREFIX + "multiple_inputs": [
        {**NAME, "greeting": sampling("Generate a greeting", 50), "client_roots": ROOTS}
    ],
    PREFIX + "multi_round": [
        {"step1": form("Step 1: What is your name?", {"name": STRING})},
        {"step2": form("Step 2: What is your favorite color?", {"color": STRING})},
    ],
}
TRIGGERS = {"test_trigger_tool_change": "tools", "test_trigger_prompt_change": "prompts"}
WITH_ARGUMENT = {"test_sampling": "prompt", "test_elicitation": "message"}
# By tool: its one round of questions, which depends on the call.
OTHERS: dict[str, Callable[[McpCall], dict[str, Result]]] = {
    "test_sampling": lambda call: {"sample": sampling(call.params["arguments"]["prompt"])},
    "test_elicitation": lambda call: {"form": form(call.params["arguments"]["message"], USER)},
    PREFIX + "capabilities": lambda call: {
        name: question
        for name, question in (("elicitation", NAME["user_name"]), ("sampling", sampling("?")))
        if call.caller.can(name)
    },
}
WITH_NEWS = ("test_tool_with_logging", "test_tool_with_progress")

# --- prompts and resources

PROMPTS: dict[str, tuple[str, ...]] = {
    "test_simple_prompt": (),
    "test_prompt_with_arguments": ("arg1", "arg2"),
    "test_prompt_with_embedded_resource": ("resourceUri",),
    "test_prompt_with_image": (),
    PREFIX + "prompt": (),
}
RESOURCES: dict[str, Result] = {
    "test://static-text": {
        "mimeType": "text/plain",
        "text": "This is the content of the static text resource.",
    },
    "test://static-binary": {"mimeType": "image/png", "blob": PIXEL},
    "test://watched-resource": {"mimeType": "text/plain", "text": "watched"},
}
TEMPLATE = "test://template/{id}/data"


class ConformanceFeatures:
    """See `ryeos.mcp.stdio.Features`."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._changed: Callable[[WatchedName], None] = lambda _: None

    def began(self) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing: no resource is open."""

    def watch(self, watch: Watch, changed: Callable[[WatchedName], None]) -> None:  # noqa: ARG002
        """Keep the callback: only tools change lists and resources."""
        self._changed = changed

    def task(self, task_id: str) -> Result | None:  # noqa: ARG002
        """None: there are no tasks."""
        return None

    def pace(self, call: McpCall) -> Pace:  # noqa: ARG002
        """Every request may be slow."""
        return Pace.LONG

    def answer(self, call: McpCall, cancellation: Cancellation, progress: Progress) -> Result:  # noqa: ARG002
        """The result of a call. Raises RpcError."""
        if call.method == "tools/call":
            return self._call_tool(call, progress)
        if call.method == "logging/setLevel" and call.caller.is_modern:
            raise RpcError(METHOD_NOT_FOUND, "method not found: logging/setLevel")
        return ANSWERS[call.method](call)

    def _call_tool(self, call: McpCall, progress: Progress) -> Result:
        name = str(call.params.get("name"))
        if name in CONTENTS:
            return CONTENTS[name]
        if name in ROUNDS:
            return ask_in_rounds(call, ROUNDS[name], reported)
        if name in OTHERS:
            return ask_in_rounds(call, [OTHERS[name](call)], reported)
        if name in TRIGGERS:
            self._changed(TRIGGERS[name])
            return text_result("changed")
        match name:
            case "test_tool_with_progress":
                for done in (0, 50, 100):
                    progress(done, 100, "")
            case "test_tool_with_logging":
                self._log(call)
            case _:
                raise RpcError(INVALID_PARAMS, f"unknown tool: {name}")
        return text_result("done")

    def _log(self, call: McpCall) -> None:
        """Our servers have no logging to clients, so that the engine has none: this writes it."""
        for step in () if call.caller.is_modern else ("started", "processing data", "completed"):
            params = {"level": "info", "data": f"Tool {step}"}
            self._wire.send(Notification("notifications/message", params))


def listed_tools() -> list[Result]:
    names = (*CONTENTS, *ROUNDS, *TRIGGERS, *OTHERS, *WITH_NEWS)
    return [
        {
            "name": name,
            "description": name.replace("_", " "),
            "inputSchema": {
                "type": "object",
                "properties": {WITH_ARGUMENT[name]: STRING} if name in WITH_ARGUMENT else {},
            },
        }
        for name in names
    ]


def prompt(name: str, arguments: tuple[str, ...]) -> Result:
    described = [{"name": each, "description": each, "required": True} for each in arguments]
    return {"name": name, "description": name.replace("_", " "), "arguments": described}


def listed(uri: str) -> Result:
    media_type = RESOURCES[uri]["mimeType"]
    return {"uri": uri, "name": uri, "description": "for tests", "mimeType": media_type}


def rendered(call: McpCall) -> Result:
    given = call.params.get("arguments", {})
    match call.params.get("name"):
        case "test_simple_prompt":
            return user(text("This is a simple prompt for testing."))
        case "test_prompt_with_arguments":
            first, second = given.get("arg1"), given.get("arg2")
            return user(text(f"Prompt with arguments: arg1='{first}', arg2='{second}'"))
        case "test_prompt_with_embedded_resource":
            embedded = "Embedded resource content for testing."
            return user(
                resource(given["resourceUri"], "text/plain", embedded),
                text("Please process the embedded resource above."),
            )
        case "test_prompt_with_image":
            return user(image(), text("Please analyze the image above."))
        case name if name == PREFIX + "prompt":
            context = {"user_context": form("What context is it for?", {"context": STRING})}
            return ask_in_rounds(call, [context], lambda answers: user(text(json.dumps(answers))))
    raise RpcError(INVALID_PARAMS, "unknown prompt")


def read(call: McpCall) -> Result:
    uri = str(call.params.get("uri"))
    before, _, after = TEMPLATE.partition("{id}")
    if uri in RESOURCES:
        return {"contents": [{"uri": uri, **RESOURCES[uri]}]}
    if uri.startswith(before) and uri.endswith(after):
        found = {"id": uri[len(before) : -len(after)], "templateTest": True, "data": "of it"}
        return {
            "contents": [{"uri": uri, "mimeType": "application/json", "text": json.dumps(found)}]
        }
    code = INVALID_PARAMS if call.caller.is_modern else NOT_FOUND_LEGACY
    raise RpcError(code, "resource not found", {"uri": uri})


# --- rounds of questions


def ask_in_rounds(
    call: McpCall, rounds: list[dict[str, Result]], finish: Callable[[Result], Result]
) -> Result:
    """The questions of the round that a call is in, or its result after the last."""
    number = round_of(call)
    answers = answers_of(call)
    if all(isinstance(answers.get(key), dict) for key in rounds[number]):
        number += bool(answers)
    if number == len(rounds):
        return finish(answers)
    return {
        "resultType": "input_required",
        "inputRequests": rounds[number],
        "requestState": sealed(number),
    }


def answers_of(call: McpCall) -> Result:
    answers = call.params.get("inputResponses", {})
    if not isinstance(answers, dict) or not all(isinstance(one, dict) for one in answers.values()):
        raise RpcError(INVALID_PARAMS, "inputResponses: expected an object of objects")
    return answers


def round_of(call: McpCall) -> int:
    state = call.params.get("requestState")
    if state is None:
        return 0
    number = str(state).partition(".")[0]
    if not number.isdecimal() or not hmac.compare_digest(str(state), sealed(int(number))):
        raise RpcError(INVALID_PARAMS, "requestState: not the one that was given")
    return int(number)


def sealed(number: int) -> str:
    return f"{number}.{hmac.new(KEY, str(number).encode(), hashlib.sha256).hexdigest()}"


def reported(answers: Result) -> Result:
    return text_result(json.dumps(answers))


ANSWERS: dict[str, Callable[[McpCall], Result]] = {
    "tools/list": lambda _: {"tools": listed_tools()},
    "prompts/list": lambda _: {"prompts": [prompt(*entry) for entry in PROMPTS.items()]},
    "prompts/get": rendered,
    "resources/list": lambda _: {"resources": [listed(uri) for uri in RESOURCES]},
    "resources/templates/list": lambda _: {
        "resourceTemplates": [{"uriTemplate": TEMPLATE, "name": "template"}]
    },
    "resources/read": read,
    "completion/complete": lambda _: {
        "completion": {"values": ["paris", "park", "party"], "total": 3, "hasMore": False}
    },
    "logging/setLevel": lambda _: {},
}
SERVER = Server(
    info={"name": "rye-conformance", "title": "Rye conformance", "version": "1.0.0"},
    instructions="For the official conformance suite.",
    capabilities={
        "tools": {"listChanged": True},
        "prompts": {"listChanged": True},
        "resources": {"subscribe": True, "listChanged": True},
        "completions": {},
        "logging": {},
    },
    methods={
        method: {"completion": "completions"}.get(family := method.partition("/")[0], family)
        for method in (*ANSWERS, "tools/call")
    },
)


def main() -> None:
    """Serve standard input and output until they end."""
    wire = take_over()
    serve(McpSession(SERVER), ConformanceFeatures(wire), wire)


if __name__ == "__main__":
    main()
