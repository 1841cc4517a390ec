"""Answers of a registry, made by hand, for tests of clients of a lying registry."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lillux.signing import generate_keypair
from lillux.values import dataclass, field, replace
from ryeos.items.errors import RyeError
from ryeos.items.refs import ItemRef, Kind
from ryeos.remote.pins import Pin
from ryeos.remote.replies import PulledReply
from ryeos.trust.signature import SignedText, compose, form_for, split
from ryeos.trust.signing_key import SigningKey
from tests.support.http_servers import Exchange, Server
from tests.support.registry import item_text

AUTHOR = "ada"


def is_refused(error: RyeError) -> bool:
    """Whether an error says that the answer of the registry was refused."""
    return error.code == "INTEGRITY" and error.hint.startswith("nothing was written; ")


@dataclass(frozen=True, slots=True)
class Forge:
    """A registry's key, and texts signed with it as a registry does."""

    key: SigningKey = field(default_factory=lambda: SigningKey(generate_keypair()))

    @property
    def pin(self) -> Pin:
        """The pin of this registry."""
        pem = self.key.public_pem
        return Pin(
            netloc="registry.example",
            public_pem=pem,
            path=Path("pin.toml"),
        )

    def signed(
        self,
        text: str,
        *,
        kind: Kind = Kind.TOOL,
        suffix: str = ".py",
        provenance: str = f"rye-registry@{AUTHOR}",
    ) -> str:
        """The text with the registry's line."""
        form = form_for(kind, suffix)
        bare = split(text, form, "text")
        made = split(self.key.signed_text(kind, bare, form, "text"), form, "text")
        assert made.signature is not None
        return _composed(made, provenance, form)

    def reply(self, ref: ItemRef, version: str = "1.0.0") -> PulledReply:
        """A valid answer for an item."""
        suffix = ".py" if ref.kind is Kind.TOOL else ".md"
        text = item_text(ref.kind.value, ref.id, version)
        return PulledReply(
            item_type=ref.kind.value,
            item_id=ref.id,
            version=version,
            content=self.signed(text, kind=ref.kind, suffix=suffix),
            author=AUTHOR,
            suffix=suffix,
        )


def _composed(made: SignedText, provenance: str, form: Any) -> str:  # noqa: ANN401 - a form
    assert made.signature is not None
    signature = replace(made.signature, provenance=provenance)
    return compose(replace(made, signature=signature), form)


def serving(routes: dict[str, Callable[[Exchange], None]]) -> Server:
    """A server that answers by the path of a request, and 404 to all others."""

    def answer(exchange: Exchange) -> None:
        path = exchange.seen.target.partition("?")[0]
        route = routes.get(path)
        if route is None:
            exchange.answer(404, b'{"detail": "not found"}', content_type="application/json")
        else:
            route(exchange)

    return Server(answer)


def as_json(value: object, status: int = 200) -> Callable[[Exchange], None]:
    """A route that answers JSON."""
    body = json.dumps(value).encode()

    def answer(exchange: Exchange) -> None:
        exchange.answer(status, body, content_type="application/json")

    return answer


def as_text(body: bytes) -> Callable[[Exchange], None]:
    """A route that answers some bytes."""

    def answer(exchange: Exchange) -> None:
        exchange.answer(200, body, content_type="text/plain")

    return answer
