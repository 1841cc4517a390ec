"""The models of a workspace's threads."""

from collections.abc import Callable, Mapping
from typing import Any

from lillux.cancellation import Cancellation
from lillux.fields import Fields
from ryeos.agent.dialects import DIALECTS
from ryeos.agent.exchange import Endpoint, Exchange, Unanswered, endpoint_of
from ryeos.agent.messages import Answer as ModelAnswer
from ryeos.agent.messages import Piece, Request
from ryeos.agent.provider_errors import retry_rules
from ryeos.agent.schemas import schema_rules
from ryeos.agent.usage import usage_rules
from ryeos.items.errors import RyeError


class WorkspaceModels:
    """See `ryeos.agent.means.Model`."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._endpoints: dict[str, Endpoint] = {}

    def body(self, frozen: Mapping[str, Any], request: Request) -> bytes:
        """The body of a request to a model."""
        return self._exchange.body(self._endpoint(frozen), request)

    def ask(
        self,
        frozen: Mapping[str, Any],
        body: bytes,
        *,
        left_s: float,
        follow: Callable[[Piece], None],
        cancellation: Cancellation,
    ) -> ModelAnswer | Unanswered:
        """The answer of a model, or why there is none."""
        return self._exchange.ask(
            self._endpoint(frozen),
            frozen,
            body,
            left_s=left_s,
            follow=follow,
            cancellation=cancellation,
        )

    def tries(self, frozen: Mapping[str, Any]) -> int:
        """The most times that a model is asked."""
        return self._endpoint(frozen).retry.tries

    def _endpoint(self, frozen: Mapping[str, Any]) -> Endpoint:
        name = f"{frozen['provider']}/{frozen['model']}"
        if name not in self._endpoints:
            self._endpoints[name] = endpoint_of(frozen, provider_rules)
        return self._endpoints[name]


def provider_rules(frozen: Mapping[str, Any]) -> tuple[Any, Any, Any]:
    """The rules by which a provider differs from its dialect: usage, schemas, retries."""
    dialect = DIALECTS[frozen["dialect"]]

    def fields(name: str) -> Fields:
        def wrong(key: str, expected: str, _value: object) -> Any:  # noqa: ANN401 - raises
            raise RyeError(
                f"{frozen['provider']}: {name}.{key}: expected {expected}", code="CONFIG_ERROR"
            )

        return Fields(frozen[name], wrong)

    return (
        usage_rules(fields("usage"), dialect.usage),
        schema_rules(fields("schema"), dialect.schema),
        retry_rules(fields("retry"), dialect.retry),
    )
