"""The programs that start MCP servers, and where each keeps its settings.

A row for each, from the client's own documents: ``docs/clients.md`` repeats it.
"""

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any

from lillux.values import dataclass, field
from ryeos.items.errors import UsageError

# Where programs keep their settings, by platform and environment. Nothing is looked at here.

PathFinder = Callable[["Machine"], "Path | None"]


@dataclass(frozen=True, slots=True)
class Machine:
    """A platform, as `sys.platform` names it, and the environment of a user on it."""

    platform: str
    environ: Mapping[str, str]

    def folder(self, variable: str) -> Path | None:
        """The absolute folder that a variable names, if it does."""
        path = Path(self.environ.get(variable, ""))
        return path if path.is_absolute() else None

    @property
    def home(self) -> Path | None:
        """The user's home."""
        return self.folder("USERPROFILE" if self.platform == "win32" else "HOME")


def in_home(relative: str, *, variable: str = "") -> PathFinder:
    """A path below home; ``variable`` may name another folder instead of its first one."""
    first, _, rest = relative.partition("/")

    def place(machine: Machine) -> Path | None:
        if named := machine.folder(variable) if variable else None:
            return named / rest
        return machine.home / first / rest if machine.home else None

    return place


def in_dot_config(relative: str) -> PathFinder:
    """A path in ``~/.config``, or in the folder that takes its place."""

    def place(machine: Machine) -> Path | None:
        if named := machine.folder("XDG_CONFIG_HOME"):
            return named / relative
        return machine.home / ".config" / relative if machine.home else None

    return place


def in_application_data(relative: str) -> PathFinder:
    """A path where the platform keeps the settings of its applications."""

    def place(machine: Machine) -> Path | None:
        if machine.platform == "win32":
            base = machine.folder("APPDATA")
            if base is None and machine.home:
                base = machine.home / "AppData" / "Roaming"
            return base / relative if base else None
        if machine.platform == "darwin":
            home = machine.home
            return home / "Library" / "Application Support" / relative if home else None
        return in_dot_config(relative)(machine)

    return place


def zed_settings(machine: Machine) -> Path | None:
    """Those of Zed: application data on Windows, ``~/.config`` everywhere else."""
    if machine.platform == "win32":
        return in_application_data("Zed/settings.json")(machine)
    return in_dot_config("zed/settings.json")(machine)


# One row for each program that can start an MCP server, as its documents say in November 2026.

ENTRY_NAME = "rye"
PROGRAM_NAMES = frozenset({"rye.pyz", "rye.py", "rye", "rye.exe"})


class Format(StrEnum):
    """The form of a settings file."""

    JSON = "json"
    JSONC = "jsonc"
    TOML = "toml"


class Shape(StrEnum):
    """The form in which an entry says what to start.

    ``split``   ``command`` is the program, ``args`` are its arguments
    ``joined``  ``command`` is a list of both
    """

    SPLIT = "split"
    JOINED = "joined"


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """A program that starts MCP servers.

    container         the path of the object or table that holds the servers
    extra             keys of an entry beside what to start
    user              its settings for a user; None where no place is known
    user_is_its_own   the user's settings hold more than settings: only the client writes them
    project           its settings in a project, relative to it; empty where it has no such settings
    takes_jsonc       both files may also be named ``.jsonc``
    adds              its own command line that adds a server, up to what is to be started
    removes           its own command line that removes it
    tells_project     it says in CLAUDE_PROJECT_DIR which project is open
    project_variable  what it puts the open project in for
    is_desktop        it starts outside of any project, and without a terminal's PATH
    """

    name: str
    title: str
    format: Format = Format.JSON
    shape: Shape = Shape.SPLIT
    container: tuple[str, ...] = ("mcpServers",)
    extra: Mapping[str, Any] = field(default_factory=dict)
    user: PathFinder | None = None
    user_is_its_own: bool = False
    project: str = ""
    takes_jsonc: bool = False
    adds: tuple[str, ...] = ()
    removes: tuple[str, ...] = ()
    tells_project: bool = False
    project_variable: str = ""
    is_desktop: bool = False

    def is_there(self, machine: Machine) -> bool:
        """True if the client seems to be installed: its settings, or their folder, are there."""
        path = self.user(machine) if self.user else None
        if path is None or machine.home is None:
            return False
        beside = path.parent not in (machine.home, machine.home / ".config")
        return path.is_file() or (beside and path.parent.is_dir())


CLIENTS: tuple[Client, ...] = (
    Client(
        name="claude-desktop",
        title="Claude Desktop",
        user=in_application_data("Claude/claude_desktop_config.json"),
        is_desktop=True,
    ),
    Client(
        name="claude-code",
        title="Claude Code",
        user=in_home(".claude.json"),
        user_is_its_own=True,
        project=".mcp.json",
        adds=("claude", "mcp", "add", "--transport", "stdio", "--scope", "user", ENTRY_NAME, "--"),
        removes=("claude", "mcp", "remove", "--scope", "user", ENTRY_NAME),
        tells_project=True,
    ),
    Client(
        name="cursor",
        title="Cursor",
        user=in_home(".cursor/mcp.json"),
        project=".cursor/mcp.json",
        project_variable="${workspaceFolder}",
        is_desktop=True,
    ),
    Client(
        name="vscode",
        title="VS Code",
        format=Format.JSONC,
        container=("servers",),
        extra={"type": "stdio"},
        user=in_application_data("Code/User/mcp.json"),
        project=".vscode/mcp.json",
        project_variable="${workspaceFolder}",
        is_desktop=True,
    ),
    Client(
        name="copilot-cli",
        title="GitHub Copilot CLI",
        user=in_home(".copilot/mcp-config.json", variable="COPILOT_HOME"),
        project=".mcp.json",
    ),
    Client(
        name="codex",
        title="Codex",
        format=Format.TOML,
        container=("mcp_servers",),
        extra={"startup_timeout_sec": 20, "env_vars": ["USER_SPACE", "RYE_REMOTE_API_KEY"]},
        user=in_home(".codex/config.toml", variable="CODEX_HOME"),
        project=".codex/config.toml",
        adds=("codex", "mcp", "add", ENTRY_NAME, "--"),
    ),
    Client(
        name="gemini",
        title="Gemini CLI",
        format=Format.JSONC,
        user=in_home(".gemini/settings.json"),
        project=".gemini/settings.json",
        adds=("gemini", "mcp", "add", "-s", "user", ENTRY_NAME),
    ),
    Client(
        name="antigravity",
        title="Antigravity",
        user=in_home(".gemini/config/mcp_config.json"),
        project=".agents/mcp_config.json",
        is_desktop=True,
    ),
    Client(
        name="zed",
        title="Zed",
        format=Format.JSONC,
        container=("context_servers",),
        extra={"env": {}},
        user=zed_settings,
        project=".zed/settings.json",
        is_desktop=True,
    ),
    Client(
        name="opencode",
        title="opencode",
        format=Format.JSONC,
        shape=Shape.JOINED,
        container=("mcp",),
        extra={"type": "local", "enabled": True},
        user=in_dot_config("opencode/opencode.json"),
        project="opencode.json",
        takes_jsonc=True,
    ),
    Client(
        name="amp",
        title="Amp",
        format=Format.JSONC,
        container=("amp.mcpServers",),
        user=in_home(".config/amp/settings.json"),
        project=".amp/settings.json",
        takes_jsonc=True,
    ),
    Client(name="windsurf", title="Windsurf", is_desktop=True),
    Client(name="cline", title="Cline", is_desktop=True),
    Client(name="continue", title="Continue", is_desktop=True),
    Client(name="junie", title="JetBrains and Junie", is_desktop=True),
    Client(name="goose", title="Goose", is_desktop=True),
    Client(name="kiro", title="Kiro", is_desktop=True),
    Client(name="qwen-code", title="Qwen Code"),
    Client(name="generic", title="any other client"),
)
NAMES: tuple[str, ...] = tuple(client.name for client in CLIENTS)


def find_client(name: str) -> Client:
    """The client with a name, in any case. Raises UsageError with the closest one."""
    typed = name.lower().replace("_", "-").replace(" ", "-")
    for client in CLIENTS:
        if client.name == typed:
            return client
    from difflib import get_close_matches

    close = get_close_matches(typed, NAMES, 1, 0.5)
    hint = f"did you mean {close[0]}?" if close else f"known are {', '.join(NAMES)}"
    raise UsageError(f"client {name[:60]!r}: no such client", hint=hint)


def client_of(path: Path, machine: Machine) -> Client | None:
    """The client whose settings a file is, by its place; None for a file of no known client."""
    for client in CLIENTS:
        own = client.user(machine) if client.user else None
        parts = tuple(client.project.split("/")) if client.project else ()
        if path == own or (parts and path.parts[-len(parts) :] == parts):
            return client
    return None


def starts_rye(argv: Sequence[str]) -> bool:
    """True if a command line starts Rye as a server."""
    at = argv.index("mcp") if "mcp" in argv else 0
    return at > 0 and file_name(argv[at - 1]) in PROGRAM_NAMES


def file_name(path: str) -> str:
    """The last part of a path of any platform, in small letters."""
    return path.replace("\\", "/").rpartition("/")[2].lower()
