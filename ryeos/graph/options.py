"""Options of a run: what its caller's parameters say beside the inputs.

A name that the graph's own ``config_schema`` declares is an input, whatever it is otherwise. Pure.
"""

from collections.abc import Callable, Mapping
from typing import Any

from lillux.values import dataclass, field
from ryeos.items.errors import ParameterError
from ryeos.items.specs import type_name


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The options of a run. Page: ``docs/graphs.md``.

    run_id           of the run to begin, or with ``resume`` of that one
    node             the one node to work on, then stop
    inject_state     laid over the state before that
    capabilities     a further list that must allow every call, or None
    max_steps, max_concurrency, depth  None leaves them to the graph and the configuration
    override_inputs  a resumed run takes the inputs of this call
    force            a resumed run may be of another version of the graph
    """

    max_steps: int | None = None
    max_concurrency: int | None = None
    run_id: str = ""
    resume: bool = False
    node: str = ""
    inject_state: Mapping[str, Any] = field(default_factory=dict)
    validate: bool = False
    capabilities: tuple[str, ...] | None = None
    depth: int | None = None
    override_inputs: bool = False
    force: bool = False


OptionCheck = Callable[[object], bool]


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _is_depth(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_names(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) for name in value)


def _is(kind: type) -> OptionCheck:
    return lambda value: isinstance(value, kind)


# What the engine takes from the parameters of any tool.
_ENGINES = frozenset({"timeout", "cwd"})
# name of the parameter -> what it must be, in words and as a check
_KNOWN: Mapping[str, tuple[str, OptionCheck]] = {
    "max_steps": ("a whole number above 0", _is_count),
    "max_concurrency": ("a whole number above 0", _is_count),
    "resume": ("true or false", _is(bool)),
    "graph_run_id": ("the id of a run", _is(str)),
    "resume_run_id": ("the id of a run", _is(str)),
    "node": ("the name of a node", _is(str)),
    "inject_state": ("a mapping", _is(dict)),
    "validate": ("true or false", _is(bool)),
    "capabilities": ("a list of texts", _is_names),
    "depth": ("a whole number from 0 up", _is_depth),
    "limits": ("a mapping", _is(dict)),
    "override_inputs": ("true or false", _is(bool)),
    "force": ("true or false", _is(bool)),
    "async": ("true or false", _is(bool)),
}


def split_options(
    parameters: Mapping[str, Any], schema: Mapping[str, Any] | None
) -> tuple[dict[str, Any], Options]:
    """Inputs and options. Raises ParameterError with every option that is of a wrong type."""
    declared = (schema or {}).get("properties") or {}
    given = {name: parameters[name] for name in _KNOWN if name in parameters}
    given = {name: value for name, value in given.items() if name not in declared}
    problems = [
        f"{name}: expected {words}, got {type_name(given[name])}"
        for name, (words, fits) in _KNOWN.items()
        if name in given and not fits(given[name])
    ]
    injected = given.get("inject_state")
    if isinstance(injected, dict) and not isinstance(injected.get("inputs", {}), dict):
        found = type_name(injected["inputs"])
        problems.append(f"inject_state.inputs: expected a mapping, got {found}")
    depth = (given.get("limits") or {}).get("depth") if not problems else None
    if depth is not None and not _is_depth(depth):
        problems.append(f"limits.depth: expected a whole number from 0 up, got {type_name(depth)}")
    if problems:
        raise ParameterError(problems, hint="what steers a run of a graph: rye help graphs")
    taken = given.keys() | (_ENGINES - declared.keys())
    inputs = {name: value for name, value in parameters.items() if name not in taken}
    return inputs, _options(given, depth)


def _options(given: Mapping[str, Any], depth: int | None) -> Options:
    resumed = given.get("resume_run_id", "")
    depths = [one for one in (given.get("depth"), depth) if one is not None]
    listed = given.get("capabilities")
    return Options(
        max_steps=given.get("max_steps"),
        max_concurrency=given.get("max_concurrency"),
        run_id=resumed or given.get("graph_run_id", ""),
        resume=bool(resumed) or given.get("resume", False),
        node=given.get("node", ""),
        inject_state=given.get("inject_state", {}),
        validate=given.get("validate", False),
        capabilities=None if listed is None else tuple(listed),
        depth=min(depths) if depths else None,
        override_inputs=given.get("override_inputs", False),
        force=given.get("force", False),
    )
