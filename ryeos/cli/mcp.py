"""``rye mcp``: the MCP server on standard input and output."""

from __future__ import annotations

from lillux.errors import LilluxError
from ryeos.cli.plain_arguments import Arguments
from ryeos.cli.session import Command, Session

TYPE_CHECKING = False  # `typing` is not worth its time at a start
if TYPE_CHECKING:  # the engine comes with the first call
    from ryeos.context import Context
    from ryeos.threads.starting import Program

PROFILES = ("five", "node", "all")
PROMPTS = ("tagged", "all", "none")
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
        "--skills", action="store_true", help="offer the same directives as skills, too"
    )


def _run(session: Session) -> int:
    from ryeos.cli.server_log import server_log

    log = server_log(session.arguments.log_file, session.environ)
    from ryeos.mcp.wire import take_over

    wire = take_over()  # before the rest: what is printed from here on is no message
    from ryeos import __version__
    from ryeos.mcp.features import RyeFeatures, server
    from ryeos.mcp.opening import serve
    from ryeos.mcp.session import Session as Conversation

    features = RyeFeatures(
        lambda: session.server_rye(session.output.warn, GRACE_S),
        _own_program,
        session.bundle.hold,
        profile=session.arguments.tools,
        prompts=session.arguments.prompts,
        skills=session.arguments.skills,
        log=log,
    )
    offer = server(
        __version__,
        session.arguments.project,
        prompts=session.arguments.prompts,
        skills=session.arguments.skills,
    )
    serve(Conversation(offer), features, wire, log)


def _own_program(context: Context) -> Program:
    from ryeos.cli.session import own_program

    return own_program(context)


def _refused(error: LilluxError) -> None:
    """Tell a client why there is no server: few show standard error to anybody."""
    from ryeos.mcp.refusal import answer_first_request

    answer_first_request(error)


COMMANDS = {
    "mcp": Command(
        configure=_configure,
        run=_run,
        examples=["rye mcp", "rye mcp --tools all --project ~/shop"],
        refused=_refused,
    )
}
