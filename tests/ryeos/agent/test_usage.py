"""Usage as providers report it: each token counted once, nonsense is unknown."""

import pytest

from lillux.fields import Fields
from ryeos.agent.dialects import DIALECTS
from ryeos.agent.messages import Usage
from ryeos.agent.usage import MAX_TOKENS, UsageRules, read_usage, usage_rules

ANTHROPIC, RESPONSES, CHAT = (
    DIALECTS[name].usage for name in ("anthropic-messages", "openai-responses", "openai-chat")
)


def test_cached_tokens_that_the_input_leaves_out_are_not_taken_from_it() -> None:
    reported = {
        "input_tokens": 10,
        "cache_read_input_tokens": 2000,
        "cache_creation_input_tokens": 500,
        "cache_creation": {"ephemeral_5m_input_tokens": 100, "ephemeral_1h_input_tokens": 400},
        "output_tokens": 7,
    }

    assert read_usage(reported, ANTHROPIC) == Usage(
        input_tokens=10,
        output_tokens=7,
        cache_read_tokens=2000,
        cache_write_tokens=100,
        cache_write_1h_tokens=400,
    )


def test_cached_tokens_that_the_input_includes_are_counted_once() -> None:
    reported = {
        "prompt_tokens": 1000,
        "completion_tokens": 7,
        "prompt_tokens_details": {"cached_tokens": 800, "cache_write_tokens": 150},
    }

    assert read_usage(reported, CHAT) == Usage(
        input_tokens=50, output_tokens=7, cache_read_tokens=800, cache_write_tokens=150
    )


def test_thinking_that_only_the_total_has_is_output() -> None:
    reported = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 115}

    assert read_usage(reported, CHAT).output_tokens == 105


def test_a_total_below_its_parts_changes_nothing() -> None:
    reported = {"input_tokens": 10, "output_tokens": 5, "total_tokens": 0}

    assert read_usage(reported, RESPONSES) == Usage(input_tokens=10, output_tokens=5)


@pytest.mark.parametrize(
    "figure", [None, -1, True, "12", 1.5, float("nan"), MAX_TOKENS + 1, [], {"a": 1}]
)
def test_a_figure_that_is_none_is_unknown(figure: object) -> None:
    reported = {"input_tokens": figure, "output_tokens": 5}

    assert read_usage(reported, ANTHROPIC) == Usage(input_tokens=None, output_tokens=5)


def test_usage_that_is_missing_is_unknown_and_0_stays_0() -> None:
    assert read_usage({}, CHAT) == Usage()
    assert read_usage({"prompt_tokens": 0, "completion_tokens": 0.0}, CHAT) == Usage(
        input_tokens=0, output_tokens=0
    )


@pytest.mark.parametrize("figure", [-5000, "70000", 1.5, True])
@pytest.mark.parametrize("name", ["cache_read_input_tokens", "cache_creation_input_tokens"])
def test_a_figure_of_a_cache_that_is_none_makes_the_input_unknown(
    name: str, figure: object
) -> None:
    reported = {"input_tokens": 10, "output_tokens": 5, name: figure}

    assert read_usage(reported, ANTHROPIC).input_tokens is None


def test_more_cached_tokens_than_input_make_the_input_unknown() -> None:
    reported = {"prompt_tokens": 10, "prompt_tokens_details": {"cached_tokens": 11}}

    assert read_usage(reported, CHAT) == Usage(input_tokens=None, cache_read_tokens=11)


def test_a_provider_names_its_own_places_and_keeps_the_others() -> None:
    config = {"cache_read": "prompt_cache_hit_tokens", "includes_cached": False, "total": ""}

    rules = usage_rules(Fields(config, wrong), CHAT)

    assert rules == UsageRules(
        includes_cached=False,
        input="prompt_tokens",
        output="completion_tokens",
        cache_read="prompt_cache_hit_tokens",
        cache_write="prompt_tokens_details.cache_write_tokens",
    )


def test_a_wrong_value_of_the_configuration_is_reported() -> None:
    with pytest.raises(ValueError, match="input: a string"):
        usage_rules(Fields({"input": 5}, wrong), CHAT)


def wrong(key: str, expected: str, _: object) -> None:
    raise ValueError(f"{key}: {expected}")
