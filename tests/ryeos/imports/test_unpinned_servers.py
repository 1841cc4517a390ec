"""A server's item beside the one that its source would make now."""

import pytest

from ryeos.imports.server_items import generated, unpinned, with_config

PINS = {"file": "srv.py", "tools": {"add": "0" * 64}}


def item(*arguments: str) -> str:
    """The text of an item for a server of these arguments."""
    config = {"transport": "stdio", "command": "python3", "args": list(arguments)}
    return generated("Written by rye import.", {"version": "1.0.0", "config": config})


def test_pins_that_a_server_got_since_make_no_difference() -> None:
    pinned = with_config(item("srv.py"), {"pins": PINS})

    assert "pins:" in pinned
    assert unpinned(pinned) == unpinned(item("srv.py"))


@pytest.mark.parametrize("arguments", [(), ("srv.py", "--all"), ("other.py",)])
def test_other_arguments_of_a_server_are_a_difference(arguments: tuple[str, ...]) -> None:
    pinned = with_config(item("srv.py"), {"pins": PINS})

    assert unpinned(pinned) != unpinned(item(*arguments))


def test_lines_that_a_person_added_are_a_difference() -> None:
    assert unpinned(f"{item('srv.py')}# mine\n") != unpinned(item("srv.py"))
