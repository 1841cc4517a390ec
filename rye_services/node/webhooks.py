"""Webhooks in the database, and the verification of deliveries.

The secret of a hook is shown once, when it is made, and is sealed in the database.
"""

import json
import logging
import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Row, delete, select, tuple_
from sqlalchemy.dialects import postgresql, sqlite

from lillux.digests import sha256_hex
from lillux.shapes import of_attributes, write
from lillux.values import dataclass, field, replace
from rye_services.node.secrets import SealedRowError, open_row, seal_for_hook, seal_row
from rye_services.node.store.heads import valid_project_path
from rye_services.people.audit import Audit
from rye_services.people.callers import RequestFacts, WebhookDelivery
from rye_services.people.credentials import EXECUTE, Principal
from rye_services.refusal import RefusedError
from rye_services.storage.database import (
    Database,
    from_row,
    webhook_bindings,
    webhook_deliveries_replay,
)
from rye_services.web.http import RequestProblem, Unauthorized, refusals
from ryeos.items.context import Clock
from ryeos.items.errors import InvalidRefError, RyeError
from ryeos.items.refs import parse_reference
from ryeos.remote.deliveries import (
    DELIVERY_ID,
    WEBHOOK_SIGNATURE,
    WEBHOOK_TIMESTAMP,
    DeliverySignatureError,
    is_delivery_id,
    verify_delivery,
)
from ryeos.remote.envelopes import FOR_EXECUTION, open_envelope
from ryeos.remote.secret_names import MAX_SECRETS, why_unsafe

# --- webhook rules --------------------------------------------------------------------------------
# What a webhook binding is, and what a delivery to it may say. Pure.

LONGEST_DESCRIPTION = 1000


class WebhookFieldError(RyeError):
    """A field of a binding or of a delivery is not what it has to be."""

    code = "VALIDATION_FAILED"

    def __init__(self, field: str, expected: str) -> None:
        self.field, self.expected = field, expected
        super().__init__(f"{field}: expected {expected}")


@dataclass(frozen=True, slots=True, kw_only=True)
class BindingAnswer:
    """What a hook executes."""

    hook_id: str
    item_id: str
    project_path: str
    description: str
    created_at: str
    revoked_at: str | None
    has_secret_envelope: bool
    vault_keys: tuple[str, ...]
    owner: str


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

    @property
    def has_secret_envelope(self) -> bool:
        """Whether its user gave it secrets of its own."""
        return self.secret_envelope is not None

    def as_answer(self) -> dict[str, Any]:
        """What its user is shown: everything but the envelope, and never the HMAC secret."""
        return write(of_attributes(BindingAnswer, self))


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


def valid_hook_project(project_path: str) -> str:
    """The name of a project. Raises WebhookFieldError."""
    try:
        return valid_project_path(project_path)
    except ValueError as error:
        raise WebhookFieldError("project_path", str(error).removeprefix("expected ")) from None


def valid_vault_keys(names: Sequence[str]) -> tuple[str, ...]:
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


# --- webhooks -------------------------------------------------------------------------------------

KEPT_S = 48 * 3600
"""How long the id of a delivery is remembered. A signature counts for minutes only; a sender that
delivers once more signs anew, under the same id."""

MOST_BINDINGS = 1000
"""Of a user, with the revoked ones."""


class WebhookRefusedError(RyeError):
    """A delivery that is not of this node. Its text is the same whatever is wrong."""

    code = "WEBHOOK_REFUSED"

    def __init__(self) -> None:
        super().__init__("Webhook authentication failed")


@dataclass(frozen=True, slots=True, kw_only=True)
class SignedDelivery:
    """The raw parts of a delivery: the three headers as they came, and the body."""

    timestamp: str
    signature: str
    delivery_id: str
    body: bytes

    @property
    def signed_once(self) -> str:
        """What stands for its signature among the ids of deliveries; a blank is in no real id."""
        return f"signed {sha256_hex(f'{self.timestamp}.{self.signature}'.encode())}"


class Webhooks:
    """The bindings of all users. Thread-safe."""

    def __init__(
        self, database: Database, *, box_private: bytes, box_public: bytes, clock: Clock
    ) -> None:
        self._database = database
        self._box_private, self._box_public = box_private, box_public
        self._clock = clock
        self._audit = Audit(database)

    def create(self, binding: Binding, remote_name: str) -> tuple[Binding, str]:
        """Keep a binding under a new id; it and the secret, which is never shown again.

        Raises EnvelopeError for an envelope that no execution could open, RefusedError
        `VALIDATION_FAILED` for too many bindings.
        """
        now = self._clock().isoformat(timespec="microseconds")
        made = replace(binding, hook_id=new_hook_id(), created_at=now)
        if made.secret_envelope is not None:
            made = replace(made, secret_envelope=self._sealed_anew(made, made.secret_envelope))
        secret = new_hook_secret()
        with self._database.writing(lock=f"webhooks of {binding.user_id}") as connection:
            columns = webhook_bindings.c
            mine = select(columns.hook_id).where(columns.user_id == binding.user_id)
            if len(connection.execute(mine.limit(MOST_BINDINGS)).all()) == MOST_BINDINGS:
                raise RefusedError(
                    f"webhook bindings: expected at most {MOST_BINDINGS} of a user, found more",
                    code="VALIDATION_FAILED",
                )
            connection.execute(
                webhook_bindings.insert().values(**self._row(made, secret, remote_name))
            )
            bound = {"item_id": made.item_id, "project_path": made.project_path}
            details = {**bound, "vault_keys": list(made.vault_keys)}
            self._audit.write(connection, "webhooks.create", made.hook_id, details)
        return made, secret

    def _sealed_anew(self, binding: Binding, envelope: Mapping[str, Any]) -> dict[str, str]:
        """What was sent for any execution of the user, for this binding alone."""
        user = binding.user_id
        values = open_envelope(envelope, self._box_private, user=user, purpose=FOR_EXECUTION)
        return seal_for_hook(values, self._box_public, user=user, hook_id=binding.hook_id)

    def listed(self, user_id: str) -> tuple[Binding, ...]:
        """The bindings of a user, newest first, the revoked ones too."""
        columns = webhook_bindings.c
        query = select(webhook_bindings).where(columns.user_id == user_id)
        with self._database.reading() as connection:
            rows = connection.execute(query.order_by(columns.created_at.desc())).all()
        return tuple(_binding(row) for row in rows)

    def revoke(self, user_id: str, hook_id: str) -> bool:
        """End a binding; False where the user has none of this id, or it was ended before."""
        columns = webhook_bindings.c
        mine = (
            columns.hook_id == hook_id,
            columns.user_id == user_id,
            columns.revoked_at.is_(None),
        )
        now = self._clock().isoformat(timespec="microseconds")
        with self._database.writing() as connection:
            update = webhook_bindings.update().where(*mine).values(revoked_at=now)
            was_open = connection.execute(update).rowcount > 0
            if was_open:
                self._audit.write(connection, "webhooks.revoke", hook_id)
        return was_open

    def check(self, hook_id: str, delivery: SignedDelivery) -> Binding:
        """The binding that a delivery is signed for.

        Raises WebhookRefusedError: no such binding, revoked, not its signature, not these minutes.
        """
        query = select(webhook_bindings).where(webhook_bindings.c.hook_id == hook_id)
        with self._database.reading() as connection:
            row = connection.execute(query).one_or_none()
        known = row is not None and row.revoked_at is None
        # A hook that is not there takes as long as one that is.
        secret = self._secret(row) if row is not None and known else new_hook_secret()
        try:
            verify_delivery(
                secret,
                delivery.timestamp,
                delivery.body,
                delivery.signature,
                now_s=self._clock().timestamp(),
            )
        except DeliverySignatureError as error:
            logging.getLogger(__name__).info(
                "refused for %s: %s", ascii(hook_id[:80]), error.problem
            )
            raise WebhookRefusedError from None
        if row is None or not known:
            raise WebhookRefusedError
        return _binding(row)

    def is_repeated(self, hook_id: str, *delivery_ids: str) -> bool:
        """Whether a delivery was recorded before under one of these."""
        columns = webhook_deliveries_replay.c
        query = select(columns.hook_id).where(
            columns.hook_id == hook_id, columns.delivery_id.in_(delivery_ids)
        )
        with self._database.reading() as connection:
            return connection.execute(query).first() is not None

    def _secret(self, row: Row[Any]) -> str:
        """The secret of a hook; a random one where it cannot be opened any more."""
        try:
            return open_row(row.hmac_secret, self._box_private, hook_row(row.hook_id))
        except SealedRowError as error:
            logging.getLogger(__name__).warning("bind it again: %s", error)
            return new_hook_secret()

    def _row(self, binding: Binding, secret: str, remote_name: str) -> dict[str, Any]:
        return {
            **write(binding),
            "remote_name": remote_name,
            "item_type": binding.item_id.partition(":")[0],
            "hmac_secret": seal_row(secret, self._box_public, hook_row(binding.hook_id)),
        }


def accepted_delivery(
    webhooks: Webhooks, body: Mapping[str, Any], delivery: SignedDelivery
) -> tuple[Binding, Delivery | None]:
    """The binding and what its sender decides; no delivery for one that was seen before.

    Order: (1) the hook is named; (2) its signature; (3) the delivery has an id; (4) it is new,
    by its id and by its signature; (5) the other fields.

    Nothing is recorded here: `record_delivery`.

    Raises WebhookFieldError, WebhookRefusedError, RefusedError `VALIDATION_FAILED`.
    """
    hook_id = required_hook_id(body)  # (1)
    binding = webhooks.check(hook_id, delivery)  # (2)
    if not is_delivery_id(delivery.delivery_id):  # (3)
        raise RefusedError(
            "X-Webhook-Delivery-Id: expected 1 to 200 visible ASCII characters",
            code="VALIDATION_FAILED",
        )
    if webhooks.is_repeated(hook_id, delivery.delivery_id, delivery.signed_once):  # (4)
        return binding, None
    return binding, read_delivery(body, delivery.delivery_id)  # (5)


def record_delivery(
    connection: Connection, hook_id: str, delivery_id: str, *, signed_once: str, now_s: float
) -> bool:
    """Remember a delivery in the transaction that makes its thread; False: it was there already.

    A signature counts once, whatever its id, because the id is not signed; and it is first:
    a sender of what another user signed must not use up an id.

    Of two that come at once, one is recorded. Ids that were kept long enough are forgotten.
    """
    table = webhook_deliveries_replay
    key = (table.c.hook_id, table.c.delivery_id)
    # What another delivery forgets just now is left to it: two must not wait for each other.
    old = select(*key).where(table.c.received_at_s < now_s - KEPT_S)
    connection.execute(delete(table).where(tuple_(*key).in_(old.with_for_update(skip_locked=True))))
    dialect = postgresql if connection.dialect.name == "postgresql" else sqlite
    for kept in (signed_once, delivery_id):
        row = dialect.insert(table).values(hook_id=hook_id, delivery_id=kept, received_at_s=now_s)
        # What came back was new: not every driver counts the rows of such a statement.
        new = row.on_conflict_do_nothing().returning(table.c.hook_id)
        if connection.execute(new).first() is None:
            return False
    return True


def _binding(row: Row[Any]) -> Binding:
    return from_row(Binding, row)


def hook_row(hook_id: str) -> dict[str, str]:
    """What the secret of a hook is sealed for."""
    return {"table": "webhook_bindings", "hook_id": hook_id}


# --- webhook check --------------------------------------------------------------------------------
# The check of a delivery that `/execute` gets: is it signed by a hook, and for what.


def webhook_check(webhooks: Webhooks) -> Callable[[RequestFacts], WebhookDelivery]:
    """The check of deliveries. A delivery that was seen before is answered with status 200."""

    def check(facts: RequestFacts) -> WebhookDelivery:
        """What a delivery may start. Raises Problem, Unauthorized."""
        body = _object(facts.body)
        try:
            with refusals(WebhookFieldError, RefusedError):
                signed = _signed_delivery(facts)
                binding, delivery = accepted_delivery(webhooks, body, signed)
        except WebhookRefusedError as error:
            raise Unauthorized(str(error)) from error
        if delivery is None:
            raise RequestProblem(200, "Already processed")
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


def _signed_delivery(facts: RequestFacts) -> SignedDelivery:
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
        raise RequestProblem(400, "expected a JSON object")
    return value
