"""What the MCP server writes down of itself: on standard error if ``RYE_LOG`` asks, and in a file.

Nothing by default: many clients show whatever is on standard error as a failure. One line for each
event, ``rye[PID] LEVEL text``; values of parameters never.
"""

import os
from collections.abc import Callable, Mapping

MAX_BYTES = 5_000_000


def server_log(path: str | None, environ: Mapping[str, str]) -> Callable[[str, str], None]:
    """Takes a level and a text. Raises FileSystemError for a file that cannot be written."""
    level = environ.get("RYE_LOG", "").upper()
    if environ.get("RYE_DEBUG") == "true":
        level = level or "DEBUG"
    if not level and path is None:
        from ryeos.mcp.internal_errors import quiet

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
