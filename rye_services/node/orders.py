"""What a request wants executed, checked field by field. Pure. ``docs/node-execution.md``."""

from collections.abc import Mapping
from typing import Any

from lillux.values import dataclass, field
from rye_services.auth.authenticator import WebhookDelivery
from rye_services.node.jobs import Action
from rye_services.node.project_names import check_project_path
from rye_services.node.webhook_rules import WebhookFieldError, checked_vault_keys
from ryeos.items.errors import InvalidRefError, RyeError
from ryeos.items.refs import EXECUTABLE_KINDS, Kind, parse_reference

INLINE, FORK = "inline", "fork"
_FETCH = ("item_id", "item_type", "query", "scope", "source", "destination", "version", "limit")
_SIGN = ("item_id", "item_type", "source")


class OrderError(RyeError):
    """A field of a request is not what it has to be."""

    code, exit_status = "INVALID_PARAMS", 2

    def __init__(self, where: str, problem: str) -> None:
        self.where, self.problem = where, problem
        super().__init__(f"{where}: {problem}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What is to be executed, for whom.

    item_ref     ``tool:a/b``; what fetches and signatures are listed as for those
    vault_keys   names of secrets of the user's; None for all of them
    envelope     further secrets, sealed to the node
    hook_id      of the webhook that asks for it, with the id of its delivery and what its signature
                 is remembered by; ``""`` for none
    """

    user_id: str
    project_path: str
    action: Action
    item_ref: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    is_async: bool = False
    vault_keys: tuple[str, ...] | None = None
    envelope: Mapping[str, Any] | None = field(default=None, repr=False)
    hook_id: str = ""
    delivery_id: str = ""
    signed_once: str = ""

    def job(self) -> dict[str, Any]:
        """What another server needs to begin it, without its secrets."""
        keys = None if self.vault_keys is None else list(self.vault_keys)
        return {
            "action": self.action.value,
            "parameters": dict(self.parameters),
            "vault_keys": keys,
        }


def read_order(action: Action, body: Mapping[str, Any], user_id: str) -> Order:
    """What a request of a user wants. Raises OrderError."""
    match action:
        case Action.EXECUTE:
            return execute_order(body, user_id)
        case Action.FETCH:
            parameters = _only(body, _FETCH)
            item_ref = "tool:rye/fetch"
        case Action.SIGN:
            parameters = _only(body, _SIGN)
            item_ref = "tool:rye/sign"
            _text(body, "item_id")
    return Order(
        user_id=user_id,
        project_path=_project(body),
        action=action,
        item_ref=item_ref,
        parameters=_with_canonical_item(parameters),
        vault_keys=(),
    )


def execute_order(body: Mapping[str, Any], user_id: str) -> Order:
    """What a request to execute an item wants: a canonical reference, or its kind apart."""
    item_ref, kind = _item(body)
    _check_thread(body, kind)
    return Order(
        user_id=user_id,
        project_path=_project(body),
        action=Action.EXECUTE,
        item_ref=item_ref,
        parameters=_object(body, "parameters") or {},
        is_async=_flag(body, "async"),
        vault_keys=_vault_keys(body),
        envelope=_object(body, "secret_envelope"),
    )


def delivery_order(delivery: WebhookDelivery, body: Mapping[str, Any]) -> Order:
    """What a delivery of a webhook wants: the item is the binding's, and so are the secrets."""
    _, kind = _item({"item_id": delivery.item_id})
    _check_thread(body, kind)
    return Order(
        user_id=delivery.principal.user_id,
        project_path=delivery.project_path,
        action=Action.EXECUTE,
        item_ref=delivery.item_id,
        parameters=_object(body, "parameters") or {},
        is_async=_flag(body, "async"),
        vault_keys=delivery.vault_keys,
        envelope=delivery.secret_envelope,
        hook_id=delivery.hook_id,
        delivery_id=delivery.delivery_id,
        signed_once=delivery.signed_once,
    )


def _item(body: Mapping[str, Any]) -> tuple[str, Kind]:
    """The canonical reference and its kind."""
    text, item_type = _text(body, "item_id"), body.get("item_type")
    if item_type is not None and not isinstance(item_type, str):
        raise OrderError("item_type", "expected a text")
    try:
        reference = parse_reference(text, item_type or None)
    except InvalidRefError as error:
        raise OrderError("item_id", str(error)) from error
    if reference.kind is None:
        raise OrderError("item_id", f"expected a kind before it, like tool:{reference.id}")
    if reference.kind not in EXECUTABLE_KINDS:
        raise OrderError("item_id", f"{reference.kind.value} items cannot be executed")
    return f"{reference.kind.value}:{reference.id}", reference.kind


def _check_thread(body: Mapping[str, Any], kind: Kind) -> None:
    """A directive forks, all else is inline; a fork of a tool is taken for that too."""
    thread = body.get("thread")
    if thread is None:
        return
    if thread not in (INLINE, FORK):
        raise OrderError("thread", f"expected {INLINE} or {FORK}, found {str(thread)[:40]!a}")
    if thread == INLINE and kind is Kind.DIRECTIVE:
        raise OrderError("thread", f"expected {FORK} for a directive, found {INLINE}")


def _project(body: Mapping[str, Any]) -> str:
    try:
        return check_project_path(_text(body, "project_path"))
    except ValueError as error:
        raise OrderError("project_path", str(error)) from error


def _vault_keys(body: Mapping[str, Any]) -> tuple[str, ...] | None:
    keys = body.get("vault_keys")
    if keys is None:
        return None
    if not isinstance(keys, list) or not all(isinstance(key, str) for key in keys):
        raise OrderError("vault_keys", "expected a list of names")
    try:
        return checked_vault_keys(keys)
    except WebhookFieldError as error:
        raise OrderError("vault_keys", str(error)) from error


def _with_canonical_item(parameters: dict[str, Any]) -> dict[str, Any]:
    """The parameters with the kind of the item before its id."""
    item_id, kind = parameters.get("item_id"), parameters.pop("item_type", None)
    if isinstance(item_id, str) and isinstance(kind, str) and ":" not in item_id:
        return parameters | {"item_id": f"{kind}:{item_id}"}
    return parameters


def _only(body: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {name: body[name] for name in names if body.get(name) is not None}


def _text(body: Mapping[str, Any], name: str) -> str:
    value = body.get(name)
    if not isinstance(value, str) or not value:
        raise OrderError(name, "expected a text")
    return value


def _object(body: Mapping[str, Any], name: str) -> Mapping[str, Any] | None:
    value = body.get(name)
    if value is not None and not isinstance(value, dict):
        raise OrderError(name, "expected a JSON object")
    return value


def _flag(body: Mapping[str, Any], name: str) -> bool:
    value = body.get(name)
    if value is not None and not isinstance(value, bool):
        raise OrderError(name, "expected true or false")
    return bool(value)
