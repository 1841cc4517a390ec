"""Hints for callers of tools: a call where they name a command, an argument for a flag. Pure.

Errors are written for people at a command line. What a tool does is named as its call; what gives
rights (keys, trust, nodes, registries) has no tool, and is what the user is asked to run.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from ryeos.app.commands import ALIASES, PROGRAMS, TABLE

USERS_COMMAND = "ask your user to run: "
COMMAND_WORDS = tuple(word for word in (*TABLE.first_words(), *ALIASES) if word not in PROGRAMS)
COMMAND = re.compile(rf"\brye (?:{'|'.join(COMMAND_WORDS)})\b")
"""A command of ``rye``, where one begins."""
_FIRST_COMMAND = re.compile(rf"(?:(?:,? (?:with|run|by)|, then): )?(?={COMMAND.pattern})")

# The id of a run as it is kept; agents know its short form. A tool's own words stay as they are.
_OF_RUNS = frozenset({"AMBIGUOUS_ITEM", "CONFLICT", "RUN_NOT_FOUND", "THREAD_NOT_FOUND"})
_RUN_ID = re.compile(r"(?<![\w/.-])[\w/.-]+-\d{10,}(?:-\d+)?(-[0-9a-f]{4})(?![\w-])")

_Wordings = Iterable[tuple[re.Pattern[str], str]]
_WORD = r"'?([^\s;,()']+)'?"
_REMOTE_FLAG = r"(?: --remote [^\s;,()]+)?"


def _tool(item: str, parameters: str) -> str:
    return f'execute {{"item_id": "{item}", "parameters": {{{parameters}}}}}'


def _remote(action: str, more: str = "") -> str:
    return _tool("rye/core/remote/remote", f'"action": "{action}"{more}')


_ROWS: Mapping[str, str] = {
    # items
    rf"rye load {_WORD} --to (project|user)": r'load {"item_id": "\1", "destination": "\2"}',
    rf"read it with: rye load {_WORD}": r'read it with: load {"item_id": "\1", "text": true}',
    rf"rye load {_WORD}": r'load {"item_id": "\1"}',
    rf"rye (?:info|run) {_WORD} --help": r'load {"item_id": "\1"}',
    r"rye search '\*' --type (\w+)": r'search {"item_type": "\1"}',
    r"rye search '\*'": "search {}",
    r"rye help --schema (graph|tool|runtime)": r'help {"topic": "\1s"}',
    r"rye help --schema test": 'help {"topic": "test"}',
    rf"rye help {_WORD}": r'help {"topic": "\1"}',
    rf"rye chain {_WORD}": r'execute {"item_id": "\1", "dry_run": true, "options":'
    r' {"verbose": true}}',
    rf"rye sandbox show {_WORD}": r'load {"item_id": "\1"}',
    rf"rye lock update {_WORD}": _tool(
        "rye/core/lock/lock", r'"action": "update", "item_id": "\1"'
    ),
    r"rye keys (list|show)": _tool("rye/core/keys/keys", r'"action": "\1"'),
    # signing: what a file is called below its space is the id of its item
    r"rye sign --force '?/[^;']*/\.ai/(tool|directive)s/([^;']+)\.[^./;']+'?": (
        r'sign {"item_id": "\1:\2", "options": {"force": true}}'
    ),
    r"rye sign '?/[^;']*/\.ai/(tool|directive)s/([^;']+)\.[^./;']+'?": (
        r'sign {"item_id": "\1:\2"}'
    ),
    r"rye sign (?:--force )?'?/[^;']*/\.ai/knowledge/([^;']+)\.[^./;']+'?": (
        r'sign {"item_id": "knowledge:\1"}'
    ),
    rf"rye sign --force ((?:tool|directive|knowledge|config):){_WORD}": (
        r'sign {"item_id": "\1\2", "options": {"force": true}}'
    ),
    # An agent's tools do not write configuration: the call brings the text.
    rf"rye sign (config:){_WORD}": r'sign {"item_id": "\1\2", "content": "its whole text"}',
    rf"rye sign ((?:tool|directive|knowledge):){_WORD}": r'sign {"item_id": "\1\2"}',
    r"rye sign \S.*$": "sign with its item_id",
    # runs
    r"rye graph validate shows": 'execute with parameters {"validate": true} shows',
    rf"rye graph validate {_WORD}": r'execute {"item_id": "\1", "parameters": {"validate": true}}',
    rf"rye graph resume {_WORD}": r'execute {"resume_thread_id": "\1"}',
    rf"rye threads wait {_WORD}": r'execute {"item_id": "\1", "options": {"wait_s": 60}}',
    rf"rye threads kill(?: {_WORD})?": r"the tool rye/core/processes/cancel",
    rf"rye threads show --transcript {_WORD}": r'load {"item_id": "rye://thread/\1"}',
    r"rye threads (?:list|show)(?: --all)?": 'execute {"item_id": "rye/core/processes/list"}',
    r"rye run REF --async": 'execute {"item_id": "tool:a/b", "async": true}',
    rf"rye run --target remote {_WORD}": r'execute {"item_id": "\1", "options": {"target":'
    r' "remote"}}',
    rf"rye run ((?:tool:|rye/){_WORD})": r'execute {"item_id": "\1"}',
    r"rye run$": "execute",
    rf"rye test {_WORD}": _tool("rye/core/testing/test", r'"items": ["\1"]'),
    # nodes and registries
    r"rye remote push --force": _remote("push", ', "force": true'),
    r"rye remote push --drop-excluded": _remote("push", ', "drop_excluded": true'),
    r"rye remote push --new-project": _remote("push", ', "new_project": true'),
    rf"rye remote pull --thread {_WORD}{_REMOTE_FLAG}": _remote("pull", r', "thread_id": "\1"'),
    rf"rye remote (push|pull|history|diff|status){_REMOTE_FLAG}(?! --)": _remote(r"\1"),
    r"rye remote list": _remote("status"),
    rf"rye remote secrets list{_REMOTE_FLAG}": _remote("secrets_list"),
    rf"rye remote threads(?: --all)?{_REMOTE_FLAG}": _remote("threads"),
    rf"rye remote thread {_WORD}(?: --wait)?{_REMOTE_FLAG}": _remote(
        "thread_status", r', "thread_id": "\1"'
    ),
    r"rye remote webhooks list": _remote("webhooks"),
    r"rye registry status": _tool("rye/core/registry/registry", '"action": "status"'),
    r"rye registry search \S+": 'search {"query": "WORDS", "options": {"source": "registry"}}',
    r"rye bundle create": "the tool rye/core/bundler/bundler",
    r"rye bundle list": _tool("rye/core/bundler/bundler", '"action": "list"'),
}
_COMMANDS: _Wordings = [(re.compile(pattern), call) for pattern, call in _ROWS.items()]
_FLAGS: _Wordings = (
    (re.compile(r"the next run --async makes one"), "the next run with async makes one"),
    (re.compile(r"resume with --force"), 'resume with parameters {"force": true}'),
    (
        re.compile(r"run the command at a terminal, or with --yes"),
        "your user agrees at a terminal,",
    ),
    (
        re.compile(r"your policy allows it with: "),
        "ask your user to write into config/sandbox/policy.yaml of user space: ",
    ),
    (re.compile(r"--async\b"), "async"),
    (re.compile(r"--overwrite\b"), "overwrite"),
    (re.compile(r"--target local\b"), "target local"),
    (
        re.compile(r"--project DIR, or make one with: rye init --project"),
        "project_path, of those that the policy of your user lists",
    ),
    (re.compile(r"--project DIR\b"), "project_path"),
    (re.compile(r"or wait for it, with --wait"), "or wait for it, with wait_s"),
    (re.compile(r"(?:without|give|with) --receipt full"), "ask your user to turn that off"),
)


def for_callers(envelope: Mapping[str, Any]) -> dict[str, Any]:
    """The envelope of a tool, with hint and warnings in the words of tools and their arguments."""
    reworded = dict(envelope)
    if isinstance(reworded.get("hint"), str):
        reworded["hint"] = _of_arguments(reworded["hint"])
    for name in ("error", "hint") if reworded.get("code") in _OF_RUNS else ():
        if isinstance(reworded.get(name), str):
            reworded[name] = _RUN_ID.sub(r"run\1", reworded[name])
    if isinstance(reworded.get("warnings"), list):
        reworded["warnings"] = [
            _of_arguments(one) if isinstance(one, str) else one for one in reworded["warnings"]
        ]
    return reworded


def _of_arguments(text: str) -> str:
    return for_user(_reworded(naming_tools(text), _FLAGS))


def naming_tools(hint: str) -> str:
    """The hint, for a caller that has tools and called none: flags are those of the server."""
    return hint if _is_said(hint) else _reworded(hint, _COMMANDS)


def for_user(hint: str) -> str:
    """The hint; before a command that is left in it stands that it is one for the user."""
    if _is_said(hint):
        return hint
    return _FIRST_COMMAND.sub(_asked, hint, count=1)


def _asked(found: re.Match[str]) -> str:
    return f"{': ' if found[0] else ''}{USERS_COMMAND}"


def _is_said(hint: str) -> bool:
    """True if a hint says itself that its command is the user's."""
    return USERS_COMMAND in hint


def _reworded(hint: str, wordings: _Wordings) -> str:
    for found, wording in wordings:
        hint = found.sub(wording, hint)
    return hint
