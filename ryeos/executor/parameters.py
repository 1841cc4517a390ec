"""Parameters against the tool's schema: defaults first, then every problem at once. Pure."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from lillux.digests import CanonicalJsonError, require_json
from lillux.flat_schema import fitted
from ryeos.errors import ParameterError

RESOLVED_CONFIG = "resolved_config"

# What `name=text` on a command line cannot say.
_GIVEN_AS_JSON = ("integer", "number", "boolean", "array", "object", "null")


def checked_parameters(
    parameters: Mapping[str, Any],
    schema: Mapping[str, Any] | None,
    exempt: Collection[str] = (),
    *,
    ref: str = "ITEM",
) -> dict[str, Any]:
    """The parameters with the schema's defaults filled in. Never changes its input.

    ``exempt`` names may be given although the schema does not list them; ``ref`` is who wants
    them. Raises ParameterError with all violations, also for what JSON cannot hold; SchemaError
    for a schema that is none.
    """
    if not schema:
        return _plain(parameters)
    properties = schema.get("properties")
    declared = properties if isinstance(properties, dict) else {}
    passed_by = {name for name in exempt if name not in declared}
    checked = {name: value for name, value in parameters.items() if name not in passed_by}
    filled = fitted(checked, schema)
    if filled is None:
        filled = _judged(checked, schema, ref)
    return filled | {name: parameters[name] for name in passed_by if name in parameters}


def _judged(parameters: Mapping[str, Any], schema: Mapping[str, Any], ref: str) -> dict[str, Any]:
    """The parameters with their defaults, after the whole verdict."""
    from lillux.schema import check_schema, violations, with_defaults

    check_schema(schema)
    filled = with_defaults(parameters, schema)
    found = violations(filled, schema)
    if found or not isinstance(filled, dict):
        hint = next(_hints(found, parameters, ref), "")
        raise ParameterError([str(violation) for violation in found], hint=hint)
    return filled


def _plain(parameters: Mapping[str, Any]) -> dict[str, Any]:
    plain = dict(parameters)
    try:
        require_json(plain)
    except CanonicalJsonError as error:
        raise ParameterError([str(error)]) from error
    return plain


def _hints(found: Any, parameters: Mapping[str, Any], ref: str) -> Iterator[str]:  # noqa: ANN401
    for violation in found:
        name = violation.pointer.removeprefix("/")
        value = parameters.get(name)
        if isinstance(value, str) and violation.expected.startswith(_GIVEN_AS_JSON):
            yield f"{name}=... is text; give JSON with {name}:=..."
    yield f"see what it takes: rye load {ref}"
