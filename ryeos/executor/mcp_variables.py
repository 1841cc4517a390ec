"""What ``${NAME}`` stands for in the config of an MCP server.

Later ones win: ``.ai/.env`` of the user, ``.ai/.env``, ``.env`` and ``.env.local`` of the project,
over what the process has; and over all of them what the chain itself sets. The files are unsigned:
what `lillux.variables` never takes from one, it does not take here either.
"""

import re
from collections.abc import Mapping
from pathlib import Path

from lillux.values import dataclass, field
from lillux.variables import read_dotenv
from ryeos.executor.calls import Materials, Services
from ryeos.items import AI_DIRECTORY

_REQUIRED = re.compile(r"\$\{([A-Z_][A-Z0-9_]*)\}")


@dataclass(frozen=True, slots=True)
class Variables:
    """The values by name, and warnings about the files they come from."""

    values: Mapping[str, str] = field(repr=False)
    warnings: tuple[str, ...] = ()

    def missing_in(self, template: object) -> str:
        """The first variable without default that a text asks for and that is empty, or ``""``."""
        names = _REQUIRED.findall(template) if isinstance(template, str) else []
        return next((name for name in names if not self.values.get(name)), "")


def template_variables(materials: Materials, services: Services) -> Variables:
    """The variables for one call."""
    project = Path(materials.anchor.names["project_path"])
    user = Path(materials.anchor.names["user_space"])
    files = (
        (user / AI_DIRECTORY, ".env"),
        (project / AI_DIRECTORY, ".env"),
        (project, ".env"),
        (project, ".env.local"),
    )
    set_by_chain = materials.env.contributed
    values = dict(materials.env.variables)
    warnings: list[str] = []
    for folder, name in files:
        found = read_dotenv(folder, services.process_env, name=name)
        values |= {key: text for key, text in found.variables.items() if key not in set_by_chain}
        # The project's own `.env` was read before, and its warnings told.
        if (folder, name) != (project, ".env"):
            warnings.extend(found.warnings)
    return Variables(values, tuple(warnings))
