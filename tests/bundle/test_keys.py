"""The tool ``rye/core/keys/keys``."""

import pytest

from lillux.signing import compute_key_fingerprint, generate_keypair
from tests.support.built import Machine
from tests.support.bundle_tools import call, example, refused, rye

pytestmark = pytest.mark.e2e
KEYS = "rye/core/keys/keys"


def test_a_key_is_made_shown_and_exported(machine: Machine) -> None:
    made = call(machine, KEYS, action="generate", owner="ada")

    shown = call(machine, KEYS, action="show")
    exported = call(machine, KEYS, action="export")
    listed = call(machine, KEYS, **example(machine, KEYS))

    assert shown["fingerprint"] == made["fingerprint"]
    assert exported["public_pem"] == shown["public_pem"]
    own = [key for key in listed["keys"] if key["own"]]
    assert [(key["fingerprint"], key["owner"]) for key in own] == [(made["fingerprint"], "ada")]


def test_an_existing_key_is_not_replaced(machine: Machine) -> None:
    call(machine, KEYS, action="generate")

    again = call(machine, KEYS, action="generate")

    assert (again["success"], again["code"]) == (False, "CONFLICT")


def test_only_the_key_that_was_written_out_is_trusted(machine: Machine) -> None:
    call(machine, KEYS, action="generate")
    other = generate_keypair().public_pem
    (machine.project / "other.pem").write_bytes(other)
    fingerprint = compute_key_fingerprint(other)

    wrong = call(machine, KEYS, action="trust", file="other.pem", fingerprint="0" * 16)
    right = call(machine, KEYS, action="trust", file="other.pem", fingerprint=fingerprint)

    assert f"expected the key {'0' * 16}, found {fingerprint}" in wrong["error"]
    assert (right["success"], right["fingerprint"]) == (True, fingerprint)
    assert call(machine, KEYS, action="untrust", fingerprint=fingerprint)["success"]
    listed = rye(machine, "keys", "list")["keys"]
    assert fingerprint not in [key["fingerprint"] for key in listed]


def test_without_a_whole_fingerprint_no_key_is_trusted(machine: Machine) -> None:
    lacking = call(machine, KEYS, action="trust", file="other.pem")

    assert lacking["error"] == "trust: expected fingerprint, found none"
    assert "fingerprint" in refused(machine, KEYS, action="trust", fingerprint="4b98")
    assert "action" in refused(machine, KEYS, action="steal")


def test_the_own_key_is_not_taken_away(machine: Machine) -> None:
    own = call(machine, KEYS, action="generate")["fingerprint"]

    assert call(machine, KEYS, action="untrust", fingerprint=own)["success"] is False


def test_a_file_named_like_a_flag_is_a_file(machine: Machine) -> None:
    call(machine, KEYS, action="generate")

    answer = call(machine, KEYS, action="trust", file="--owner=eve", fingerprint="0" * 16)

    assert answer["error"].startswith("--owner=eve: expected a file")
