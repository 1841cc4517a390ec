import sys

import pytest

from packing.platforms import PLATFORMS, this_platform
from zipboot.launch import SETTINGS, platform_key, wrong_setting


@pytest.mark.parametrize("variable", SETTINGS)
def test_every_choice_of_a_setting_is_accepted(variable: str) -> None:
    problems = [wrong_setting({variable: choice}) for choice in ("", *SETTINGS[variable])]

    assert set(problems) == {""}


def test_an_invalid_setting_is_reported_with_its_choices() -> None:
    assert wrong_setting({"RYE_NATIVE": "yes"}) == (
        "RYE_NATIVE: expected one of auto, cache, memfd, temp, off, found 'yes'"
    )
    assert wrong_setting({"RYE_EXIT": "0"}) == ("RYE_EXIT: expected one of fast, normal, found '0'")
    assert wrong_setting({"RYE_BOOT": "x"}) == "RYE_BOOT: expected one of auto, shiv, found 'x'"


def test_the_index_and_the_start_call_this_platform_the_same() -> None:
    own = this_platform()
    if own is None:
        pytest.skip(f"nothing compiled is packed for {platform_key()}")

    assert own.key(sys.version_info[1]) == platform_key()


def test_all_interpreters_have_different_names() -> None:
    keys = [platform.key(minor) for platform in PLATFORMS for minor in (11, 12, 13, 14)]

    assert len(set(keys)) == len(keys) == 28
