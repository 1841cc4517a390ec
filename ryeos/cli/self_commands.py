"""``rye self``: this program itself."""

import sys
from pathlib import Path

from ryeos.cli.places import modules_path, program_path, project_reason, unpacked_root
from ryeos.cli.plain_arguments import Arguments
from ryeos.cli.session import Command, Session


def _configure(_: Arguments) -> None:
    """No arguments of its own."""


def _where(session: Session) -> int:
    spaces = session.context.spaces
    embedded = next((bundle.base for bundle in spaces.bundles if bundle.pinned_pem), None)
    found: dict[str, Path | None] = {
        "program": program_path(),
        "python": Path(sys.executable) if sys.executable else None,
        "modules": modules_path(),
        "cache": unpacked_root(),
        "bundle": embedded,
        "user_space": spaces.user.ai,
        "project": session.context.project_path,
        "key_directory": session.context.key_directory,
    }
    paths = {name: str(path) if path else None for name, path in found.items()}
    others = [str(bundle.base) for bundle in spaces.bundles if not bundle.pinned_pem]
    reason = project_reason(session)
    envelope = {"status": "success", **paths, "project_reason": reason, "other_bundles": others}
    lines = [f"{name.replace('_', ' '):<14} {path or '-'}" for name, path in paths.items()]
    session.output.answer(envelope, "\n".join([*lines, *(f"bundle         {o}" for o in others)]))
    return 0


COMMANDS = {"self where": Command(_configure, _where, ["rye self where", "rye self where --json"])}
