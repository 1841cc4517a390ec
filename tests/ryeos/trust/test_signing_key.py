from datetime import UTC, datetime

import pytest

from lillux.signing import verify_signature
from ryeos.items.context import utc_now
from ryeos.items.errors import SignatureFormatError
from ryeos.items.refs import Kind
from ryeos.trust.signature import form_for, parse_core, split
from ryeos.trust.signing_key import SigningKey
from tests.support.signed_files import DIRECTIVE_BLOCK, SEED_FINGERPRINT, seed_keypair
from tests.support.workspace import fixed_clock

SEED = seed_keypair()
KEY = SigningKey(SEED, fixed_clock)


def test_a_key_shows_its_public_half_only() -> None:
    assert KEY.fingerprint == SEED_FINGERPRINT
    assert KEY.public_pem == SEED.public_pem
    assert "PRIVATE" not in repr(KEY)
    assert "PRIVATE" not in repr(SEED)


def test_a_detached_line_is_over_the_bytes() -> None:
    signature = parse_core(KEY.detached_line(b'{"answer": 42}\n').removesuffix("\n"))

    assert signature
    assert signature.content_hash == (
        "e400da948437d73751f5cbca5f7c98b9bc4ab709d8ba394d90326725dae59ed1"
    )
    assert verify_signature(signature.content_hash, signature.value, SEED.public_pem)


def test_the_time_is_that_of_the_clock_in_whole_seconds() -> None:
    key = SigningKey(SEED, lambda: datetime(2030, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC))

    signature = parse_core(key.detached_line(b"").removesuffix("\n"))

    assert signature
    assert signature.timestamp == "2030-12-31T23:59:59Z"


def test_the_real_clock_is_in_utc() -> None:
    assert utc_now().utcoffset() == fixed_clock().utcoffset()


def test_signing_again_changes_only_the_time() -> None:
    form = form_for(Kind.DIRECTIVE, ".md")
    later = SigningKey(SEED, lambda: datetime(2027, 1, 1, tzinfo=UTC))
    once = KEY.signed_text(Kind.DIRECTIVE, split(DIRECTIVE_BLOCK, form, "x"), form, "x")

    again = later.signed_text(Kind.DIRECTIVE, split(once, form, "x"), form, "x")

    assert again == once.replace("2026-01-02T03:04:05Z", "2027-01-01T00:00:00Z")


def test_the_line_is_moved_below_a_shebang() -> None:
    form = form_for(Kind.TOOL, ".py")
    odd = "# rye:signed:placeholder\n#!/bin/x\nbody\n"

    signed = KEY.signed_text(Kind.TOOL, split(odd, form, "x"), form, "x")

    assert signed.startswith("#!/bin/x\n# rye:signed:2026-")


def test_a_directive_without_its_block_is_not_signed() -> None:
    form = form_for(Kind.DIRECTIVE, ".md")

    with pytest.raises(SignatureFormatError):
        KEY.signed_text(Kind.DIRECTIVE, split("prose", form, "x"), form, "x")
