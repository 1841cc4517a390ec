"""Texts of items for MCP servers and their tools. Pure; the texts of a server are untrusted."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from lillux.contained_paths import require_plain_path
from lillux.digests import sha256_hex
from lillux.errors import UnsafePathError
from lillux.values import dataclass
from ryeos.items.errors import UsageError
from ryeos.items.yaml_entries import with_entry, without_entry
from ryeos.items.yaml_text import yaml_text

# The text of the items that are written, and whether one was edited since. Pure.
#
# The last line of such a text has the digest of all above it. A text whose digest is another was
# edited, even if it was signed since.

FIRST_VERSION = "1.0.0"
_DIGEST = re.compile(r'^x-mcp-digest: "([0-9a-f]{64})"\n', re.MULTILINE)
_VERSION = re.compile(r'^version: "(\d+)\.(\d+)\.(\d+)"$', re.MULTILINE)


def generated(comment: str, values: Mapping[str, object]) -> str:
    """A text with a mark that it was not edited. Raises ValueError for no JSON."""
    text = f"# {comment}\n{yaml_text(values)}"
    return f'{text}x-mcp-digest: "{_digest(text)}"\n'


def is_untouched(body: str) -> bool:
    """True if a text is as it was generated."""
    above, found, below = _split_digest(body)
    return not below and found == _digest(above)


def version_of(body: str) -> str:
    """The version in a generated text."""
    found = _VERSION.search(body)
    return ".".join(found.groups()) if found else FIRST_VERSION


def next_version(version: str) -> str:
    """The version after this one."""
    rest, _, last = version.rpartition(".")
    return f"{rest}.{int(last) + 1}"


def with_config(body: str, values: Mapping[str, Mapping[str, Any] | None]) -> str:
    """The text of a server's item with these entries in its config, None for one that goes.

    The version's last number is one higher. What else stands there stays, and with it whether the
    text was edited. Raises UneditableYamlError for a form that only a person can edit.
    """
    was_untouched = is_untouched(body)
    above, digest, below = _split_digest(body)
    text = above
    for name, value in values.items():
        if value is None:
            text = without_entry(text, "config", name)
        else:
            text = with_entry(text, "config", name, value)
    text = _VERSION.sub(f'version: "{next_version(version_of(body))}"', text, count=1)
    last = f'x-mcp-digest: "{_digest(text) if was_untouched else digest}"\n' if digest else ""
    return text + last + below


def unpinned(body: str) -> str:
    """The text without pins, version and digest: what its source decided.

    Raises UneditableYamlError for a form that only a person can edit.
    """
    above, _, below = _split_digest(body)
    return _VERSION.sub("", without_entry(above, "config", "pins"), count=1) + below


def _split_digest(body: str) -> tuple[str, str, str]:
    for found in list(_DIGEST.finditer(body))[-1:]:
        return body[: found.start()], found[1], body[found.end() :]
    return body, "", ""


def _digest(text: str) -> str:
    return sha256_hex(text.encode())


# Names of items for the tools of a server, whatever the server calls them. Pure.

SERVER_FOLDER = "mcp/servers"
SUFFIX = ".yaml"
_MAX_CHARACTERS = 64
_SERVER = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
_OTHERS = re.compile(r"[^A-Za-z0-9_-]+")
_MARK_DIGITS = 8


def valid_server_id(name: str) -> str:
    """The id of a server's item. Raises UsageError for a name that no folder should have."""
    if not _SERVER.fullmatch(name) or name == "servers" or not _is_file_name(name):
        raise UsageError(
            f"server {name[:80]!r}: expected small letters, digits, '-' and '_', at most 64",
            hint="choose a name of your own, like github; servers is the folder of them all",
        )
    return f"{SERVER_FOLDER}/{name}"


def item_names(tools: Sequence[str]) -> Mapping[str, str]:
    """A file name for each tool: its own where that is one, else with a mark made from its own.

    Names that differ only in the case of letters are all marked: some file systems do not tell
    them apart.
    """
    plain = {tool: _OTHERS.sub("_", tool).strip("_-")[:_MAX_CHARACTERS] for tool in tools}
    alike = Counter(name.lower() for name in plain.values())
    return {
        tool: name
        if name == tool and alike[name.lower()] == 1 and _is_file_name(name)
        # The mark says which tool it is, so that no other one can take its place.
        else f"{name[: _MAX_CHARACTERS - _MARK_DIGITS - 1] or 'tool'}-{_mark(tool)}"
        for tool, name in plain.items()
    }


def _mark(tool: str) -> str:
    return sha256_hex(tool.encode("utf-8", "surrogatepass"))[:_MARK_DIGITS]


def _is_file_name(name: str) -> bool:
    try:
        require_plain_path(name)
    except UnsafePathError:
        return False
    return bool(name)


# The item of a server: its program or its address, and which variables it gets.

RUNTIMES = {"stdio": "rye/core/runtimes/mcp/stdio", "http": "rye/core/runtimes/mcp/http"}
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_HEADER = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerOptions:
    """The way to a server: a program and its words, or an address.

    env      names of variables that the program gets
    headers  header -> name of the variable that holds it
    bearer   the variable that holds a token, "" for none
    """

    words: Sequence[str] = ()
    url: str = ""
    env: Sequence[str] = ()
    headers: Mapping[str, str] = {}
    bearer: str = ""
    timeout_s: float = 0


def server_text(name: str, options: ServerOptions) -> str:
    """The text of a server's item. Raises UsageError, InvalidUrlError."""
    valid_server_id(name)
    if bool(options.words) == bool(options.url):
        hint = f"rye mcp add {name} -- python3 server.py, or: rye mcp add {name} --url URL"
        found = "both" if options.url else "neither"
        raise UsageError(f"expected the program of a server or --url, found {found}", hint=hint)
    config = _stdio(options) if options.words else _http(options)
    if options.timeout_s:
        config["timeout"] = options.timeout_s
    values = {
        "version": FIRST_VERSION,
        "tool_type": "mcp_server",
        "executor_id": RUNTIMES[config["transport"]],
        "category": SERVER_FOLDER,
        "description": f"The MCP server {name}; run it, and it says which tools it has",
        "config": config,
    }
    return generated("Written by rye mcp add.", values)


def _stdio(options: ServerOptions) -> dict[str, Any]:
    if options.headers or options.bearer:
        raise UsageError("--header, --bearer: expected with --url, found a program")
    command, *args = options.words
    env = {_variable(name): f"${{{name}}}" for name in options.env}
    config: dict[str, Any] = {"transport": "stdio", "command": command, "args": args}
    return config | ({"env": env} if env else {})


def _http(options: ServerOptions) -> dict[str, Any]:
    from lillux.http.urls import parse_address

    if options.env:
        raise UsageError("--env: expected with a program, found --url")
    parse_address(options.url)
    headers = {}
    for name, variable in options.headers.items():
        if not _HEADER.fullmatch(name):
            raise UsageError(f"--header: expected NAME=VARIABLE, found {name[:80]!r}")
        headers[name] = f"${{{_variable(variable)}}}"
    if options.bearer:
        headers["Authorization"] = f"Bearer ${{{_variable(options.bearer)}}}"
    config: dict[str, Any] = {"transport": "http", "url": options.url}
    return config | ({"headers": headers} if headers else {})


def _variable(name: str) -> str:
    """Never its value: what is written here is read by every user who reads the project."""
    if not VARIABLE.fullmatch(name):
        raise UsageError(
            f"expected the name of a variable, found {name[:80]!r}",
            hint="set the variable to the secret, and name the variable here",
        )
    return name
