"""The check of a delivery that `/execute` gets: is it signed by a hook, and for what."""

import json
from collections.abc import Callable
from typing import Any

from rye_services.auth.authenticator import RequestFacts, WebhookDelivery
from rye_services.auth.principal import Principal
from rye_services.node.refusals import refusals
from rye_services.node.webhook_rules import WebhookFieldError
from rye_services.node.webhooks import (
    DeliveryIdError,
    SignedDelivery,
    WebhookRefusedError,
    Webhooks,
    accepted_delivery,
)
from rye_services.problems import Problem, Unauthorized
from rye_services.scopes import EXECUTE
from ryeos.remote.requests import DELIVERY_ID, WEBHOOK_SIGNATURE, WEBHOOK_TIMESTAMP


def webhook_check(webhooks: Webhooks) -> Callable[[RequestFacts], WebhookDelivery]:
    """The check of deliveries. A delivery that was seen before is answered with status 200."""

    def check(facts: RequestFacts) -> WebhookDelivery:
        """What a delivery may start. Raises Problem, Unauthorized."""
        body = _object(facts.body)
        try:
            with refusals(WebhookFieldError, DeliveryIdError):
                signed = _signed(facts)
                binding, delivery = accepted_delivery(webhooks, body, signed)
        except WebhookRefusedError as error:
            raise Unauthorized(str(error)) from error
        if delivery is None:
            raise Problem(200, "Already processed")
        return WebhookDelivery(
            principal=Principal(binding.user_id, "webhook", frozenset({EXECUTE}), binding.hook_id),
            hook_id=binding.hook_id,
            delivery_id=delivery.delivery_id,
            signed_once=signed.signed_once,
            item_id=binding.item_id,
            project_path=binding.project_path,
            secret_envelope=binding.secret_envelope,
            vault_keys=binding.vault_keys,
        )

    return check


def _signed(facts: RequestFacts) -> SignedDelivery:
    timestamp, signature, delivery_id = (
        facts.headers.get(name.lower(), "")
        for name in (WEBHOOK_TIMESTAMP, WEBHOOK_SIGNATURE, DELIVERY_ID)
    )
    return SignedDelivery(
        timestamp=timestamp, signature=signature, delivery_id=delivery_id, body=facts.body
    )


def _object(body: bytes) -> dict[str, Any]:
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise Problem(400, "expected a JSON object")
    return value
