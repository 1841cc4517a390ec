"""What an answer with an error status means, in the words of each provider."""

import json

import pytest

from lillux.fields import Fields
from ryeos.agent.dialects import DIALECTS
from ryeos.agent.provider_errors import ProviderError, RetryRules, error_of, retry_rules

ANTHROPIC, CHAT = (DIALECTS[name].retry for name in ("anthropic-messages", "openai-chat"))


def error(status: int, said: object = None, rules: RetryRules = CHAT) -> ProviderError:
    """The error of an answer."""
    return error_of(status, said if isinstance(said, bytes) else json.dumps(said).encode(), rules)


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504, 529])
def test_a_busy_or_broken_provider_is_tried_again(status: int) -> None:
    found = error(status, {"error": {"message": "Busy"}})

    assert (found.code, found.is_retryable) == ("PROVIDER_UNAVAILABLE", True)
    assert found.facts == {"status": status, "retryable": True}


@pytest.mark.parametrize("status", [400, 402, 404, 405, 422])
def test_a_request_that_is_refused_is_not_tried_again(status: int) -> None:
    found = error(status, {"error": {"message": "No", "type": "invalid_request_error"}})

    assert (found.code, found.is_retryable) == ("PROVIDER_REFUSED", False)
    assert str(found) == (
        f"provider: expected an answer, found status {status} (invalid_request_error): No"
    )


@pytest.mark.parametrize("status", [401, 403])
def test_a_key_that_is_refused_says_how_to_set_it(status: int) -> None:
    found = error(status, {"error": {"message": "invalid x-api-key"}})

    assert (found.code, found.is_retryable) == ("CREDENTIAL_REFUSED", False)
    assert found.hint == (
        "see where its key is kept: rye agent models; store another: rye agent set-up --new-key"
    )


def test_an_empty_account_is_not_tried_again_although_the_status_says_so() -> None:
    said = {"error": {"message": "You exceeded your quota", "code": "insufficient_quota"}}

    assert (error(429, said).code, error(429, said).is_retryable) == ("PROVIDER_REFUSED", False)


def test_a_code_of_the_list_is_tried_again_whatever_the_status() -> None:
    said = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}

    assert error(200, said, ANTHROPIC).is_retryable
    assert not error(200, said, RetryRules()).is_retryable


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (400, {"code": "context_length_exceeded", "message": "too many"}),
        (400, {"message": "This model's maximum context length is 8192 tokens. However, ..."}),
        (
            400,
            {
                "type": "invalid_request_error",
                "message": "prompt is too long: 210000 tokens > 200000 maximum",
            },
        ),
        (
            400,
            {"message": "input length and `max_tokens` exceed context limit: 1 + 2 > 2, decrease"},
        ),
        (413, {"type": "request_too_large", "message": "Request exceeds the maximum size"}),
        (
            400,
            {
                "code": 400,
                "type": "exceed_context_size_error",
                "message": "request (9 tokens) exceeds the available context size (8 tokens)",
            },
        ),
        (
            400,
            {
                "code": 400,
                "status": "INVALID_ARGUMENT",
                "message": "The input token count (9) exceeds the maximum number of tokens (8)",
            },
        ),
        (400, {"message": "Your input exceeds the context window of this model."}),
    ],
)
def test_a_context_that_is_too_long_is_recognised(status: int, said: object) -> None:
    found = error(status, {"error": said})

    assert (found.code, found.is_retryable) == ("CONTEXT_FULL", False)


def test_a_rate_limit_that_speaks_of_tokens_is_no_full_context() -> None:
    said = {"error": {"message": "Rate limit: the maximum context length is not the cause"}}

    assert error(429, said).code == "PROVIDER_UNAVAILABLE"


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ([{"error": {"code": 400, "message": "Gemini", "status": "BAD"}}], " (BAD): Gemini"),
        ({"error": "only words"}, ": only words"),
        ({"object": "error", "message": "vLLM", "type": "BadRequestError"}, "(BadRequestError)"),
        ({"detail": "FastAPI"}, ": FastAPI"),
        ({"error": {"message": 5, "code": ["x"]}}, ": no explanation"),
        (b"<html>Bad Gateway</html>", ": <html>Bad Gateway</html>"),
        (b"", ": no explanation"),
        (b"\xff\xfe", ": \ufffd\ufffd"),
        (b"[" * 100_000, ": [[["),
        ([], ": no explanation"),
        (None, ": no explanation"),
    ],
)
def test_an_error_may_have_any_shape(said: object, words: str) -> None:
    assert words in str(error(400, said))


def test_what_a_provider_says_is_shown_on_one_line_and_cut() -> None:
    said = {"error": {"message": "a\x1b[2J\n" + "b" * 10_000, "code": "c\n" * 1000}}

    shown = str(error(400, said))

    assert shown.isprintable()
    assert len(shown) < 800
    assert "a\\u001b[2J bbb" in shown


def test_a_provider_changes_when_it_is_tried_again() -> None:
    config = {"statuses": [418], "codes": ["tired"], "tries": 2}

    rules = retry_rules(Fields(config, wrong), CHAT)

    assert rules == RetryRules(
        statuses=frozenset({418}), codes=frozenset({"tired"}), never=CHAT.never, tries=2
    )
    for bad in ({"statuses": [42]}, {"statuses": 429}, {"tries": 0}, {"codes": "tired"}):
        with pytest.raises(ValueError, match="expected"):
            retry_rules(Fields(bad, wrong), CHAT)


def wrong(key: str, expected: str, _: object) -> None:
    raise ValueError(f"{key}: expected {expected}")
