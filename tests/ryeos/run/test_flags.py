from typing import Any

import pytest

from lillux.templating import Names
from ryeos.items.errors import SpecError
from ryeos.run.flags import flag_arguments

NAMES = Names(variables={"USER": "me"}, fixed={"timeout": 5.0, "cwd": "/here"})


def words(flags: object, given: dict[str, Any], **config: object) -> tuple[str, ...]:
    return flag_arguments({"flags": flags, **config}, given, NAMES)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("-x", ("--f", "-x")),
        ("", ("--f", "")),
        (7, ("--f", "7")),
        (True, ("--f",)),
        (False, ()),
        (None, ()),
        (["a", "--b"], ("--f", "a", "--f", "--b")),
        ([], ()),
        ({"A": "1", "B": 2}, ("--f", "A=1", "--f", "B=2")),
        ("${USER} {timeout}", ("--f", "${USER} {timeout}")),
    ],
)
def test_a_value_becomes_its_flag(value: object, expected: tuple[str, ...]) -> None:
    assert words({"name": "--f"}, {"name": value}) == expected


def test_flags_come_in_the_order_declared() -> None:
    assert words({"b": "-b", "a": "-a"}, {"a": 1, "b": 2}) == ("-b", "2", "-a", "1")


def test_flags_without_a_value_are_left_out() -> None:
    flags = {"none": "-n", "user": "-u", "timeout": "-t"}

    assert words(flags, {}, user="${USER}") == ("-u", "me", "-t", "5.0")


def test_a_parameter_without_a_flag_is_not_passed() -> None:
    assert words({"a": "-a"}, {"b": 1}) == ()


@pytest.mark.parametrize("flags", [["-a"], {"a": 1}, {"a": ""}])
def test_a_declaration_of_another_shape_is_refused(flags: object) -> None:
    with pytest.raises(SpecError):
        words(flags, {})


UNLIMITED = Names(variables={}, fixed={"timeout": None})


def test_a_program_with_its_own_timeout_gets_the_value_for_no_timeout() -> None:
    config = {"flags": {"timeout": "-t"}, "own_timeout": True, "no_timeout": ["-t", 0]}

    assert flag_arguments(config, {}, UNLIMITED) == ("-t", "0")
    assert flag_arguments(config, {}, NAMES) == ("-t", "5.0")
    assert flag_arguments({**config, "own_timeout": False}, {}, UNLIMITED) == ()


def test_the_setting_no_timeout_has_to_be_a_list() -> None:
    config = {"flags": {"timeout": "-t"}, "own_timeout": True, "no_timeout": "-t 0"}

    with pytest.raises(SpecError) as error:
        flag_arguments(config, {}, UNLIMITED)

    assert str(error.value) == "config.no_timeout: expected a list, got string"
