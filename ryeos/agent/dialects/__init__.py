"""The three wire formats of model providers: a table, and a module for each, imported when used.

A provider of the configuration names one of them, and changes its `usage`, `schema` and `retry`
where it differs (docs/agents.md).
"""

from collections.abc import Mapping
from importlib import import_module
from typing import Protocol, cast

from lillux.values import dataclass
from ryeos.agent.messages import Answer, Piece, Request
from ryeos.agent.provider_errors import ProviderError, RetryRules
from ryeos.agent.schemas import SchemaRules
from ryeos.agent.usage import UsageRules


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """One wire format: its module, and what holds for a provider that says nothing else."""

    module: str
    usage: UsageRules
    schema: SchemaRules
    retry: RetryRules


DIALECTS: Mapping[str, Dialect] = {
    "anthropic-messages": Dialect(
        module="ryeos.agent.dialects.anthropic_messages",
        usage=UsageRules(
            includes_cached=False,
            input="input_tokens",
            output="output_tokens",
            cache_read="cache_read_input_tokens",
            cache_write="cache_creation_input_tokens",
            cache_write_1h="cache_creation.ephemeral_1h_input_tokens",
        ),
        schema=SchemaRules(root="merge"),
        retry=RetryRules(
            codes=frozenset({"overloaded_error", "rate_limit_error", "api_error", "timeout_error"}),
            never=frozenset({"billing_error"}),
        ),
    ),
    "openai-responses": Dialect(
        module="ryeos.agent.dialects.openai_responses",
        usage=UsageRules(
            includes_cached=True,
            input="input_tokens",
            output="output_tokens",
            cache_read="input_tokens_details.cached_tokens",
            total="total_tokens",
        ),
        schema=SchemaRules(root="merge"),
        retry=RetryRules(codes=frozenset({"server_error", "rate_limit_exceeded"})),
    ),
    "openai-chat": Dialect(
        module="ryeos.agent.dialects.openai_chat",
        usage=UsageRules(
            includes_cached=True,
            input="prompt_tokens",
            output="completion_tokens",
            cache_read="prompt_tokens_details.cached_tokens",
            cache_write="prompt_tokens_details.cache_write_tokens",
            total="total_tokens",
        ),
        schema=SchemaRules(root="merge"),
        retry=RetryRules(codes=frozenset({"server_error", "rate_limit_exceeded", "overloaded"})),
    ),
}


class AnswerStream(Protocol):
    """Reads the events of one answer."""

    def feed(self, event: str, data: str) -> tuple[Piece, ...]:
        """Take one event: its type and its data. Raises ProviderError."""
        ...

    def answer(self) -> Answer:
        """The whole answer. Raises CutError unless the last event of the dialect was there."""
        ...


class DialectModule(Protocol):
    """The names that the module of a dialect has."""

    PATH: str
    """Behind the base URL of a provider."""

    def headers(self, key: str) -> dict[str, str]:
        """The headers of a request; without a key, no header of the key."""
        ...

    def body(self, request: Request, schema: SchemaRules) -> bytes:
        """The body of a request: the same bytes for the same request, always."""
        ...

    def Stream(  # noqa: N802 - a class
        self, usage: UsageRules = ..., retry: RetryRules = ...
    ) -> AnswerStream:
        """The reader of one answer."""
        ...

    def error_of(self, status: int, body: bytes, rules: RetryRules) -> ProviderError:
        """The failure that an answer with an error status means."""
        ...


def load(name: str) -> DialectModule:
    """The module of a dialect, by a name of `DIALECTS`."""
    return cast(DialectModule, import_module(DIALECTS[name].module))
