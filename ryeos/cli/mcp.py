"""``rye mcp``: the MCP server on standard input and output."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping

from lillux.errors import LilluxError
from ryeos.app.command_line import Arguments, CommandSpec
from ryeos.cli.session import Session

TYPE_CHECKING = False  # importing typing costs more than this start may take

if TYPE_CHECKING:
    from ryeos.items.context import Context
    from ryeos.run.threads.start import Program


PROFILES = ("five", "node", "all")
PROMPTS = ("tagged", "all", "none")
SIGN_MODES = ("ask", "never", "allow")
# A client waits two seconds after closing the pipe before it uses force.
GRACE_S = 0.8


def _configure(arguments: Arguments) -> None:
    arguments.add_argument(
        "--tools",
        choices=PROFILES,
        default=PROFILES[0],
        help="which tools are listed: the five, those of a node, or all six (all are answered)",
    )
    arguments.add_argument(
        "--log-file",
        metavar="FILE",
        help="where what happens is written, up to 5 MB, and 5 MB before",
    )
    arguments.add_argument(
        "--prompts",
        choices=PROMPTS,
        default=PROMPTS[0],
        help="which directives are prompts: those of project and user, and the system's that are"
        " tagged prompt; all; none",
    )
    arguments.add_argument(
        "--sign",
        choices=SIGN_MODES,
        default="",
        help="what becomes of an agent's wish to sign (default: ask, or as your policy says);"
        " allow counts only if your policy says so too",
    )
    for decision in ("allow", "ask", "deny"):
        arguments.add_argument(
            f"--{decision}",
            metavar="PATTERN",
            action="append",
            default=[],
            help=f"{decision} items like tool:shop/**; what your policy asks or denies still holds",
        )
    arguments.add_argument(
        "--no-skills",
        action="store_true",
        help="do not offer skills; else directives are offered as such, too",
    )
    arguments.add_argument("--skills", action="store_true", help="offer skills: the default")


def _run(session: Session) -> int:
    log = server_log(session.arguments.log_file, session.environ)
    from ryeos.mcp.wire import take_over

    session.bundle.keep_code()  # the program's file may be written over from the first answer on
    wire = take_over()  # before the rest: what is printed from here on is no message
    from ryeos import __version__
    from ryeos.mcp.features import RyeFeatures, server
    from ryeos.mcp.protocol import McpSession as Conversation
    from ryeos.mcp.serve import serve

    features = RyeFeatures(
        lambda: session.server_rye(session.output.warn, GRACE_S),
        _own_program,
        session.bundle.hold,
        profile=session.arguments.tools,
        prompts=session.arguments.prompts,
        skills=not session.arguments.no_skills,
        sign=session.arguments.sign,
        rules=_rules(session),
        log=log,
    )
    if session.arguments.sign == SIGN_MODES[-1]:
        _ = features.policy  # refused here, where a person sees it
    offer = server(
        __version__,
        _where(session),
        prompts=session.arguments.prompts,
        skills=not session.arguments.no_skills,
    )
    serve(Conversation(offer), features, wire, log)


def _where(session: Session) -> str:
    """The project of this server for its greeting, or how to give one."""
    from ryeos.items.places import project_folder, user_folder

    given, environ = session.arguments, session.environ
    try:
        cwd = os.getcwd()  # noqa: PTH109 - pathlib is not imported by now
    except OSError as error:
        return f"There is no project: the working directory: {error.strerror}."
    home = user_folder(environ, given.user_space or "", sys.platform, cwd)
    project, missing = project_folder(environ, given.project or "", cwd, home)
    if missing:
        return f"There is no project: {missing} is not a folder."
    homes = {os.path.realpath(one) for one in (home, environ.get("HOME", "")) if one}
    if project is None or os.path.realpath(project) in homes:
        return (
            "There is no project here, as the home folder is none: start rye mcp with --project"
            " DIR, or in a folder."
        )
    if not os.path.isdir(os.path.join(project, ".ai")):  # noqa: PTH112, PTH118 - as getcwd
        return (
            f"{project} has no items: what you make is kept there. For another project, start rye"
            " mcp with --project DIR."
        )
    return f"The project is {project}."


def _rules(session: Session) -> tuple[tuple[str, str], ...]:
    given = {word: getattr(session.arguments, word) for word in ("deny", "ask", "allow")}
    return tuple((word, pattern) for word, patterns in given.items() for pattern in patterns)


def _own_program(context: Context) -> Program:
    from ryeos.cli.session import own_program

    return own_program(context)


def _answer_refusal(error: LilluxError) -> None:
    """Send the client the reason why there is no server: few clients show standard error."""
    from ryeos.mcp.refusal import answer_first_request

    answer_first_request(error)


# --- server log -----------------------------------------------------------------------------------
# The log of the MCP server: on standard error if ``RYE_LOG`` asks for it, and in a file.
#
# Nothing by default: many clients show whatever is on standard error as a failure. One line for
# each event, ``rye[PID] LEVEL text``; values of parameters never.

MAX_BYTES = 5_000_000


def server_log(path: str | None, environ: Mapping[str, str]) -> Callable[[str, str], None]:
    """Takes a level and a text. Raises FileSystemError for a file that cannot be written."""
    level = environ.get("RYE_LOG", "").upper()
    if environ.get("RYE_DEBUG") == "true":
        level = level or "DEBUG"
    if not level and path is None:
        from ryeos.mcp.wire import quiet

        return quiet
    import logging
    from logging.handlers import RotatingFileHandler
    from pathlib import Path

    line = logging.Formatter(f"rye[{os.getpid()}] %(levelname)s %(message)s")
    handlers: list[logging.Handler] = []
    if level:
        handlers.append(logging.StreamHandler())
        handlers[0].setLevel(level)
    if path is not None:
        line_in_file = logging.Formatter(
            f"%(asctime)s rye[{os.getpid()}] %(levelname)s %(message)s"
        )
        try:
            file = RotatingFileHandler(
                Path(path).expanduser(), maxBytes=MAX_BYTES, backupCount=1, encoding="utf-8"
            )
        except OSError as error:
            from lillux.files import file_system_error

            raise file_system_error(path, error) from error
        file.setLevel(level or "INFO")
        file.setFormatter(line_in_file)
        handlers.append(file)
    if level:
        handlers[0].setFormatter(line)
    logging.raiseExceptions = False  # standard error may have no reader any more
    logging.basicConfig(level=logging.DEBUG, handlers=handlers, force=True)
    log = logging.getLogger("ryeos.mcp")

    def say(name: str, text: str) -> None:
        log.log(logging.getLevelNamesMapping()[name.upper()], "%s", text)

    return say


MCP = CommandSpec(
    configure=_configure,
    run=_run,
    examples=["rye mcp", "rye mcp --tools all --project ~/shop"],
    has_spinner=False,
    refused=_answer_refusal,
)
