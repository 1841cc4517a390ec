"""The environment of a tool's process, folded from its chain. See ``docs/executor.md``."""

import os
from collections.abc import Iterator, Mapping
from typing import Any

from lillux.interpreters import EnvResolver, ResolvedEnv, child_environment
from lillux.process.model import ProcessRunner
from ryeos.context import Context
from ryeos.errors import SpecError
from ryeos.executor.anchor import Anchor
from ryeos.executor.model import Chain
from ryeos.specs import type_name

_POLICIES = ("inherit", "minimal")
_MODULE_FOLDERS = ("PYTHONPATH", "NODE_PATH")


def resolved_environment(
    chain: Chain, anchor: Anchor, context: Context, runner: ProcessRunner | None
) -> ResolvedEnv:
    """What templates see: process, ``.env``, then primitive, runtimes and tool; the tool wins.

    The anchor's own entries come last. Raises ConfigurationError.
    """
    resolver = EnvResolver(
        project_path=context.project_path,
        user_base=context.spaces.user.base,
        process_env=context.tool_environment(),
        platform=context.platform,
        runner=runner,
    )
    env = resolver.base()
    for element in reversed(chain.elements):
        env = resolver.apply(env, element.spec.env_config, anchor.names)
    return ResolvedEnv(
        variables=anchor.apply_to(env.variables),
        contributed=tuple(sorted({*env.contributed, *anchor.env_paths, *anchor.env})),
        warnings=env.warnings,
        missing=env.missing,
    )


def process_environment(
    chain: Chain, anchor: Anchor, env: ResolvedEnv, extra: Mapping[str, str], platform: str
) -> dict[str, str]:
    """What the process gets: the resolved environment as far as the chain lets it, then ``extra``.

    Raises SpecError for an ``unset`` or ``env_policy`` that is none.
    """
    declared = [element.spec.env_config for element in chain.elements]
    kept = child_environment(
        env,
        unset=[name for block in declared for name in _unset(block)],
        minimal="minimal" in [_policy(block) for block in declared],
        platform=platform,
    )
    return {
        **_without_empty_entries(kept),
        "RYE_PROJECT_PATH": anchor.names["project_path"],
        "RYE_TOOL_PATH": anchor.names["tool_path"],
        "RYE_TOOL_ID": chain.tool.item_id,
        **extra,
    }


def _without_empty_entries(env: Mapping[str, str]) -> dict[str, str]:
    """An empty entry in a list of module folders would be the project, which nobody has signed.

    They come from ``export PYTHONPATH=$PYTHONPATH:/mine``, and not by intent.
    """
    lists = {name: env[name].split(os.pathsep) for name in _MODULE_FOLDERS if name in env}
    cleaned = {name: os.pathsep.join(filter(None, lists[name])) for name in lists}
    return {name: cleaned.get(name, value) for name, value in env.items() if cleaned.get(name, "-")}


def _unset(block: Mapping[str, Any]) -> Iterator[str]:
    names = block.get("unset") or []
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise SpecError("env_config.unset", f"expected a list of names, got {type_name(names)}")
    yield from names


def _policy(block: Mapping[str, Any]) -> str:
    policy = block.get("env_policy") or _POLICIES[0]
    if policy not in _POLICIES:
        known = ", ".join(_POLICIES)
        raise SpecError("env_config.env_policy", f"expected one of {known}, got {policy!r}")
    return str(policy)
