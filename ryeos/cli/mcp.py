"""``rye mcp``: the MCP server on standard input and output."""

from ryeos.cli.plain_arguments import Arguments
from ryeos.cli.session import Command, Session

PROFILES = ("five", "node", "all")


def _configure(arguments: Arguments) -> None:
    arguments.add_argument(
        "--tools",
        choices=PROFILES,
        default=PROFILES[0],
        help="which tools are listed: the five, those of a node, or all six (all are answered)",
    )


def _run(session: Session) -> int:
    from ryeos.mcp.wire import take_over

    wire = take_over()  # before anything else: what is printed from here on is no message
    from ryeos import __version__
    from ryeos.mcp.features import RyeFeatures, server
    from ryeos.mcp.session import Session as Conversation
    from ryeos.mcp.stdio import StdioServer

    features = RyeFeatures(
        lambda: session.server_rye,
        lambda rye: session.program(rye),
        session.bundle.hold,
        profile=session.arguments.tools,
    )
    StdioServer(Conversation(server(__version__, session.arguments.project)), features, wire).run()
    return 0


COMMANDS = {
    "mcp": Command(
        configure=_configure,
        run=_run,
        examples=["rye mcp", "rye mcp --tools all --project ~/shop"],
    )
}
