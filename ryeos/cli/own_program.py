"""How this program is started once more, as a thread is."""

from typing import TYPE_CHECKING

from ryeos.cli.session import own_words, program_path

__all__ = ["own_program", "own_words", "program_path"]

if TYPE_CHECKING:
    from ryeos.context import Context
    from ryeos.threads.starting import Program


def own_program(context: "Context") -> "Program":
    """How to start this program once more, in the same spaces."""
    from ryeos.threads.starting import Program

    flags = ["--user-space", str(context.spaces.user.base)]
    if context.project_path:
        flags += ["--project", str(context.project_path)]
    return Program(argv=own_words(), flags=tuple(flags), env=context.process_env, cwd=context.cwd)
