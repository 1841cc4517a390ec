"""What every command shares: its arguments, the context, and how answers are shown."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from types import FrameType, SimpleNamespace

from lillux.cancellation import Cancellation
from lillux.errors import LilluxError
from lillux.values import dataclass, field
from ryeos import __version__
from ryeos.app.command_line import CommandSpec, with_item_flags, with_own_meaning
from ryeos.app.commands import plain_arguments
from ryeos.app.output import Output

TYPE_CHECKING = False  # importing typing costs more than this start may take

if TYPE_CHECKING:
    from pathlib import Path

    from ryeos.agent.records import AgentRecords
    from ryeos.app.command_line import CommandEntry
    from ryeos.app.workspace import Rye
    from ryeos.cli.asking import Asking
    from ryeos.items.context import Context
    from ryeos.items.refs import Space
    from ryeos.run.threads.start import Program
    from ryeos.trust.bundles import BundleHome
    from zipboot.launch import Program as PackedProgram


USAGE = 2
"""The exit status of a command line that makes no sense."""


@dataclass(slots=True)
class Session:
    """One invocation of the command line."""

    arguments: SimpleNamespace
    output: Output
    bundle: BundleHome
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)
    _context: Context | None = None
    _rye: Rye | None = None

    @property
    def context(self) -> Context:
        """The context of this command, read at first use."""
        if self._context is None:
            self._context = self._make_context()
        return self._context

    def use_sandbox(self, level: str) -> None:
        """Set the level of rights from the command line, before anything runs."""
        from lillux.values import replace

        self._context = replace(self.context, sandbox=level)

    def use_receipts(self, word: str) -> None:
        """Turn receipts on for this process. Raises UsageError."""
        from lillux.values import replace
        from ryeos.items.context import receipts_word

        self._context = replace(self.context, receipts=receipts_word(word, "--receipt"))

    @property
    def rye(self) -> Rye:
        """The public API on this context."""
        if self._rye is None:
            from ryeos.app.workspace import Rye

            if self.context.dev_mode:
                self.output.warn("RYE_DEV_MODE=1: integrity errors are only warnings")
            self._rye = Rye(
                self.context,
                warn=lambda text: self.output.warn(with_way_out(self, text)),
                restore=self.bundle.restore,
                program=own_program,
            )
        return self._rye

    @property
    def thread_records(self) -> AgentRecords:
        """Where threads of models are kept. No provider is read for that."""
        from ryeos.agent.records import AgentRecords

        return AgentRecords(self.context.spaces.user.ai, self.rye.receipts.log.key)

    def server_rye(self, warn: Callable[[str], None], grace_s: float) -> Rye:
        """The public API for many calls: with warm workers, and less patience at the end."""
        from lillux.process import ProcessManager
        from lillux.process.guard import begin_guarding
        from lillux.values import replace
        from ryeos.app.agent_projects import without_home
        from ryeos.app.workspace import Rye
        from ryeos.run.functions import FunctionHost

        begin_guarding()
        manager = ProcessManager(grace_s=grace_s)
        context = without_home(self.context)
        return Rye(
            replace(context, confines=True, receipts=context.receipts or "on"),
            runner=manager,
            functions=FunctionHost(manager) if hasattr(os, "fork") else None,
            warn=warn,
            restore=self.bundle.restore,
            program=own_program,
        )

    @property
    def can_ask(self) -> bool:
        """Whether a person sits at a terminal, and wants to be asked."""
        is_silent = self.arguments.no_input or self.output.as_json
        return not is_silent and sys.stdin.isatty() and sys.stderr.isatty()

    @property
    def terminal(self) -> Asking:
        """The terminal to ask at."""
        from ryeos.cli.asking import Asking

        return Asking(self.output, self.environ)

    def confirm(self, question: str, shown: Sequence[str] = (), line: str = "") -> bool:
        """Whether the user agrees, having seen all of ``shown``: ``--yes``, or at a terminal.

        Raises ApprovalRequiredError where neither can be had; ``line`` is the one that agrees.
        """
        is_yes = getattr(self.arguments, "yes", False)
        if not is_yes and self.can_ask:
            from ryeos.cli.asking import is_agreed

            return is_agreed(self.terminal, shown, question)
        for text in shown:
            self.output.note(text)
        if is_yes:
            return True
        from ryeos.items.errors import ApprovalRequiredError

        hint = f"run it at a terminal, or read it, then: {line}" if line else ""
        raise ApprovalRequiredError(question, hint=hint)

    @property
    def no_project(self) -> str:
        """What to say first where the folder is no project; ``""`` where it is one."""
        project = self.context.spaces.project
        if project is None:
            return f"no project here: {self.context.cwd} is the base of user space"
        return "" if project.ai.is_dir() else f"no project here: {project.base} has no .ai folder"

    @property
    def bundle_version(self) -> str:
        """The version of the bundle that came with this program."""
        return self._own_bundle.version if self._own_bundle else ""

    @property
    def edition(self) -> str:
        """``core`` or ``full``, by the bundle that came with this program."""
        from ryeos.trust.bundles import CORE_ID

        own = self._own_bundle
        return "core" if own and own.bundle_id == CORE_ID else "full"

    @property
    def _own_bundle(self) -> Space | None:
        from ryeos.trust.bundles import CORE_ID, EMBEDDED_ID

        own = (b for b in self.context.spaces.bundles if b.bundle_id in (EMBEDDED_ID, CORE_ID))
        return next((b for b in own if b.pinned_pem), None)

    def _make_context(self) -> Context:
        from pathlib import Path

        from ryeos.items.context import context_from
        from ryeos.trust.bundles import discover, embedded_bundle

        try:
            root = Path(self.bundle.locate())
        except OSError as error:
            from lillux.files import file_system_error

            raise file_system_error("the bundle", error) from error
        context = context_from(
            self.environ,
            cwd=_working_directory(),
            project=self.arguments.project,
            user_space=self.arguments.user_space,
            bundles=discover(embedded_bundle(root, __version__, self.bundle.vouches), self.environ),
            tool_programs=self.bundle.programs,
            program_words=own_words,
        )
        own = context.own_environment
        if self.environ is os.environ and own is not context.process_env:
            # For pagers, editors and whatever else this program starts by a bare name.
            for name in {"PATH", *context.project_code} & os.environ.keys():
                os.environ[name] = own.get(name, "")
        from lillux.values import replace

        return _with_installed_bundles(replace(context, passphrase=self._passphrase))

    def _passphrase(self, path: Path) -> bytes | None:
        """That of the user's own key: of the environment, or typed at a terminal."""
        from ryeos.items.context import PASSPHRASE_VARIABLE

        given = self.environ.get(PASSPHRASE_VARIABLE)
        if given is not None:
            return given.encode("utf-8", "surrogateescape")
        is_silent = getattr(self.arguments, "no_input", False)
        if is_silent or not (sys.stdin.isatty() and sys.stderr.isatty()):
            return None
        return typed_passphrase(f"passphrase of {path}: ")


def typed_passphrase(prompt: str) -> bytes:
    """What a person types, unseen."""
    from getpass import getpass

    return getpass(prompt, stream=sys.stderr).encode("utf-8", "surrogateescape")


def _with_installed_bundles(context: Context) -> Context:
    """The bundles of the user come after all others: none of theirs is found in place of those."""
    from lillux.files import is_directory

    spaces = context.spaces
    if not is_directory(spaces.user.ai / "bundles"):
        return context
    from lillux.values import replace
    from ryeos.trust.installed_bundles import installed_bundles

    installed = installed_bundles(spaces.user, {bundle.label for bundle in spaces.bundles})
    return replace(context, spaces=replace(spaces, bundles=(*spaces.bundles, *installed)))


def own_program(context: Context) -> Program:
    """How to start this program once more, as a thread is, in the same spaces."""
    from ryeos.items.context import CONFINE_VARIABLE, RECEIPTS_VARIABLE, SANDBOX_VARIABLE
    from ryeos.run.threads.start import Program

    packed = packed_program()
    if packed and packed.is_written_over:
        from ryeos.items.errors import UnsupportedError

        raise UnsupportedError(
            f"{program_path()} was replaced by another file while it ran", hint="start it again"
        )
    flags = ["--user-space", str(context.spaces.user.base)]
    if context.project_path:
        flags += ["--project", str(context.project_path)]
    confined = {CONFINE_VARIABLE: "1"} if context.confines else {}
    level = {SANDBOX_VARIABLE: context.sandbox} if context.sandbox else {}
    receipts = {RECEIPTS_VARIABLE: context.receipts} if context.receipts else {}
    env = {**context.process_env, **confined, **level, **receipts}
    return Program(argv=own_words(), flags=tuple(flags), env=env, cwd=context.cwd)


def run_command(
    command: CommandSpec, entry: CommandEntry, arguments: list[str], bundle: BundleHome | None
) -> int:
    """Parse the arguments and run the command."""
    session: Session | None = None
    try:
        parsed = _read_arguments(command, entry, arguments)
        output = Output(
            as_json=parsed.json, quiet=parsed.quiet, color=parsed.color, environ=os.environ
        )
        _configure_logging(verbose=parsed.verbose)
        if bundle is None:
            from ryeos.trust.bundles import own_bundle

            bundle = own_bundle()
        session = Session(parsed, output, bundle)
        with _spinner(command, output):
            status: int | None = command.carry_out(parsed, f"rye {entry.words}", session)
            return status or 0
    except LilluxError as error:
        if session and _searched_project(error):
            _say_no_project(session, error)
        if session:
            _say_read_only(session, error)
        if not error.hint and error.code == "INVALID_PARAMS" and error.exit_status == USAGE:
            error.hint = f"see: rye {entry.words} --help"
        shown = error
        if session and session.environ.get("RYE_CONFINE") == "1":
            from ryeos.cli.persons import left_to_person

            shown = left_to_person(error, entry.words, arguments)
        if command.refused:
            command.refused(shown)
        raise shown from error.__cause__


def _searched_project(error: LilluxError) -> bool:
    searched = (error.facts or {}).get("searched_in")
    return isinstance(searched, list) and "project" in searched


def _say_no_project(session: Session, error: LilluxError) -> None:
    """Have the error for a missing item begin with the reason, if that is the folder."""
    if session.no_project:
        error.args = (f"{session.no_project}; {error}",)
        if not error.hint.startswith("did you mean"):
            error.hint = "name your project: rye -p DIR ...; or make one here: rye init --project"


ANOTHER_USER_SPACE = "name another: USER_SPACE=DIR"


def _say_read_only(session: Session, error: LilluxError) -> None:
    """Have an error that a read-only user space caused say how to name another."""
    path = getattr(error, "path", None) or getattr(error, "directory", "")
    is_about_files = error.code in ("FILE_SYSTEM_ERROR", "NO_SIGNING_KEY")
    if is_about_files and isinstance(path, str) and _is_read_only(session, path):
        error.hint = f"{session.context.spaces.user.ai} cannot be written; {ANOTHER_USER_SPACE}"


def with_way_out(session: Session, text: str) -> str:
    """A warning about a file of user space that cannot be written, and how to name another."""
    ai = str(session.context.spaces.user.ai)
    if ai in text and _is_read_only(session, ai):
        return f"{text}; {ANOTHER_USER_SPACE}"
    return text


def _is_read_only(session: Session, path: str) -> bool:
    """Whether a path is one of user space, and that cannot be written."""
    user = session.context.spaces.user
    is_inside = path == str(user.ai) or path.startswith(f"{user.ai}{os.sep}")
    return is_inside and not is_writable(user.ai)


def is_writable(folder: Path) -> bool:
    """Whether a folder can be written, or made where it is not there."""
    above = next((one for one in (folder, *folder.parents) if os.path.exists(one)), folder)  # noqa: PTH110
    return os.access(above, os.W_OK | os.X_OK)


def _spinner(command: CommandSpec, output: Output) -> AbstractContextManager[object]:
    """A spinner on a terminal, for a command that is silent for long."""
    is_silent = output.as_json or output.quiet or not command.has_spinner
    if is_silent or os.environ.get("TERM") == "dumb" or not sys.stderr.isatty():
        return nullcontext()
    from ryeos.cli.progress import Spinner

    return Spinner(sys.stderr)


def _read_arguments(
    spec: CommandSpec, entry: CommandEntry, arguments: list[str]
) -> SimpleNamespace:
    """The values of a command line. Raises UsageError; ends the program for ``--help``."""
    plain = plain_arguments(spec)
    if spec.takes_item_flags:
        arguments = with_item_flags(arguments, plain.takes_value)
    if spec.own_meaning:
        arguments = with_own_meaning(arguments, plain.takes_value, spec.own_meaning)
    values = plain.parse(arguments)
    if values is None:
        from ryeos.cli.parser import parse

        values = parse(entry, spec, arguments)
    return values


def program_path() -> Path | None:
    """The file that was started: ``rye.pyz``, ``rye.py``, or the script of an installation."""
    from pathlib import Path

    path = Path(sys.argv[0])
    return path.absolute() if sys.argv[0] and path.is_file() else None


def packed_program() -> PackedProgram | None:
    """What `rye.pyz` knows about itself; None when something else runs."""
    launch = sys.modules.get("zipboot.launch")
    program: PackedProgram | None = launch.program if launch else None
    return program


def own_words() -> tuple[str, ...]:
    """The words that start this program, as it was started, before those of the command.

    ``python rye.pyz``, ``python -I rye.py``, ``python -m ...`` or an installed script: whatever the
    interpreter was given stands before what `sys.argv` has.
    """
    started, given = sys.orig_argv, len(sys.argv) - 1
    words = list(started[: len(started) - given])
    path = program_path()
    if path and words[-1] == sys.argv[0]:
        words[-1] = str(path)  # whatever the folder is by then
    return (sys.executable or words[0], *words[1:])


def _working_directory() -> Path:
    from pathlib import Path

    try:
        return Path.cwd()
    except OSError as error:
        from ryeos.items.errors import UsageError

        raise UsageError(
            f"the current folder cannot be used: {error.strerror}",
            hint="change to a folder that exists, or name one with --project DIR",
        ) from None


def _configure_logging(*, verbose: int) -> None:
    level = os.environ.get("RYE_LOG", "").upper() or ("DEBUG" if verbose > 1 else "")
    if not level:
        return
    import logging

    names = logging.getLevelNamesMapping()
    if level not in names:
        from ryeos.items.errors import UsageError

        raise UsageError(
            f"RYE_LOG: expected one of {', '.join(names)}, found {level!r}",
            hint="see: rye help environment",
        )
    logging.basicConfig(level=level, format="%(levelname)s %(name)s: %(message)s")


# --- signals --------------------------------------------------------------------------------------
# Signals that ask a command to end: a run ends its tool first, and waiting is interrupted.

_ASKS_TO_END = ("SIGINT", "SIGTERM", "SIGHUP")


def cancelled_by_signals() -> Cancellation:
    """A cancellation that the first such signal sets; a second one ends this program at once."""
    cancellation = Cancellation()

    def cancel(number: int, _: FrameType | None) -> None:
        cancellation.cancel()
        signal.signal(number, signal.SIG_DFL)

    for name in _ASKS_TO_END:
        number = getattr(signal, name, None)  # Windows has no SIGHUP
        if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, cancel)
    return cancellation


def interrupt_on_signals() -> None:
    """Let every signal to end interrupt this command, as Ctrl-C does."""
    for name in _ASKS_TO_END:
        number = getattr(signal, name, None)  # Windows has no SIGHUP
        if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler)
