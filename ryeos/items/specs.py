"""A tool's metadata as a value, type-checked once.

Fields and spellings are in ``docs/items.md``. A Python or JavaScript file writes
``__version__`` or ``CONFIG_SCHEMA``, a YAML file ``version`` or ``config_schema``.
"""

from collections.abc import Mapping
from enum import Enum
from typing import TYPE_CHECKING, Any

from lillux.fields import ABSENT, Absent, Fields
from lillux.values import dataclass, field
from ryeos.items.errors import SpecError

if TYPE_CHECKING:
    from ryeos.items.rights import Rights


PRIMITIVE_TYPE = "primitive"
RUNTIME_TYPE = "runtime"
EXTRACTOR_TYPE = "extractor"
_BASH_RUNTIME = "rye/core/runtimes/bash/bash"

# field -> spellings in the file, the first found wins
SPELLINGS: Mapping[str, tuple[str, ...]] = {
    "version": ("__version__", "version"),
    "tool_type": ("__tool_type__", "tool_type"),
    "executor_id": ("__executor_id__", "executor_id"),
    "category": ("__category__", "category"),
    "description": ("__tool_description__", "__description__", "description"),
    "name": ("__name__", "name"),
    "env_config": ("ENV_CONFIG", "env_config"),
    "config_schema": ("CONFIG_SCHEMA", "config_schema", "input_schema", "INPUT_SCHEMA"),
    "parameters": ("PARAMETERS", "parameters"),
    "config": ("CONFIG", "config"),
    "anchor": ("ANCHOR", "anchor"),
    "verify_deps": ("VERIFY_DEPS", "verify_deps"),
    "config_resolve": ("CONFIG_RESOLVE", "config_resolve"),
    "execution_params": ("EXECUTION_PARAMS", "execution_params"),
    "inputs": ("__inputs__", "INPUTS", "inputs"),
    "outputs": ("__outputs__", "OUTPUTS", "outputs"),
    "child_constraints": ("CHILD_CONSTRAINTS", "child_constraints"),
    "params_mode": ("__params_mode__", "params_mode"),
    "variants": ("VARIANTS", "variants"),
    "sandbox": ("SANDBOX", "__sandbox__", "sandbox"),
    "execution_owner": ("__execution_owner__", "execution_owner"),
    "native_async": ("__native_async__", "native_async"),
    "retryable": ("__retryable__", "retryable"),
}
_KNOWN_KEYS = frozenset(spelling for names in SPELLINGS.values() for spelling in names)


class ParamsMode(Enum):
    """The way of a tool's parameters besides standard input."""

    AUTO = "auto"
    STDIN = "stdin"
    ARGS = "args"
    BOTH = "both"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSpec:
    """The declarations of a tool, a runtime or a primitive.

    executor_id    the next element; None ends the chain; ABSENT when the file does not say
    config         the element's part of the execution config
    variants       alternative configs of a runtime, chosen by the tool file's suffix
    sandbox        what the item may do, None where it does not say; of a runtime, a limit
    execution_owner, native_async  who sees to background runs, see ``docs/running.md``
    retryable      a node may execute it once more, where it was interrupted
    unrecognized   every other key of the header, kept as it is
    """

    version: str | None
    tool_type: str | None
    executor_id: str | Absent | None
    category: str | None
    description: str
    env_config: Mapping[str, Any] = field(default_factory=dict)
    config_schema: Mapping[str, Any] | None = None
    config: Mapping[str, Any] = field(default_factory=dict)
    anchor: Mapping[str, Any] | None = None
    verify_deps: Mapping[str, Any] | None = None
    config_resolve: Any = None
    execution_params: tuple[str, ...] = ()
    inputs: tuple[str, ...] | None = None
    outputs: tuple[str, ...] | None = None
    child_constraints: Mapping[str, Any] = field(default_factory=dict)
    params_mode: ParamsMode = ParamsMode.AUTO
    variants: tuple[Mapping[str, Any], ...] = ()
    sandbox: "Rights | None" = None
    execution_owner: str | None = None
    native_async: bool | None = None
    retryable: bool | None = None
    unrecognized: Mapping[str, Any] = field(default_factory=dict)


def header_field(header: Mapping[str, Any], name: str) -> Any:  # noqa: ANN401 - JSON passes through
    """The value of a field under any of its spellings, or ABSENT."""
    for spelling in SPELLINGS.get(name, (name,)):
        if spelling in header:
            return header[spelling]
    return ABSENT


def tool_spec(header: Mapping[str, Any], suffix: str) -> ToolSpec:
    """Make the value from a parsed header. Raises SpecError with the path of the first problem.

    A shell script says with its header, or with ``#!``, that it is a tool, and runs with bash where
    it names nothing else. One with neither is a text: no executor, and so nothing that can run.
    """
    read = _HeaderFields(header)
    is_shell = suffix == ".sh" and not _KNOWN_KEYS.isdisjoint(header)
    return ToolSpec(
        version=read.text("version"),
        tool_type=read.text("tool_type") or ("bash" if is_shell else None),
        executor_id=_executor_id(header, _BASH_RUNTIME if is_shell else ABSENT),
        category=read.text("category"),
        description=read.text("description") or "",
        env_config=read.mapping("env_config") or {},
        config_schema=_schema(read),
        config=read.mapping("config") or {},
        anchor=read.mapping("anchor"),
        verify_deps=read.mapping("verify_deps"),
        config_resolve=read.any("config_resolve"),
        execution_params=read.names("execution_params") or (),
        inputs=read.names("inputs"),
        outputs=read.names("outputs"),
        child_constraints=read.mapping("child_constraints") or {},
        params_mode=_params_mode(read),
        variants=_variants(read),
        sandbox=_sandbox(read),
        execution_owner=read.text("execution_owner"),
        native_async=read.flag("native_async"),
        retryable=read.flag("retryable"),
        unrecognized={key: value for key, value in header.items() if key not in _KNOWN_KEYS},
    )


class _HeaderFields(Fields):
    """Reads a header, each field under any of its spellings."""

    def __init__(self, header: Mapping[str, Any]) -> None:
        super().__init__(header, self._refuse)

    def value(self, key: str) -> Any:  # noqa: ANN401 - JSON passes through
        """The value under the first spelling that is there."""
        value = header_field(self.data, key)
        return ABSENT if value is None else value

    def names(self, key: str) -> tuple[str, ...] | None:
        """A list of names; a mapping counts as its keys, which is how JSON Schema lists them."""
        value = self.read(key, lambda value: isinstance(value, (list, dict)), "a list of names")
        if value is None:
            return None
        for index, entry in enumerate(value):
            if not isinstance(entry, (str, dict)):
                self._refuse(f"{key}[{index}]", "a name", entry)
        named = (entry if isinstance(entry, str) else str(entry.get("name", "")) for entry in value)
        return tuple(named)

    @staticmethod
    def _refuse(key: str, expected: str, value: object) -> None:
        raise SpecError(key, f"expected {expected}, got {type_name(value)}")


_TYPE_NAMES: Mapping[type, str] = {
    type(None): "null",
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    list: "list",
    dict: "mapping",
}


def type_name(value: object) -> str:
    """A value's type in the words of JSON."""
    return _TYPE_NAMES.get(type(value), type(value).__name__)


def _executor_id(header: Mapping[str, Any], otherwise: str | Absent) -> str | Absent | None:
    value = header_field(header, "executor_id")
    if value is ABSENT:
        return otherwise
    if value is None or (isinstance(value, str) and value):
        return value
    raise SpecError("executor_id", f"expected an id or null, got {type_name(value)}")


def _schema(read: _HeaderFields) -> Mapping[str, Any] | None:
    schema = read.mapping("config_schema")
    parameters = read.any("parameters")
    if schema is not None or parameters is None:
        return schema
    if not isinstance(parameters, list):
        raise SpecError("parameters", f"expected a list, got {type_name(parameters)}")
    from lillux.schema import schema_from_parameter_list

    return schema_from_parameter_list(parameters)


def _params_mode(read: _HeaderFields) -> ParamsMode:
    word = read.text("params_mode") or _config_mode(read)
    try:
        return ParamsMode(word or "auto")
    except ValueError:
        known = ", ".join(mode.value for mode in ParamsMode)
        raise SpecError("params_mode", f"expected one of {known}, got {word!r}") from None


def _config_mode(read: _HeaderFields) -> str | None:
    """The mode written inside ``config``, where older tools keep it."""
    config = read.mapping("config") or {}
    mode = config.get("params_mode")
    return mode if isinstance(mode, str) else None


def _sandbox(read: _HeaderFields) -> "Rights | None":
    """Its declared rights. Unnamed rights: none for a tool, unlimited for a runtime."""
    value = header_field(read.data, "sandbox")
    if value is ABSENT:
        return None
    from ryeos.items.rights import ANYTHING, NOTHING, read_rights

    is_limit = read.text("tool_type") in {RUNTIME_TYPE, PRIMITIVE_TYPE}
    return read_rights(value, absent=ANYTHING if is_limit else NOTHING)


def _variants(read: _HeaderFields) -> tuple[Mapping[str, Any], ...]:
    value = read.any("variants")
    if value is None:
        return ()
    if not isinstance(value, list):
        raise SpecError("variants", f"expected a list, got {type_name(value)}")
    for index, variant in enumerate(value):
        if not isinstance(variant, dict) or not isinstance(variant.get("config"), dict):
            raise SpecError(f"variants[{index}]", "expected a mapping with suffixes and config")
        if not isinstance(variant.get("when") or {}, dict):
            raise SpecError(
                f"variants[{index}].when", f"expected a mapping, got {type_name(variant['when'])}"
            )
    return tuple(value)
