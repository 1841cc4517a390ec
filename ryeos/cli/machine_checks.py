"""What ``rye doctor`` finds about the machine: Python, program, cache, settings, clock, Windows."""

import os
import shutil
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from lillux.files import others_may
from lillux.values import dataclass
from ryeos.cli.findings import FAIL, OK, WARN, Check
from ryeos.cli.mending import keep_from_others
from ryeos.cli.session import Session
from ryeos.clients.launch import Interpreter, stable_executable, this_interpreter

OLDEST_PYTHON = (3, 11)
LITTLE_ROOM = 64 * 1024 * 1024
MAX_SKEW_S = 300.0  # file systems of other machines differ by seconds
UTF_8_CODE_PAGE = 65001
_MAX_FILES = 2000


# --- Python ---------------------------------------------------------------------------------------


def python(_: Session) -> Iterator[Check]:
    """Which Python runs, and whether a client will find it tomorrow."""
    version = ".".join(map(str, sys.version_info[:3]))
    yield from python_findings(sys.version_info[:2], version, this_interpreter())


def python_findings(
    release: tuple[int, ...], version: str, interpreter: Interpreter
) -> Iterator[Check]:
    """The same, for any interpreter."""
    fix = "" if release >= OLDEST_PYTHON else "run rye with Python 3.11 or newer"
    if not interpreter.executable:
        yield Check("python", OK, f"{version}, inside another program")
        return
    yield Check("python", FAIL if fix else OK, f"{version}, {interpreter.executable}", fix)
    if interpreter.is_store_stub:
        message = f"{interpreter.executable}: an alias of the Microsoft Store, not a program"
        fix = "install Python from python.org, and use `py rye.pyz`"
        yield Check("python", WARN, message, fix)
    stable = stable_executable(interpreter)
    if stable != interpreter.executable and not interpreter.is_virtual:
        message = f"{interpreter.executable} goes with the next upgrade"
        yield Check("python", OK, f"{message}; clients are given {stable}")


# --- the program and its cache --------------------------------------------------------------------


def program(_: Session) -> Iterator[Check]:
    """Which file was started."""
    from ryeos.cli.session import program_path

    path = program_path()
    yield Check("program", OK, str(path) if path else "inside another program")


def cache(_: Session) -> Iterator[Check]:
    """Whether `rye.pyz` can keep files, and has room for them."""
    from ryeos.cli.session import packed_program

    packed = packed_program()
    if packed is None:
        return
    folder = packed.cache()
    if folder is None:
        message = "no folder for it; each start does without"
        yield Check("cache", WARN, message, "name a folder: RYE_CACHE_DIR=DIR")
    else:
        yield cache_finding(Path(folder))
        yield from kept_findings(Path(path) for path in packed.cache_folders().values())


def kept_findings(folders: Iterable[Path]) -> Iterator[Check]:
    """What is to be said of folders in the cache, which must be of this user only to be used.

    Where others could write, what is there may be theirs: that is for a person to remove.
    """
    for folder in folders:
        message = f"{folder}: other users can look into it, so each start does without"
        if others_may(folder, 0o022):
            message = f"{folder}: other users can write there, so each start does without"
            yield Check("cache", WARN, message, f"remove it: rm -r {folder}")
        elif others_may(folder, 0o077):
            yield Check("cache", WARN, message, f"chmod 700 {folder}", keep_from_others(folder))


def cache_finding(folder: Path) -> Check:
    """What is to be said of a folder for a cache, which may not be there yet."""
    above = next((path for path in (folder, *folder.parents) if os.path.exists(path)), folder)  # noqa: PTH110 - never raises
    fix = "name another: RYE_CACHE_DIR=DIR"
    if not os.access(above, os.W_OK | os.X_OK):
        return Check("cache", WARN, f"{folder}: {above} cannot be written to", fix)
    try:
        free = shutil.disk_usage(above).free
    except OSError as error:
        return Check("cache", WARN, f"{folder}: {error.strerror}", fix)
    message = f"{folder}, {free // 2**20} MiB free"
    return Check("cache", WARN if free < LITTLE_ROOM else OK, message, fix * (free < LITTLE_ROOM))


def cryptography(_: Session) -> Iterator[Check]:
    """Whether the compiled library is there."""
    from lillux.signing import NativeCryptoMissingError, generate_keypair

    try:
        generate_keypair()  # the one thing that surely needs the library
    except NativeCryptoMissingError as error:
        message = f"pure Python: verifying works, signing does not ({error.problem})"
        yield Check("cryptography", WARN, message, error.hint)
    else:
        yield Check("cryptography", OK, "libsodium")


# --- settings -------------------------------------------------------------------------------------


def settings(session: Session) -> Iterator[Check]:
    """Variables that weaken Rye, or that mean something else than they seem to."""
    if session.context.dev_mode:
        message = "RYE_DEV_MODE=1: unsigned and tampered items run, with a warning"
        yield Check("settings", WARN, message, "unset RYE_DEV_MODE")
    if session.context.lock_mode.value != "strict":
        message = f"RYE_LOCK={session.context.lock_mode.value}: changed chains run"
        yield Check("settings", WARN, message, "unset RYE_LOCK")
    named = relative_user_space(session)
    if named:
        message = f"USER_SPACE={named}: another folder in each working directory"
        yield Check("settings", WARN, message, "name it by an absolute path")


def relative_user_space(session: Session) -> str:
    """What USER_SPACE says, if another folder in each working directory is meant."""
    named = session.environ.get("USER_SPACE", "")
    return "" if named.startswith("~") or Path(named).is_absolute() else named


# --- the clock ------------------------------------------------------------------------------------


def clock(session: Session) -> Iterator[Check]:
    """Whether files were written later than now: then the clock is slow, or was fast."""
    spaces = session.context.spaces
    folders = [space.ai for space in (spaces.user, spaces.project) if space]
    newest = max((_newest(folder) for folder in folders), default=(0.0, Path()))
    yield clock_finding(time.time(), *newest)


def clock_finding(now: float, written: float, path: Path) -> Check:
    """What is to be said of a clock, and of the newest file."""
    ahead = written - now
    if ahead <= MAX_SKEW_S:
        return Check("clock", OK, "no file is from the future")
    message = f"{path} was written {ahead:.0f} s in the future: the clock is slow, or was fast"
    return Check("clock", WARN, message, "set the clock; signatures carry its time")


def _newest(folder: Path) -> tuple[float, Path]:
    """The time of the newest file below a folder, among the first some thousand."""
    newest, seen = (0.0, folder), 0
    for above, _, names in os.walk(folder):
        for name in names:
            path = Path(above, name)
            seen += 1
            try:
                newest = max(newest, (path.lstat().st_mtime, path))
            except OSError:
                continue
        if seen > _MAX_FILES:
            break
    return newest


# --- Windows --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Windows:
    """What differs from one Windows to the next. None is unknown."""

    long_paths: bool | None
    code_page: int | None


def windows(session: Session) -> Iterator[Check]:
    """Whether Windows takes long paths, and what its console shows."""
    if session.context.platform == "win32":
        yield from windows_findings(_this_windows())


def windows_findings(found: Windows) -> Iterator[Check]:
    """The same, for any Windows."""
    if found.long_paths:
        yield Check("windows", OK, "long paths")
    else:
        message = "paths of more than 260 characters are refused"
        key = r"HKLM\SYSTEM\CurrentControlSet\Control\FileSystem"
        fix = f"as administrator: reg add {key} /v LongPathsEnabled /t REG_DWORD /d 1 /f"
        yield Check("windows", WARN, message, fix)
    if found.code_page == UTF_8_CODE_PAGE:
        yield Check("windows", OK, "the console shows UTF-8")
    elif found.code_page:
        message = f"code page {found.code_page}: what rye prints is UTF-8, and may look wrong"
        yield Check("windows", WARN, message, "chcp 65001, or use Windows Terminal")


def _this_windows() -> Windows:
    return Windows(_long_paths(), _code_page())


def _long_paths() -> bool | None:
    try:
        import winreg

        key = r"SYSTEM\CurrentControlSet\Control\FileSystem"
        with winreg.OpenKey(winreg.HKEY_LOCAL_MACHINE, key) as opened:  # type: ignore[attr-defined,unused-ignore]
            value = winreg.QueryValueEx(opened, "LongPathsEnabled")[0]  # type: ignore[attr-defined,unused-ignore]
    except (ImportError, OSError):
        return None
    return bool(value)


def _code_page() -> int | None:
    """That of the console; None without one."""
    import ctypes

    kernel = getattr(getattr(ctypes, "windll", None), "kernel32", None)
    return int(kernel.GetConsoleOutputCP()) or None if kernel else None


PROBES = (
    ("python", python),
    ("program", program),
    ("cache", cache),
    ("cryptography", cryptography),
    ("settings", settings),
)
