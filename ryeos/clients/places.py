"""Where programs keep their settings, by platform and environment. Nothing is looked at here."""

from collections.abc import Callable, Mapping
from pathlib import Path

from lillux.values import dataclass

Place = Callable[["Machine"], "Path | None"]


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


def in_home(relative: str, *, variable: str = "") -> Place:
    """A path below home; ``variable`` may name another folder instead of its first one."""
    first, _, rest = relative.partition("/")

    def place(machine: Machine) -> Path | None:
        if named := machine.folder(variable) if variable else None:
            return named / rest
        return machine.home / first / rest if machine.home else None

    return place


def in_dot_config(relative: str) -> Place:
    """A path in ``~/.config``, or in the folder that takes its place."""

    def place(machine: Machine) -> Path | None:
        if named := machine.folder("XDG_CONFIG_HOME"):
            return named / relative
        return machine.home / ".config" / relative if machine.home else None

    return place


def in_application_data(relative: str) -> Place:
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
