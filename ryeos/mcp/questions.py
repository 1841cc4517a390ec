"""Questions to the user during a request, for clients that support elicitation.

(1) the answer to the request is ``input_required``: what is asked, and a sealed state
(2) the client asks its user, and sends the request again with the responses and the state
(3) the state shows that it was us who asked this, of this very request, not long ago

Nothing is kept here in between: the state says it all, under a key that this process has alone.
"""

import hmac
import json
import secrets
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Mapping
from threading import Lock
from typing import Any

from lillux.digests import sha256_hex
from lillux.jsonrpc import INVALID_PARAMS
from lillux.values import dataclass
from ryeos.mcp.revisions import McpCall, McpCaller, RpcError

STATE_TTL_S = 600
MAX_STATE_CHARACTERS = 4096
_PRIMITIVES = frozenset({"string", "integer", "number", "boolean"})
# What a request may carry beside what it asks for.
_CARRIED = frozenset({"_meta", "inputResponses", "requestState"})


@dataclass(frozen=True, slots=True)
class Question:
    """A form for the user: some words, and a flat JSON schema of what is to be filled in."""

    message: str
    properties: Mapping[str, Any]

    def request(self) -> dict[str, Any]:
        """The same as a client gets it."""
        schema = {
            "type": "object",
            "properties": {name: dict(rules) for name, rules in self.properties.items()},
            "required": list(self.properties),
        }
        params = {"mode": "form", "message": self.message, "requestedSchema": schema}
        return {"method": "elicitation/create", "params": params}


class States:
    """Seals states, and opens those that it sealed itself. ``clock`` gives seconds."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._key, self._clock = secrets.token_bytes(32), clock

    def seal(self, purpose: str) -> str:
        """A state for this purpose, good for `STATE_TTL_S`."""
        body = json.dumps([int(self._clock()) + STATE_TTL_S, purpose]).encode()
        return f"{_text(body)}.{_text(self._seal_of(body))}"

    def require(self, state: object, purpose: str) -> None:
        """Raises RpcError if the state is not one of this purpose, or no longer."""
        if not isinstance(state, str) or len(state) > MAX_STATE_CHARACTERS:
            raise RpcError(INVALID_PARAMS, "requestState: expected the one that this server gave")
        try:
            body, seal = map(_bytes, state.split("."))
        except ValueError:
            raise RpcError(INVALID_PARAMS, "requestState: not one of this server's") from None
        if not hmac.compare_digest(seal, self._seal_of(body)):
            raise RpcError(INVALID_PARAMS, "requestState: not one of this server's")
        expires, sealed_purpose = json.loads(body)
        if sealed_purpose != purpose:
            raise RpcError(INVALID_PARAMS, "requestState: it belongs to another request")
        if self._clock() > expires:
            raise RpcError(INVALID_PARAMS, "requestState: too old; send the request again")

    def _seal_of(self, body: bytes) -> bytes:
        return hmac.digest(self._key, body, "sha256")


def can_ask(caller: McpCaller) -> bool:
    """True if this request's client can put a form before its user."""
    if not caller.is_modern or not caller.can("elicitation"):
        return False
    modes = caller.capabilities["elicitation"]
    return not modes or isinstance(modes.get("form"), dict)


def input_required(states: States, call: McpCall, key: str, question: Question) -> dict[str, Any]:
    """The result that asks for more (1)."""
    return {
        "resultType": "input_required",
        "inputRequests": {key: question.request()},
        "requestState": states.seal(_purpose(call, key)),
    }


def has_responses(call: McpCall) -> bool:
    """True if a request is the second one, with what the user said."""
    return call.params.get("inputResponses") is not None


def response_of(states: States, call: McpCall, key: str) -> dict[str, Any] | None:
    """The user's answers (3); None for a user who did not want to. Raises RpcError."""
    responses = call.params.get("inputResponses")
    response = responses.get(key) if isinstance(responses, dict) else None
    if not isinstance(response, dict):
        raise RpcError(INVALID_PARAMS, f"inputResponses: expected an object with {key}")
    states.require(call.params.get("requestState"), _purpose(call, key))
    match response.get("action"):
        case "accept":
            content = response.get("content", {})
            if not isinstance(content, dict):
                raise RpcError(INVALID_PARAMS, f"inputResponses.{key}.content: expected an object")
            return content
        case "decline" | "cancel":
            return None
    raise RpcError(INVALID_PARAMS, f"inputResponses.{key}.action: accept, decline or cancel")


def primitive(type_name: str | None, description: str) -> dict[str, Any]:
    """The schema that a form asks a value with; anything with parts is asked for as its JSON."""
    if type_name in _PRIMITIVES:
        schema: dict[str, Any] = {"type": type_name}
    else:
        schema = {"type": "string"}
        if type_name:
            description = f"{description} (JSON: {type_name})".strip()
    return schema | ({"description": description} if description else {})


def _purpose(call: McpCall, key: str) -> str:
    """The purpose of a state: this question, in a request for just this."""
    request = {name: value for name, value in call.params.items() if name not in _CARRIED}
    text = json.dumps([call.method, key, request], sort_keys=True)
    return sha256_hex(text.encode())


def _text(data: bytes) -> str:
    return urlsafe_b64encode(data).decode().rstrip("=")


def _bytes(text: str) -> bytes:
    """Raises ValueError."""
    data = text.encode("ascii")
    return urlsafe_b64decode(data + b"=" * (-len(data) % 4))


# Asking the user before a copy replaces another file, where the client can ask.

OVERWRITE = "overwrite"


def confirmed(states: States, call: McpCall, refused: Mapping[str, Any]) -> dict[str, Any] | bool:
    """True if the user wants the file replaced; or the result that asks for it.

    ``refused`` is the answer that says which file is in the way. Raises RpcError.
    """
    if has_responses(call):
        content = response_of(states, call, OVERWRITE)
        return content is not None and content.get(OVERWRITE) is True
    if not can_ask(call.caller):
        return False
    rules = {
        "type": "boolean",
        "description": "replace it; it is kept in user space",
        "default": False,
    }
    question = Question(f"{refused['error']}. Replace it?", {OVERWRITE: rules})
    return input_required(states, call, OVERWRITE, question)


# What the arguments of prompts were, to be offered again. In memory, for as long as we serve.

MAX_KEPT = 20
MAX_CHARACTERS = 200
MAX_NAMES = 500


class PriorValues:
    """The latest values of each argument of each prompt, the newest first. Safe from any thread.

    Nothing is kept of an argument whose name looks like that of a secret, nor of a long text.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._values: dict[tuple[str, str], list[str]] = {}

    def remember(self, prompt: str, arguments: Mapping[str, str]) -> None:
        """Keep what a prompt was given."""
        from lillux.secret_names import says_secret

        with self._lock:
            for name, value in arguments.items():
                if not 0 < len(value) <= MAX_CHARACTERS or says_secret(name):
                    continue
                kept = self._values.pop((prompt, name), [])
                others = [one for one in kept if one != value]
                self._values[prompt, name] = [value, *others][:MAX_KEPT]
            while len(self._values) > MAX_NAMES:
                del self._values[next(iter(self._values))]

    def of(self, prompt: str, argument: str) -> tuple[str, ...]:
        """The values that an argument had before."""
        with self._lock:
            return tuple(self._values.get((prompt, argument), ()))
