"""Pages and name servers that attack the bundle's tools for the web."""

import ipaddress
import sys
import time

import pytest

from tests.support.tool_functions import tool_module

as_markdown = tool_module("rye/web/fetch").as_markdown
is_public = sys.modules["guarded"].is_public
URL = "http://site.example/"


def test_many_short_links_below_a_long_base_do_not_fill_the_memory() -> None:
    base = f"http://site.example/{'a' * 100_000}/"

    _, text = as_markdown(f'<base href="{base}">' + "<a href=b>word</a> " * 2_000, URL)

    assert text.count("word") == 2_000
    assert len(text) < 2_000_000


def test_a_long_run_of_blanks_is_no_work() -> None:
    started = time.process_time()

    as_markdown(f"<pre>{' ' * 200_000}x", URL)

    assert time.process_time() - started < 2


@pytest.mark.parametrize("address", ["fec0::1", "3fff::1", "fd00::1", "::ffff:10.0.0.1"])
def test_no_address_of_a_site_of_its_own_is_public(address: str) -> None:
    assert not is_public(ipaddress.ip_address(address))
