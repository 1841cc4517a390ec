"""Rules for the settings files that Rye reads, headers of texts, and the config of a tool.

A slip in one of them would be passed over in silence when it is read, so that a person believes in
a rule that is not applied: `ryeos.app.sign` refuses to sign it. Late, as few signatures need it.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lillux.errors import LilluxError
from lillux.schema import violations
from ryeos.app.graph_environment import HOOKS_PATH
from ryeos.app.policy import POLICY_PATH, policy_from
from ryeos.app.workspace import ALIASES_PATH, INTEGRITY_PATH
from ryeos.items.refs import USER
from ryeos.items.unknown_keys import FOREIGN, closest
from ryeos.remote import registry_settings, remote_values
from ryeos.run import credentials, sandbox_policy
from ryeos.sync.rules import rules_of
from ryeos.trust.config import Layer

_Schema = Mapping[str, Any]

# What any file may say about itself.
_ABOUT = ("version", "category", "name", "description", "entry_type", "schema_version")
_ABOUT_KEYS = f"^(x-.*|_.*|{'|'.join(map(re.escape, (*_ABOUT, *FOREIGN)))})$"


def _only(**keys: _Schema) -> _Schema:
    """A mapping with these keys and no others; null takes a value of a lower layer back."""
    return {"type": ["object", "null"], "properties": keys, "additionalProperties": False}


def _mapping_of(schema: _Schema) -> _Schema:
    """A mapping from any name."""
    return {"type": ["object", "null"], "additionalProperties": schema}


_TEXT: _Schema = {"type": ["string", "null"]}
_NUMBER: _Schema = {"type": ["number", "null"]}
_FLAG: _Schema = {"type": ["boolean", "null"]}
_TEXTS: _Schema = {"type": ["array", "null"], "items": {"type": "string"}}
_HOOK = _only(event=_TEXT, condition={}, action={}, layer=_NUMBER, id=_TEXT, comment={})
_LIMITS = _only(timeout=_NUMBER, max_steps=_NUMBER, max_concurrency=_NUMBER)

# Path below ``.ai/config`` -> what the file may say beside what it says about itself.
SETTINGS: Mapping[str, Mapping[str, _Schema]] = {
    remote_values.CONFIG_PATH: {
        "project_path": _TEXT,
        "project_name": _TEXT,
        "defaults": _only(timeout=_NUMBER),
        "remotes": _mapping_of(
            _only(
                url=_TEXT,
                key_env=_TEXT,
                node_id=_TEXT,
                timeout=_NUMBER,
                roles=_TEXTS,
                allow_insecure=_FLAG,
                project_path=_TEXT,
            )
        ),
    },
    registry_settings.CONFIG_PATH: {
        "registry": _mapping_of(
            _only(
                url=_TEXT,
                key_env=_TEXT,
                fingerprint=_TEXT,
                timeout=_NUMBER,
                allow_insecure=_FLAG,
            )
        ),
    },
    "cas/manifest.yaml": {
        "manifest": _only(skip_dirs=_TEXTS, hard_exclude=_only(names=_TEXTS, patterns=_TEXTS)),
        "sync": _only(include=_TEXTS, exclude=_TEXTS, gitignore=_FLAG),
    },
    "execution/execution.yaml": {"defaults": _LIMITS, "tools": _mapping_of(_LIMITS)},
    INTEGRITY_PATH: {"require_full_coverage": _FLAG},
    ALIASES_PATH: {
        "aliases": _mapping_of(_TEXT),
        "prefixes": _TEXTS,
        "directives": _mapping_of(_TEXT),
    },
    sandbox_policy.POLICY_PATH: {
        "level": {"type": ["string", "boolean", "null"]},
        "limits": {"type": ["object", "null"]},
        "rules": {"type": ["array", "null"]},
        "agents": {"type": ["object", "null"]},
    },
    POLICY_PATH: {
        "sign": _TEXT,
        "shells": _TEXT,
        "rules": {"type": ["array", "null"]},
        "tools": _TEXTS,
        "projects": _TEXTS,
    },
    "file-system/access.yaml": {"allow": _TEXTS},
    HOOKS_PATH: {"hooks": {"type": ["array", "null"], "items": _HOOK}},
    "web/access.yaml": {"allow_private": _TEXTS},
    "web/search.yaml": {"provider": _TEXT, "url": _TEXT, "key_env": _TEXT},
}

# The keys of a tool's ``config`` that its primitive reads, and those of the blocks in it.
_PROCESS_KEYS: tuple[str, ...] = (
    *("protocol", "command", "args", "input_data", "cwd", "timeout", "max_output_bytes", "shell"),
    *("flags", "own_timeout", "no_timeout", "script_from", "script", "command_template", "env"),
    *("fixed_params", "params_key"),
)
_HTTP_KEYS: tuple[str, ...] = (
    *("method", "url", "query", "params", "headers", "body", "auth", "retry", "mode", "stream"),
    *("timeout", "max_response_bytes", "max_output_bytes", "protocol", "cookies", "styles"),
)
_ANY: _Schema = {}
_AUTH: _Schema = {
    "type": "object",
    "properties": {
        "type": {"enum": ["bearer", "api_key"]},
        "token": _TEXT,
        "key": _TEXT,
        "header": _TEXT,
    },
    "required": ["type"],
    "additionalProperties": False,
}
_HTTP_BLOCKS: Mapping[str, _Schema] = {
    # One, or a list: each keyword counts for its own type, and errors name the key.
    "auth": {**_AUTH, "type": ["object", "array"], "items": _AUTH},
    "retry": _only(max_attempts=_ANY, backoff=_ANY, on_status=_ANY, max_delay_s=_ANY),
    "stream": _only(transport=_ANY, destinations=_ANY, buffer_events=_ANY, max_buffer_size=_ANY),
}
_HTTP_CLIENT = "rye/core/primitives/http_client"
# What else reads the config itself; behind other runtimes a config is the tool's own.
_PROCESS_EXECUTORS = frozenset(
    {f"rye/core/primitives/{name}" for name in ("execute", "subprocess")}
    | {"rye/core/runtimes/bash/bash"}
)


def settings_problems(relative: str, values: Mapping[str, Any]) -> Iterator[str]:
    """Problems of a file at this path below ``.ai/config``; none for one of others."""
    own = SETTINGS.get(relative)
    if own is None:
        yield from _of_threads(relative, values)
        return
    schema = {
        "type": "object",
        "properties": own,
        "patternProperties": {_ABOUT_KEYS: {}},  # not among the known ones of an error
        "additionalProperties": False,
    }
    found = [str(one) for one in violations(values, schema)]
    yield from found or _unreadable(relative, values)


def _of_threads(relative: str, values: Mapping[str, Any]) -> Iterator[str]:
    """Problems of a provider, a list of prices, a credential, or of agent.yaml."""
    if relative.startswith("credentials/"):
        yield from credentials.file_problems(relative, values)
    elif relative.startswith("agent/"):
        from ryeos.agent.providers import file_problems

        yield from file_problems(relative, values)


def _unreadable(relative: str, values: Mapping[str, Any]) -> Iterator[str]:
    """Problems that the readers of the file find in values that have the right form."""
    try:
        match relative:
            case remote_values.CONFIG_PATH:
                yield from _unreadable_remotes(values.get("remotes") or {})
            case registry_settings.CONFIG_PATH:
                layer = Layer(USER, Path(relative), values)
                registries = registry_settings.Registries([layer], {})
                for name in registries.names:
                    registries.resolve(name)
            case "cas/manifest.yaml":
                rules_of([(relative, values)])
            case "agents/policy.yaml":
                policy_from(values)
            case sandbox_policy.POLICY_PATH:
                sandbox_policy.policy_from(values)
    except LilluxError as error:
        yield str(error)


def _unreadable_remotes(remotes: Mapping[str, Any]) -> Iterator[str]:
    for name, said in remotes.items():
        with _as_issue() as issues:
            remote_values.valid_remote_name(name)
        yield from issues
        for key, value in (said or {}).items():
            with _as_issue() as issues:
                remote_values.validate_setting(f"remotes.{name}", key, value)
            yield from issues


@contextmanager
def _as_issue() -> Iterator[list[str]]:
    """The problem that is raised within, in a list; an empty one where none is."""
    issues: list[str] = []
    try:
        yield issues
    except LilluxError as error:
        issues.append(str(error))


_SLIP = 0.8  # how like a known key another must be
_KNOWLEDGE_KEYS: tuple[str, ...] = (
    *("name", "title", "entry_type", "category", "version", "author", "description", "tags"),
    *("references", "extends", "created_at", "updated_at"),
)
_DIRECTIVE_PARTS = ("metadata", "inputs", "outputs", "process")
_INPUT_ATTRIBUTES = ("name", "type", "required", "default", "description")


def knowledge_problems(header: Mapping[str, Any]) -> Iterator[str]:
    """Keys of an entry's block that are nearly others; it may have any of its own."""
    yield from _slips("", header, _KNOWLEDGE_KEYS)


def directive_problems(text: str) -> Iterator[str]:
    """Parts and attributes of a directive's header that are nearly others.

    Raises MetadataError.
    """
    from ryeos.items.directive_xml import read_directive_element
    from ryeos.items.directives import DIRECTIVE_FIELDS, metadata_children

    _, root = read_directive_element(text)
    yield from _slips("directive: ", root.attributes, ("name", "version", "extends"))
    yield from _slips("directive: ", [child.tag for child in root.children], _DIRECTIVE_PARTS)
    yield from _slips("metadata: ", metadata_children(root), tuple(sorted(DIRECTIVE_FIELDS)))
    for part in root.children:
        if part.tag in ("inputs", "outputs"):
            for child in part.children:
                yield from _slips(f"{part.tag}: ", child.attributes, _INPUT_ATTRIBUTES)


def _slips(where: str, keys: Iterable[str], known: tuple[str, ...]) -> Iterator[str]:
    for key in keys:
        meant = "" if key in known else closest(key, known, _SLIP)
        if meant:
            yield f"{where}unknown key {key[:80]!r}: did you mean {meant}?"


def config_problems(config: Mapping[str, Any], executor_id: str) -> Iterator[str]:
    """Problems of the ``config`` of a tool that this executor runs.

    A config may hold values for its own templates, so that only a key that is nearly another one,
    and that no template names, is a slip.
    """
    is_http = executor_id == _HTTP_CLIENT
    if not is_http and executor_id not in _PROCESS_EXECUTORS:
        return
    known = _HTTP_KEYS if is_http else _PROCESS_KEYS
    text = str(config)
    unnamed = [key for key in config if not re.search(rf"\{{{re.escape(key)}\W", text)]
    yield from _slips("config: ", unnamed, known)
    for name, schema in _HTTP_BLOCKS.items() if is_http else ():
        if isinstance(config.get(name), Mapping):
            for one in violations(config[name], schema):
                yield f"config.{name}: {one}"
