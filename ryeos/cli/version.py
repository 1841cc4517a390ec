"""``rye version``."""

import sys

from ryeos import __version__
from ryeos.cli.plain_arguments import Arguments
from ryeos.cli.session import Command, Session

MCP_VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28")


def _configure(_: Arguments) -> None:
    """No arguments of its own."""


def _run(session: Session) -> int:
    envelope = {
        "status": "success",
        "name": "rye",
        "version": __version__,
        "python": ".".join(map(str, sys.version_info[:3])),
        "platform": sys.platform,
        "edition": session.edition if session.output.as_json else None,
        "bundle": session.bundle_version if session.output.as_json else None,
        "mcp_versions": list(MCP_VERSIONS),
    }
    session.output.answer(envelope, f"rye {__version__}")
    return 0


COMMANDS = {"version": Command(_configure, _run, ["rye version", "rye version --json"])}
