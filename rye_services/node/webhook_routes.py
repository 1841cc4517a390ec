"""Routes for webhook bindings: ``/webhook-bindings``."""

from typing import Annotated, Any

from fastapi import APIRouter
from pydantic import BaseModel

from rye_services.auth.callers import caller
from rye_services.auth.principal import Principal
from rye_services.node.refusals import refusals
from rye_services.node.services import NodeServices
from rye_services.node.webhook_rules import (
    LONGEST_DESCRIPTION,
    Binding,
    WebhookFieldError,
    canonical_item,
    checked_project,
    checked_vault_keys,
)
from rye_services.node.webhooks import BindingLimitError
from rye_services.problems import Problem
from rye_services.scopes import WEBHOOKS
from ryeos.remote.secrets import EnvelopeError

Owner = Annotated[Principal, caller(WEBHOOKS)]


class NewBinding(BaseModel):
    """What a hook is to execute: a canonical item, or an item type and a bare id."""

    item_id: str
    project_path: str
    item_type: str | None = None
    description: str = ""
    secret_envelope: dict[str, Any] | None = None
    vault_keys: list[str] | None = None


def router(services: NodeServices) -> APIRouter:
    """The routes of users about their webhooks."""
    routes = APIRouter(prefix="/webhook-bindings", tags=["webhooks"])
    webhooks = services.webhooks

    @routes.post("")
    def create(owner: Owner, new: NewBinding) -> dict[str, Any]:
        """Bind an item to a new hook. Its secret is shown in this answer and never again."""
        with refusals(WebhookFieldError, EnvelopeError, BindingLimitError):
            binding, secret = webhooks.create(_binding(owner, new), services.settings.name)
        shown = binding.as_answer()
        answered = ("hook_id", "item_id", "project_path", "has_secret_envelope", "vault_keys")
        return {"hmac_secret": secret, **{name: shown[name] for name in answered}}

    @routes.get("")
    def listed(owner: Owner) -> dict[str, Any]:
        """The bindings, newest first; revoked ones stay listed."""
        return {"bindings": [each.as_answer() for each in webhooks.listed(owner.user_id)]}

    @routes.delete("/{hook_id}")
    def revoke(owner: Owner, hook_id: str) -> dict[str, str]:
        """End a binding: its deliveries are refused from now on."""
        if not webhooks.revoke(owner.user_id, hook_id):
            raise Problem(404, f"webhook binding not found: {hook_id[:80]!a}")
        return {"revoked": hook_id}

    return routes


def _binding(owner: Principal, new: NewBinding) -> Binding:
    if len(new.description) > LONGEST_DESCRIPTION:
        raise WebhookFieldError("description", f"at most {LONGEST_DESCRIPTION} characters")
    return Binding(
        hook_id="",
        user_id=owner.user_id,
        item_id=canonical_item(new.item_id, new.item_type),
        project_path=checked_project(new.project_path),
        description=new.description,
        secret_envelope=new.secret_envelope,
        vault_keys=checked_vault_keys(new.vault_keys or ()),
        owner=owner.key_id,
    )
