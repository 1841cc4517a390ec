"""What a webhook binding is, and what a delivery to it may say. Pure."""

import secrets
from collections.abc import Mapping, Sequence
from typing import Any

from lillux.values import dataclass, field
from rye_services.node.project_names import check_project_path
from ryeos.items.errors import InvalidRefError, RyeError
from ryeos.items.refs import parse_reference
from ryeos.remote.secrets import MAX_SECRETS, why_unsafe

LONGEST_DESCRIPTION = 1000


class WebhookFieldError(RyeError):
    """A field of a binding or of a delivery is not what it has to be."""

    code, exit_status = "VALIDATION_FAILED", 6

    def __init__(self, field: str, expected: str) -> None:
        self.field, self.expected = field, expected
        super().__init__(f"{field}: expected {expected}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Binding:
    """What a hook executes, for whom, with which secrets. Times are ISO 8601, UTC."""

    hook_id: str
    user_id: str
    item_id: str
    project_path: str
    description: str = ""
    secret_envelope: Mapping[str, Any] | None = field(default=None, repr=False)
    vault_keys: tuple[str, ...] = ()
    owner: str = ""
    created_at: str = ""
    revoked_at: str | None = None

    def as_answer(self) -> dict[str, Any]:
        """What its user is shown: everything but the envelope, and never the HMAC secret."""
        return {
            "hook_id": self.hook_id,
            "item_id": self.item_id,
            "project_path": self.project_path,
            "description": self.description,
            "created_at": self.created_at,
            "revoked_at": self.revoked_at,
            "has_secret_envelope": self.secret_envelope is not None,
            "vault_keys": list(self.vault_keys),
            "owner": self.owner,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """What the sender of a delivery decides; all else is the binding's."""

    hook_id: str
    delivery_id: str
    parameters: Mapping[str, Any]
    thread: str | None = None
    is_async: bool = False


def new_hook_id() -> str:
    """``wh_`` and 32 hex digits."""
    return f"wh_{secrets.token_hex(16)}"


def new_hook_secret() -> str:
    """``whsec_`` and 64 hex digits; the key of the HMAC is this text."""
    return f"whsec_{secrets.token_hex(32)}"


def canonical_item(item_id: str, item_type: str | None) -> str:
    """``tool:a/b`` out of that, or of ``a/b`` and ``tool``. Raises WebhookFieldError."""
    try:
        reference = parse_reference(item_id, item_type)
    except InvalidRefError as error:
        raise WebhookFieldError("item_id", f"an item; {error.problem}") from None
    if reference.kind is None:
        raise WebhookFieldError("item_id", f"a kind before it, like tool:{reference.id}")
    return str(reference)


def checked_project(project_path: str) -> str:
    """The name of a project. Raises WebhookFieldError."""
    try:
        return check_project_path(project_path)
    except ValueError as error:
        raise WebhookFieldError("project_path", str(error).removeprefix("expected ")) from None


def checked_vault_keys(names: Sequence[str]) -> tuple[str, ...]:
    """Names of secrets, each once. Raises WebhookFieldError."""
    if len(names) > MAX_SECRETS:
        raise WebhookFieldError("vault_keys", f"at most {MAX_SECRETS} names")
    for name in names:
        if (problem := why_unsafe(name)) is not None:
            raise WebhookFieldError("vault_keys", f"names of secrets; {name[:80]!a}: {problem}")
    return tuple(dict.fromkeys(names))


def required_hook_id(body: Mapping[str, Any]) -> str:
    """The hook that a body names. Raises WebhookFieldError."""
    hook_id = body.get("hook_id")
    if not isinstance(hook_id, str) or not hook_id:
        raise WebhookFieldError("hook_id", "the id of a hook")
    return hook_id


def read_delivery(body: Mapping[str, Any], delivery_id: str) -> Delivery:
    """The delivery in a body. Fields that a binding decides are left alone.

    Raises WebhookFieldError.
    """
    parameters, thread, is_async = (body.get(name) for name in ("parameters", "thread", "async"))
    if parameters is not None and not isinstance(parameters, Mapping):
        raise WebhookFieldError("parameters", "an object")
    if thread is not None and thread not in ("inline", "fork"):
        raise WebhookFieldError("thread", "inline or fork")
    if is_async is not None and not isinstance(is_async, bool):
        raise WebhookFieldError("async", "true or false")
    return Delivery(
        hook_id=required_hook_id(body),
        delivery_id=delivery_id,
        parameters=parameters or {},
        thread=thread,
        is_async=bool(is_async),
    )
