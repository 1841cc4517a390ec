"""Which settings file, and which project, for a client and a scope."""

from enum import StrEnum
from pathlib import Path

from ryeos.clients.launch import Launch
from ryeos.clients.places import Machine
from ryeos.clients.table import Client
from ryeos.errors import NoProjectError, UnsupportedError, UsageError
from ryeos.items import AI_DIRECTORY


class Scope(StrEnum):
    """Whose settings: those of a user, or those that a project carries."""

    USER = "user"
    PROJECT = "project"


def settings_path(client: Client, scope: Scope, machine: Machine, project: Path | None) -> Path:
    """The settings file. Raises UnsupportedError where there is none to write, NoProjectError."""
    is_project = scope is Scope.PROJECT
    path = _project_path(client, project) if is_project else user_path(client, machine)
    other = path.with_suffix(".jsonc")
    return other if client.takes_jsonc and not path.exists() and other.exists() else path


def _project_path(client: Client, project: Path | None) -> Path:
    if not client.project:
        raise UnsupportedError(
            f"{client.name}: it has no settings in a project",
            hint=f"paste what this prints: rye mcp config {client.name}",
        )
    if project is None:
        raise NoProjectError("the home folder and a file system root are no projects")
    return project / client.project


def user_path(client: Client, machine: Machine) -> Path:
    """The settings file of a user. Raises UnsupportedError, UsageError without a home."""
    if client.user is None:
        raise UnsupportedError(
            f"{client.name}: rye does not know where its settings are",
            hint=f"paste what this prints: rye mcp config {client.name}",
        )
    path = client.user(machine)
    if path is None:
        variable = "USERPROFILE" if machine.platform == "win32" else "HOME"
        raise UsageError(
            f"{variable}: expected an absolute path, found none",
            hint=f"set {variable} to your folder",
        )
    return path


def launch_for(
    client: Client, launch: Launch, scope: Scope, project: Path | None, *, is_named: bool
) -> Launch:
    """The launch with the project, where the client has to be told one.

    In settings of a project: what the client puts in for the open one, nothing for a client that
    tells by itself, else the path. In settings of a user, which are for all projects: the path if
    somebody named it, or if the client has no other place to say it.
    """
    if project is None:
        return launch
    if scope is Scope.PROJECT:
        if client.tells_project:
            return launch
        return launch.with_project(client.project_variable or str(project))
    is_only_place = not client.project and (project / AI_DIRECTORY).is_dir()
    return launch.with_project(str(project)) if is_named or is_only_place else launch
