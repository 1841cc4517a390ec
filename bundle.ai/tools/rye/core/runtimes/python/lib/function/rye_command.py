"""Rye itself, started by a tool: its commands answer with one JSON document.

Tools whose header says ``ENV_CONFIG = {"env": {"PYTHONPATH": "{runtime_lib}"}}`` write
``from rye_command import run_rye, refusal``. Page: ``docs/writing-tools.md``.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from datetime import datetime
from pathlib import Path

__version__ = "1.0.0"
__tool_type__ = "library"
__executor_id__ = None
__category__ = "rye/core/runtimes/python/lib/function"
__description__ = "Starts a command of Rye from a Python tool"

SHOWN_CHARACTERS = 2000


def run_rye(
    words: list,
    values: list | tuple = (),
    *,
    stdin: str | None = None,
    env: dict | None = None,
    project: str | None = None,
) -> dict:
    """The JSON that ``rye WORDS --json -- VALUES`` prints, with ``success`` beside it.

    words    what the tool itself says: the command, its flags (``option`` and ``flags`` make those)
    values   what a caller says: these are words of the command, whatever they begin with
    stdin    text for standard input, which is empty without it; secrets travel here
    env      further variables, for that process alone
    project  the folder of the project, as `execute` gets it

    What does not end with status 0 has ``success`` False and an ``error``.
    """
    if not all(isinstance(one, str) and "\0" not in one for one in (*words, *values)):
        return refusal("parameters: expected text without NUL for what names something")
    if project is not None and not Path(project).is_dir():
        return refusal(f"{project}: there is no such folder")
    try:
        program = json.loads(os.environ.get("RYE_PROGRAM", "[]"))
    except ValueError:
        program = []
    if not program:
        return refusal("RYE_PROGRAM: Rye cannot be started from here")
    place = [f"--project={project}"] if project is not None else []
    told = [*program, *words, "--json", *place, *(["--", *values] if values else [])]
    try:
        done = subprocess.run(
            told,
            input=(stdin or "").encode(),
            capture_output=True,
            env={**_original(), **(env or {})},
            check=False,
        )
    except (OSError, ValueError) as error:  # too long a word, say
        return refusal(f"{' '.join(words)}: Rye cannot be started: {error}")
    return _answer(done)


def _original() -> dict:
    """The environment of the process that runs this tool, without what a ``.env`` laid over it."""
    try:
        below = json.loads(os.environ.get("RYE_ORIGINAL_ENV", "{}"))
    except ValueError:
        below = {}
    return {name: value for name, value in {**os.environ, **below}.items() if value is not None}


def refusal(problem: str, hint: str | None = None, code: str = "INVALID_PARAMS") -> dict:
    """What a tool answers where no command is started."""
    return {"success": False, "error": problem, "code": code, **({"hint": hint} if hint else {})}


def missing(params: dict, action: str, needed: dict) -> dict | None:
    """A refusal where ``needed[action]`` are not all there, else None."""
    names = [name for name in needed.get(action, ()) if params.get(name) in (None, "", [])]
    return refusal(f"{action}: expected {' and '.join(names)}, found none") if names else None


def option(params: dict, *names: str) -> list:
    """``["--name=value"]`` for each that is there: a value cannot be taken for a flag."""
    given = [name for name in names if params.get(name) is not None]
    return [f"--{name.replace('_', '-')}={params[name]}" for name in given]


def flags(params: dict, *names: str) -> list:
    """``["--name"]`` for each that is true."""
    return [f"--{name.replace('_', '-')}" for name in names if params.get(name)]


def short_id(thread_id: str) -> str:
    """The short form of a run's id, like ``run-d150``; any other id as it is."""
    found = re.fullmatch(r".*-\d{10,}(?:-\d+)?(-[0-9a-f]{4})", thread_id, re.DOTALL)
    return f"run{found[1]}" if found else thread_id


def seconds_of(thread: dict) -> float | None:
    """How long a background run took, or has run until now."""
    try:
        began = datetime.fromisoformat(thread["created_at"])
        last = thread.get("completed_at")
        if not last and thread["status"] != "running":
            last = thread["updated_at"]
        ended = datetime.fromisoformat(last) if last else datetime.now(began.tzinfo)
    except (KeyError, ValueError):
        return None
    return round((ended - began).total_seconds(), 3)


def _answer(done: subprocess.CompletedProcess) -> dict:
    try:
        envelope = json.loads(done.stdout)
    except ValueError:
        envelope = None
    if not isinstance(envelope, dict):
        said = done.stderr.decode("utf-8", "replace").strip()[-SHOWN_CHARACTERS:]
        envelope = {"error": said or f"rye ended with status {done.returncode}"}
    is_fine = done.returncode == 0 and "error" not in envelope
    if not is_fine and "error" not in envelope:
        envelope["error"] = f"rye ended with status {done.returncode}"
    return {**envelope, "success": is_fine}
