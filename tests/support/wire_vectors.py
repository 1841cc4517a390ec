"""Vectors of the wire, ``tests/vectors/cas-wire.json``, and the keys in them."""

import json
from pathlib import Path
from typing import Any

from lillux.pem import encode_private
from lillux.signing import KeyPair, public_pem_of
from ryeos.trust.signing_key import SigningKey
from tests.support.workspace import fixed_clock

VECTORS: dict[str, Any] = json.loads(
    (Path(__file__).parents[1] / "vectors" / "cas-wire.json").read_text("utf-8")
)


def vector_key(role: str) -> SigningKey:
    """The signing key of ``caller`` or ``node``."""
    private_pem = encode_private(bytes.fromhex(VECTORS["keys"][f"{role}_seed_hex"]))
    return SigningKey(KeyPair(private_pem, public_pem_of(private_pem)), fixed_clock)


CALLER, NODE = vector_key("caller"), vector_key("node")
BOX_PRIVATE = bytes.fromhex(VECTORS["sealed_envelope"]["recipient_private_hex"])
