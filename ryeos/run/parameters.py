"""Parameters of a call: defaults, then all problems against the tool's schema. Pure."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from lillux.canonical_json import CanonicalJsonError, require_json
from lillux.env_resolver import ResolvedEnv
from lillux.schema import Violation, violations, with_defaults
from lillux.templating import Names, fill
from lillux.values import dataclass, field
from ryeos.items.errors import ParameterError, SpecError
from ryeos.items.specs import type_name
from ryeos.run.anchor import Anchor
from ryeos.run.limits import GRACE_OVER_TOOL_TIMEOUT_S, MAX_LIMIT

RESOLVED_CONFIG = "resolved_config"


def valid_parameters(
    parameters: Mapping[str, Any],
    schema: Mapping[str, Any] | None,
    exempt: Collection[str] = (),
    *,
    ref: str = "ITEM",
) -> dict[str, Any]:
    """The parameters with the schema's defaults filled in. Never changes its input.

    ``exempt`` names may be given although the schema does not list them; ``ref`` is who wants
    them. Raises ParameterError with all violations, also for what JSON cannot hold; SchemaError
    for an invalid schema.
    """
    if not schema:
        return _plain(parameters)
    properties = schema.get("properties")
    declared = properties if isinstance(properties, dict) else {}
    passed_by = {name for name in exempt if name not in declared}
    checked = {name: value for name, value in parameters.items() if name not in passed_by}
    filled = _validated(checked, schema, ref)
    return filled | {name: parameters[name] for name in passed_by if name in parameters}


def _validated(
    parameters: Mapping[str, Any], schema: Mapping[str, Any], ref: str
) -> dict[str, Any]:
    """The parameters with their defaults, after the whole verdict."""
    filled = with_defaults(parameters, schema)
    found = violations(filled, schema)
    if found or not isinstance(filled, dict):
        hint = next(_hints(found, parameters, schema, ref))
        listed = schema.get("properties")
        known = listed if isinstance(listed, dict) else {}
        raise ParameterError([_problem(one, known) for one in found], hint=hint)
    return filled


def _problem(
    violation: Violation,
    known: Mapping[str, Any],
) -> str:
    """The problem in the words of someone who calls a tool."""
    name = violation.pointer.removeprefix("/")
    if not violation.expected.startswith("no such key") or "/" in name:
        return str(violation)
    from lillux.foreign_text import printable

    takes = printable(", ".join(known)) or "none"
    problem = f"unknown parameter {printable(name)}, it takes {takes}"
    other = next((one for one in known if one.casefold() == name.casefold()), "")
    guess = re.search(r'did you mean "([^"]+)"', violation.expected)
    meant = other or (guess[1] if guess else "")
    return f"{problem}; did you mean {meant}?" if meant else problem


def _plain(parameters: Mapping[str, Any]) -> dict[str, Any]:
    plain = dict(parameters)
    try:
        require_json(plain)
    except CanonicalJsonError as error:
        raise ParameterError([str(error)]) from error
    return plain


def _hints(
    found: Sequence[Violation],
    parameters: Mapping[str, Any],
    schema: Mapping[str, Any],
    ref: str,
) -> Iterator[str]:
    """Remedies for parameters that do not fit, the most helpful first."""
    from difflib import get_close_matches

    listed = schema.get("properties")
    known = listed if isinstance(listed, dict) else {}
    places = {violation.pointer.removeprefix("/") for violation in found}
    absent = [name for name in known if name not in parameters and name in places]
    for name in parameters:
        close = get_close_matches(name, absent, 1, 0.6) if name not in known else []
        if close:
            yield f"did you mean {close[0]}? found {name}"
    yield f"see what it takes: rye run {ref} --help"


# A caller's parameters, taken apart: what the tool gets, and what steers its process. Pure.

STEERING = ("timeout", "cwd")
STEERS = "x-steers"
"""The key, with true, of a parameter in a tool's schema that steers the process instead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallerValues:
    """A caller's parameters, taken apart.

    tool       what the tool receives
    steering   ``timeout`` and ``cwd``, where the tool's schema says that they steer its process
    warnings   parameters that the tool's fixed ones replace
    """

    tool: Mapping[str, Any]
    steering: Mapping[str, Any] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()


def filled_fixed_params(
    config: Mapping[str, Any], anchor: Anchor, env: ResolvedEnv
) -> dict[str, Any]:
    """The parameters that the chain itself gives, ``config.fixed_params``. Raises SpecError."""
    fixed = config.get("fixed_params") or {}
    if not isinstance(fixed, dict):
        raise SpecError("config.fixed_params", f"expected a mapping, got {type_name(fixed)}")
    names = Names(variables=env.variables, fixed=anchor.names, templates=config)
    return {name: fill(value, names) for name, value in fixed.items()}


def caller_values(
    parameters: Mapping[str, Any],
    schema: Mapping[str, Any] | None,
    config: Mapping[str, Any],
    fixed: Mapping[str, Any],
) -> CallerValues:
    """Take the caller's parameters apart, the ``fixed`` ones laid over them."""
    steering = {
        name: parameters[name]
        for name in STEERING
        if name in parameters and _is_steering(schema, name)
    }
    own = {name: value for name, value in parameters.items() if name not in steering}
    nested = config.get("params_key")
    if isinstance(nested, str):
        return CallerValues(tool={**fixed, nested: own}, steering=steering)
    clashes = sorted(own.keys() & fixed.keys())
    return CallerValues(
        tool={**own, **fixed},
        steering=steering,
        warnings=tuple(
            f"parameter {name} is fixed by the tool; yours is not used" for name in clashes
        ),
    )


_LITERAL = "rye_value_"


@dataclass(frozen=True, slots=True, kw_only=True)
class CallerConfig:
    """A config that a caller wrote, for a primitive that is itself the called tool.

    config  templates: each text that could be one is nothing but a name
    values  these texts by their names, which nothing reads as templates
    """

    config: Mapping[str, Any] = field(default_factory=dict)
    values: Mapping[str, object] = field(default_factory=dict, repr=False)


def caller_config(
    given: Mapping[str, Any], schema: Mapping[str, Any] | None, *, item_id: str
) -> CallerConfig:
    """The caller's parameters as the config of a primitive, as far as its schema lists them.

    Raises ParameterError for any other: a config has keys that no caller sets, like ``protocol``.
    """
    listed = (schema or {}).get("properties")
    known = listed if isinstance(listed, dict) else {}
    unknown = [name for name in given if name not in known]
    if unknown:
        takes = ", ".join(known) or "none"
        problem = f"unknown parameter {unknown[0][:80]}, it takes {takes}"
        raise ParameterError([problem], hint=f"see what it takes: rye run tool:{item_id} --help")
    values: dict[str, object] = {}
    config = {name: _literal(value, values) for name, value in given.items()}
    # A program that reads its parameters from its standard input is one of a runtime.
    return CallerConfig(config={"input_data": "", **config}, values=values)


def _literal(value: object, values: dict[str, object]) -> object:
    """A template that gives the value; its texts go to ``values``, and none is read again."""
    match value:
        case str() if "{" in value:
            name = f"{_LITERAL}{len(values)}"
            values[name] = value
            return f"{{{name}}}"
        case list() | tuple():
            return [_literal(one, values) for one in value]
        case Mapping():
            return {key: _literal(one, values) for key, one in value.items()}
        case _:
            return value


def caller_variables(given: object, present: Mapping[str, str]) -> dict[str, str]:
    """The variables that a caller sets for a program of its own. Raises ParameterError.

    Those that decide which code a program loads, and those of Rye, are not among them: what
    confines the program starts with them too.
    """
    if given is None:
        return {}
    if not isinstance(given, Mapping) or not all(isinstance(one, str) for one in given.values()):
        raise ParameterError(["/env: expected a mapping of names to texts"])
    from lillux.dotenv_files import is_protected

    for name, value in given.items():
        if not name or {"=", "\0"} & {*name} or "\0" in value:
            raise ParameterError([f"/env: expected the name of a variable, found {name[:80]!a}"])
        if is_protected(name, present):
            raise ParameterError(
                [f"/env: {name[:80]}: expected a variable that is not protected"],
                hint=f"set it in the command: command=env, args=['{name[:80]}=...', PROGRAM]",
            )
    return dict(given)


def _is_steering(schema: Mapping[str, Any] | None, name: str) -> bool:
    declared = (schema or {}).get("properties")
    rules = declared.get(name) if isinstance(declared, dict) else None
    return isinstance(rules, dict) and rules.get(STEERS) is True


def tool_timeout(limit_s: float | None, values: CallerValues) -> float | None:
    """The process's limit when the tool has a ``timeout`` parameter of its own: a little longer."""
    own = values.tool.get("timeout")
    if limit_s is None or isinstance(own, bool) or not isinstance(own, (int, float)):
        return limit_s
    return max(limit_s, min(own + GRACE_OVER_TOOL_TIMEOUT_S, MAX_LIMIT))
