"""The providers, credentials and limits of threads on a node: those of the bundle and its operator.

Neither a project's nor those of a user space that was pushed count. A file of its own, as two
programs read them: a worker, before it gives its rights on files away; and the server, to refuse a
model that no worker would ask.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn

from lillux.values import replace
from ryeos.agent.providers import Providers, loaded_agent_config
from ryeos.app.workspace import Rye
from ryeos.items.context import Context, context_from
from ryeos.items.errors import RyeError
from ryeos.run.credentials import Credentials, LoadedConfig
from ryeos.trust.bundles import embedded_bundle

SAYS_WHAT_IS_WRONG = frozenset({"MODEL_NOT_FOUND", "PRICE_UNKNOWN", "CREDENTIAL_NOT_FOUND"})
"""The codes of what a caller can set right. Any other is for the operator; the worker says it."""


def operator_config(
    environ: Mapping[str, str], folder: Path, operator: str, bundle: Path, version: str
) -> tuple[LoadedConfig, Context]:
    """All that threads use, read now, and where. ``folder`` is one without a project.

    Raises what reading it raises.
    """
    context = context_from(
        environ, cwd=folder, user_space=operator, bundles=(embedded_bundle(bundle, version),)
    )
    context = replace(context, spaces=replace(context.spaces, project=None))
    rye = Rye(context)
    try:
        return loaded_agent_config(rye.config, context.spaces), context
    finally:
        rye.close()


def require_model(
    name: str, secrets: Mapping[str, str], found: tuple[LoadedConfig, Context]
) -> None:
    """That a thread with these secrets could ask a model or a tier. Raises as `Providers.choices`.

    No command of a credential is run.
    """
    config, context = found
    context = replace(context, process_env=dict(secrets), on_node=True)
    Providers(config, context.spaces).choices(name, Credentials(config, context, _no_runner))


def words_of(error: RyeError) -> str:
    """What is wrong, for a caller: the operator's files are not theirs to write."""
    if error.code == "CREDENTIAL_NOT_FOUND":
        return f"{error}; on a node a secret of the execution with that name is the value"
    meant = error.hint if error.hint.startswith("did you mean ") else ""
    return f"{error}; {meant or 'the operator of a node gives it its providers'}"


def _no_runner() -> NoReturn:
    raise AssertionError("on a node no command gives a credential its value")
