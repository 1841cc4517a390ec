"""Start of a child: its program found, its isolation, a reason where it is refused."""

import errno
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from lillux.errors import ConfigurationError, LilluxError
from lillux.files import file_system_error
from lillux.process.descendants import MARK_VARIABLE
from lillux.process.guard import program_began, program_begins
from lillux.process.model import SEALED_PATH, Command, ProgramNotFoundError, SpawnError

if TYPE_CHECKING:
    from lillux.attempts import OnAttempt
    from lillux.sandbox import Confinement


# CREATE_NEW_PROCESS_GROUP | CREATE_NO_WINDOW; `subprocess` has the names on Windows only.
_WINDOWS_ISOLATION = 0x0000_0200 | 0x0800_0000
_WINDOWS_EXTENSIONS = ".COM;.EXE;.BAT;.CMD"
_MAX_INTERPRETER_LINE = 256
_SANDBOX_EXEC = "/usr/bin/sandbox-exec"
_WORDS_OF_OURS = 3  # SHELL -c SCRIPT: what follows is the caller's


def spawn(
    command: Command,
    *,
    control: int | None = None,
    platform: str = sys.platform,
    landlock: int | None = None,
) -> "subprocess.Popen[bytes]":
    """The started child, leader of its own session, with pipes for its output.

    ``stdin`` is a pipe when there is something to write, else the null device. With ``control``, a
    descriptor, that is its standard input instead, and its output goes to the null device.
    ``landlock`` is the version of it that the system has, asked for if it is not given.
    Raises ProgramNotFoundError, SpawnError, and ConfigurationError for a missing ``cwd``.
    """
    on_windows = platform == "win32"
    if not on_windows and signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN:
        # The system would throw exit codes away, and every failure would look like a success.
        raise SpawnError(
            command.argv[0],
            "expected to learn how it ends, but this process ignores SIGCHLD",
            hint="start this process with the default action for SIGCHLD",
        )
    path = find_program(command, platform=platform)
    if command.has_private_words and not on_windows:
        from lillux.process.private_words import with_private_words

        command = with_private_words(command)
    reads = bool(command.stdin or command.stdin_rest)
    stdin = subprocess.PIPE if reads else subprocess.DEVNULL
    output = subprocess.PIPE if control is None else subprocess.DEVNULL
    with ExitStack() as given:
        words, descriptors = _given_words(command, platform, landlock, given)
        is_wrapped = len(words) != len(command.argv)

        def start() -> "subprocess.Popen[bytes]":
            return subprocess.Popen(
                words,
                executable=None if is_wrapped else path,
                env=command.env,
                cwd=command.cwd,
                stdin=stdin if control is None else control,
                stdout=output,
                stderr=output,
                bufsize=0,
                start_new_session=not on_windows,
                creationflags=_WINDOWS_ISOLATION if on_windows else 0,
                pass_fds=descriptors,
            )

        mark = MARK_VARIABLE if command.leaves_nothing else ""  # else it is that of an outer run
        program_begins(command.env, mark)
        try:
            if command.confinement is None or is_wrapped or platform != "linux":
                process = start()
            else:
                process = start_confined(command.confinement, start, command.on_attempt)
        except OSError as error:
            raise spawn_error(command, path, error) from error
        program_began(process.pid, command.env, mark)
        return process


def _given_words(
    command: Command, platform: str, landlock: int | None, given: ExitStack
) -> tuple[Sequence[str], list[int]]:
    """The command line, and the descriptors in it; ``given`` closes these."""
    descriptors = []
    rules = _rules_file(command, platform, landlock)
    if rules is not None:
        given.callback(os.close, rules)
        descriptors.append(rules)
    words = started_words(command, platform=platform, landlock=landlock, rules=rules)
    if command.sealed is None:
        return words, descriptors
    if platform == "win32":
        place = _named_file(command.sealed)
    else:
        sealed = sealed_file(command.sealed)
        given.callback(os.close, sealed)
        descriptors.append(sealed)
        place = f"/dev/fd/{sealed}"
    at = len(words) - len(command.argv)
    ours = slice(at, at + _WORDS_OF_OURS)
    first = (word.replace(SEALED_PATH, place) for word in words[ours])
    return (*words[:at], *first, *words[ours.stop :]), descriptors


def sealed_file(data: bytes) -> int:
    """A descriptor of a file without a name that holds the data, and that cannot be changed.

    POSIX only; where the system cannot seal files, the child alone could change it. Raises
    FileSystemError.
    """
    import fcntl

    try:
        if not hasattr(os, "memfd_create"):
            from tempfile import TemporaryFile

            with TemporaryFile() as file:
                file.write(data)
                file.seek(0)
                return os.dup(file.fileno())
        descriptor = os.memfd_create("rye", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        with open(descriptor, "wb", closefd=False) as file:
            file.write(data)
        every = fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, every)
        os.lseek(descriptor, 0, os.SEEK_SET)  # for readers of the descriptor
    except OSError as error:
        raise file_system_error(Path("memfd"), error) from error
    return descriptor


def _named_file(data: bytes) -> str:
    """The path of a file in the user's own temporary folder, which the child removes (Windows)."""
    from tempfile import NamedTemporaryFile

    with NamedTemporaryFile(prefix="rye-", delete=False) as file:
        file.write(data)
    return Path(file.name).as_posix()


def start_confined(
    confinement: "Confinement",
    start: "Callable[[], subprocess.Popen[bytes]]",
    on_attempt: "OnAttempt | None" = None,
) -> "subprocess.Popen[bytes]":
    """The result of ``start``, called by a thread of its own that has given up these rights.

    Landlock and seccomp hold for a thread and what it starts; this process continues as it was. A
    supervisor is no child of that thread, so it is started from here.
    """
    from threading import Event, Thread

    made: list[subprocess.Popen[bytes]] = []
    failed: list[BaseException] = []
    listeners: list[int] = []
    has_entered, may_start = Event(), Event()

    def work() -> None:
        try:
            listener = confinement.enter()
            if listener is not None:
                listeners.append(listener)
            has_entered.set()
            if listeners:
                may_start.wait()
            made.append(start())
        except BaseException as error:  # noqa: BLE001 - raised again below, by the caller
            failed.append(error)
        finally:
            has_entered.set()

    supervisor = None
    with _without_vfork(confinement.hears_starts):
        thread = Thread(target=work)
        thread.start()
        if confinement.is_supervised:
            from lillux.mediation.callers import status_of
            from lillux.supervisor import Supervisor

            has_entered.wait()
            if listeners:  # the thread itself may be one whose calls wait
                entered = status_of(f"self/task/{thread.native_id}")
                supervisor = Supervisor(
                    listeners[0], confinement.supervision(), entered, on_attempt
                )
            elif on_attempt:
                from lillux.attempts import UNHEARD, Attempt

                on_attempt(Attempt(UNHEARD, ""))
            may_start.set()
        thread.join()
    if failed:
        raise failed[0]
    if supervisor:
        supervisor.root = made[0].pid
    return made[0]


@contextmanager
def _without_vfork(applies: bool) -> Iterator[None]:  # noqa: FBT001 - a condition
    """Start children by fork(): with vfork() a supervised child would wait for us, and we for it.

    After vfork this process would stand still until then.
    """
    before = getattr(subprocess, "_USE_VFORK", True)
    if applies:
        setattr(subprocess, "_USE_VFORK", False)  # noqa: B010 - its documented switch
    try:
        yield
    finally:
        setattr(subprocess, "_USE_VFORK", before)  # noqa: B010 - see above


def bubblewrap() -> str:
    """The path of ``bwrap``, ``""`` if it is not installed."""
    from shutil import which

    return which("bwrap", path="/usr/bin:/bin:/usr/local/bin") or ""


def _wrapper(command: Command, platform: str, landlock: int | None) -> str:
    """The wrapper program that confines the command, ``""`` if system calls do it."""
    wanted = command.confinement
    if wanted is None or platform not in {"linux", "darwin"}:
        return ""
    if platform == "darwin":
        return _SANDBOX_EXEC
    if not (wanted.needs_landlock or wanted.withholding):
        return ""
    from lillux.landlock import landlock_version

    return "" if (landlock_version() if landlock is None else landlock) else bubblewrap()


def _rules_file(command: Command, platform: str, landlock: int | None) -> int | None:
    """A descriptor of the filter for bubblewrap, which needs calls that the filter refuses."""
    wanted = command.confinement
    if wanted is None or not wanted.needs_filter or platform != "linux":
        return None
    return sealed_file(wanted.filter_bytes()) if _wrapper(command, platform, landlock) else None


def started_words(
    command: Command,
    *,
    platform: str = sys.platform,
    landlock: int | None = None,
    rules: int | None = None,
) -> Sequence[str]:
    """The command line, with the wrapper program in front of it if one is needed.

    ``rules`` is the descriptor of a filter for it. Raises ProgramNotFoundError.
    """
    wrapper = _wrapper(command, platform, landlock)
    if command.confinement is None or not wrapper:
        return command.argv
    path = find_program(command, platform=platform)
    if platform == "darwin":
        return (wrapper, "-p", command.confinement.macos_profile(), path, *command.argv[1:])
    before = command.confinement.bubblewrap_words(wrapper, rules)
    return (*before, path, *command.argv[1:])


def find_program(command: Command, *, platform: str = sys.platform) -> str:
    """The path by which the system starts the program of the command.

    A name is looked up in the absolute directories of ``env["PATH"]``, the system's own directories
    when there is none. Relative and empty entries are passed over: they would let a file of the
    working directory stand in for a program of the machine. A name with a separator is returned as
    the system needs it, unchecked. Raises ProgramNotFoundError.
    """
    on_windows = platform == "win32"
    name = command.argv[0]
    if "/" in name or (on_windows and "\\" in name):
        # Windows looks from here and not from the child's directory.
        return str((command.cwd or Path()) / name) if on_windows else name
    path = command.env.get("PATH", "" if on_windows else os.defpath)
    directories = tuple(filter(os.path.isabs, path.split(";" if on_windows else ":")))
    file_names = tuple(_windows_names(name, command.env)) if on_windows else (name,)
    for directory in directories:
        for file_name in file_names:
            candidate = Path(directory, file_name)
            if os.access(candidate, os.X_OK) and candidate.is_file():
                return str(candidate)
    places = ", ".join(directories) or "nothing: PATH names no absolute directory"
    raise ProgramNotFoundError(name, f"not found, searched {places}", searched=directories)


def _windows_names(name: str, env: Mapping[str, str]) -> Iterable[str]:
    extensions = env.get("PATHEXT", _WINDOWS_EXTENSIONS).split(";")
    if name.upper().endswith(tuple(extension.upper() for extension in extensions if extension)):
        return (name,)
    return (name + extension for extension in extensions)


def spawn_error(command: Command, path: str, error: OSError) -> LilluxError:
    """Why the system refused to start ``path``, as found by `find_program`, in our own words."""
    program, cwd = command.argv[0], command.cwd
    if cwd is not None and not cwd.is_dir():
        return ConfigurationError("cwd", f"expected an existing directory, got {str(cwd)!r}")
    file = (cwd or Path()) / path
    if not file.exists():
        return ProgramNotFoundError(program, "not found")
    reason, hint = _objection(file, error)
    return SpawnError(program, reason, hint=hint)


def _objection(file: Path, error: OSError) -> tuple[str, str]:
    """Reason why the system refuses a file that exists, and how to fix it."""
    if file.is_dir():
        return "expected an executable file, found a directory", ""
    match error.errno:
        case errno.EACCES if not os.access(file, os.X_OK):
            return "expected permission to execute it, found none", f"chmod +x {file}"
        case errno.ENOENT if line := _interpreter_line(file):
            return f"its first line names an interpreter that does not exist: {line!r}", ""
        case errno.ENOEXEC:
            return "expected a program of this system or a script with a '#!' line", ""
        case errno.E2BIG:
            hint = "pass large values through standard input or a file"
            return "its arguments and environment are larger than this system allows", hint
        case _:
            return (error.strerror or str(error)).lower(), ""


def _interpreter_line(file: Path) -> str:
    try:
        with file.open("rb") as script:
            first_line = script.readline(_MAX_INTERPRETER_LINE)
    except OSError:
        return ""
    return first_line.decode(errors="replace").strip() if first_line.startswith(b"#!") else ""
