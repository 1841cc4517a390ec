from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lillux.http.model import is_unencrypted
from ryeos.remote.remote_values import netloc_of, normal_url


@given(st.text("htps:/.@[]a1:0%?#\\ ", max_size=24))
def test_normalising_an_address_twice_changes_it_once(text: str) -> None:
    for typed in (text, f"http://{text}", f"https://a.{text}"):
        with suppress(ValueError):
            normal = normal_url(typed)
            assert normal_url(normal) == normal
            assert "@" not in netloc_of(normal)


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://localhost", True),
        ("http://127.0.0.1:1", True),
        ("http://127.1.2.3", True),
        ("http://[::1]:8", True),
        ("http://localhost.", False),
        ("http://127.0.0.1.example", False),
        ("http://0.0.0.0", False),
        ("http://[::]", False),
        ("http://10.0.0.1", False),
        ("http://127.1", False),
        ("http://a.localhost", False),
        ("http://[::ffff:127.0.0.1]", False),
    ],
)
def test_http_is_for_this_machine_alone(url: str, *, expected: bool) -> None:
    assert is_unencrypted(normal_url(url)) is not expected
