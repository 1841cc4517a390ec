"""MCP servers in settings of clients, as items. Examples: ``tests/vectors/imports``."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ryeos.imports.entry_secrets import Secrets, is_secret
from ryeos.imports.launches import EntryError, launch_of, words_of
from ryeos.imports.plan import ImportPlan, ImportSource, ProposedItem, joined, plain_name
from ryeos.imports.servers import read_servers
from ryeos.items.yaml import parse_yaml
from tests.support.executables import make_program

VECTORS = Path(__file__).resolve().parents[2] / "vectors" / "imports"


def plan_of(name: str) -> ImportPlan:
    return read_servers(ImportSource(path=VECTORS / name, project=VECTORS))


def values(item: ProposedItem) -> dict[str, Any]:
    return parse_yaml(item.data.decode(), "")


def read(text: str, tmp_path: Path) -> ImportPlan:
    path = tmp_path / "mcp.json"
    path.write_text(text, "utf-8")
    return read_servers(ImportSource(path=path, project=tmp_path))


def only(entry: str, tmp_path: Path) -> ProposedItem:
    (item,) = read(f'{{"mcpServers": {{"one": {entry}}}}}', tmp_path).items
    return item


SHOWN = {
    "claude.mcp.json": {
        "files": "npm @example/server-files@1.2.0 {project_path} /srv/share",
        "Issue Tracker": "pypi example-tracker==0.4.1",
        "wiki": "https://wiki.example.com/mcp?api_key=${MCP_WIKI_API_KEY}",
        "browser": "docker run -i --rm -e PAGE_KEY=${MCP_BROWSER_PAGE_KEY}"
        " ghcr.io/example/browser:2",
        "local": "node ./build/server.mjs --verbose",
        "shell": "",
        "rye": "",
    },
    "vscode.mcp.json": {"forge": "npm example-forge-mcp", "docs": "http://127.0.0.1:3845/sse"},
    "codex.toml": {
        "search": "pypi example-search",
        "figures": "https://figures.example.com/mcp",
    },
    "zed.settings.json": {
        "old-shape": "/opt/example/bin/serve --db ${MCP_OLD_SHAPE_DB}",
        "new-shape": "python -m example_server",
    },
    "gemini.settings.json": {
        "maps": "npm @example/maps",
        "remote": "https://remote.example.com:8443/mcp",
    },
    "windsurf.mcp_config.json": {
        "notes": "https://notes.example.com/s/${MCP_NOTES_PATH}/sse",
        "tasks": "npm mcp-remote@0.1.0 https://tasks.example.com/sse --header"
        " Authorization: Bearer ${TASKS_TOKEN}",
    },
}
SECRETS = (
    *("trk_5up3rS3cretValue99", "abc123def456", "wk-1234567890abcdef", "k-998877665544"),
    *("pa55", "rk-00112233445566778899", "4f9a8b7c6d5e4f3a2b1c0d9e8f7a6b5c"),
)


@pytest.mark.parametrize("name", SHOWN)
def test_the_servers_of_each_client_are_read(name: str) -> None:
    assert {item.name: item.shown for item in plan_of(name).items} == SHOWN[name]


@pytest.mark.parametrize("name", SHOWN)
def test_no_secret_of_a_client_is_in_an_item_or_shown(name: str) -> None:
    for item in plan_of(name).items:
        shown = f"{item.data.decode()}{item.describe()}{item!r}"
        assert [secret for secret in SECRETS if secret in shown] == []


def test_servers_that_start_a_shell_or_rye_are_not_imported() -> None:
    problems = {item.name: item.problems for item in plan_of("claude.mcp.json").items}

    assert problems.pop("rye") == ("it is Rye itself",)
    assert problems.pop("shell")[0].startswith("it starts a shell")
    assert set(problems.values()) == {()}


def test_rights_are_those_that_the_arguments_name() -> None:
    found = {item.name: values(item)["sandbox"] for item in plan_of("claude.mcp.json").writable}

    assert found["files"] == {
        "read": ["{project}", "/srv/share"],
        "write": ["{project}", "/srv/share", "{tmp}"],
        "network": "none",
        "programs": "none",
        "env": "none",
    }
    assert found["wiki"]["network"] == ["wiki.example.com:443"]
    assert found["browser"]["programs"] == "any"


@pytest.mark.parametrize(
    "word",
    [
        *("/usr/bin/git", "/opt/tools/bin/helper", "/usr/local/bin", "C:/tools/run.exe"),
        *("${workspaceFolder}/helper", "${workspaceFolder}/tools/go.sh", "--git=/usr/bin/git"),
    ],
)
def test_a_program_among_the_arguments_may_be_started_and_not_written(
    word: str, tmp_path: Path
) -> None:
    make_program(tmp_path / "helper")
    words = f'"/opt/server.js", "{word}", "/srv/share"'
    item = only(f'{{"command": "node", "args": [{words}]}}', tmp_path)
    sandbox = values(item)["sandbox"]
    (program,) = sandbox["programs"]

    assert program in sandbox["read"]
    assert sandbox["write"] == ["/srv/share", "{tmp}"]


@pytest.mark.parametrize("word", ["/srv/plugin.py", "/srv/plugin.mjs", "/srv/plugin.so"])
def test_code_among_the_arguments_is_read_and_not_written(word: str, tmp_path: Path) -> None:
    entry = f'{{"command": "node", "args": ["/opt/server.js", "{word}"]}}'
    sandbox = values(only(entry, tmp_path))["sandbox"]

    assert (word in sandbox["read"], sandbox["write"]) == (True, ["{tmp}"])


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ("[]", "expected an object"),
        ("{}", "expected a command or a url"),
        ('{"command": "a", "args": "b"}', "expected a text and a list"),
        ('{"command": "a", "args": [1]}', "expected a text and a list"),
        ('{"command": "a\\u001b[2J"}', "control character"),
        ('{"command": "${TOOL}"}', "found a variable in its place"),
        ('{"command": "a; rm -rf /"}', "a line for a shell"),
        ('{"command": "bash", "args": ["-lc", "a"]}', "it starts a shell"),
        ('{"command": "/bin/SH", "args": ["-c", "a"]}', "it starts a shell"),
        ('{"command": "powershell.exe", "args": ["-Command", "a"]}', "it starts a shell"),
        ('{"command": "sudo", "args": ["a"]}', "it starts a shell"),
        ('{"command": "a", "args": ["${file}"]}', "filled by the client alone"),
        ('{"command": "a", "env": {"A B": "c"}}', "expected the name of a variable"),
        ('{"command": "a", "env": {"A": {}}}', "expected a text"),
        ('{"url": "https://a:b@c.example"}', "a password in an address"),
        ('{"url": "https://${HOST}/mcp"}', "a variable in its place"),
        ('{"url": "file:///etc/passwd"}', ""),
    ],
)
def test_a_server_that_cannot_be_an_item_says_why(entry: str, problem: str, tmp_path: Path) -> None:
    item = only(entry, tmp_path)

    assert item.problems
    assert problem in item.problems[0]


def test_a_duplicate_name_is_not_made(tmp_path: Path) -> None:
    plan = read('{"mcpServers": {"a": {"command": "x"}, "a": {"command": "y"}}}', tmp_path)

    assert "another entry of this file has this name too" in plan.items[0].problems


def test_names_that_differ_in_case_or_look_alike_are_reported(tmp_path: Path) -> None:
    servers = ", ".join(f'"{name}": {{"command": "x"}}' for name in ("c1", "cl", "Git", "git"))

    plan = joined([read(f'{{"mcpServers": {{{servers}}}}}', tmp_path)])

    first, second, big, small = plan.items
    assert "looks like it" in first.notes[-1] + second.notes[-1]
    assert not big.problems
    assert "differs in case alone" in small.problems[0]


@pytest.mark.parametrize("name", ["g\u0456thub", "git\u200bhub", "..", "con", "servers ", "\uff41"])
def test_a_name_that_only_looks_plain_gets_a_mark(name: str) -> None:
    found = plain_name(name)

    assert found.isascii()
    assert found == "servers" or found[-9] == "-"


def test_options_that_make_a_server_load_other_code_are_reported(tmp_path: Path) -> None:
    item = only('{"command": "a", "env": {"NODE_OPTIONS": "--import ./x.mjs"}}', tmp_path)

    assert "NODE_OPTIONS" in item.notes[0]


@pytest.mark.parametrize(
    ("words", "spec"),
    [
        (("npx", "-y", "a@1"), "a@1"),
        (("npx", "--package=@b/c@^2", "run", "x"), "@b/c@^2"),
        (("npm", "exec", "--", "a"), "a"),
        (("pnpm", "dlx", "a"), "a"),
        (("bunx", "a"), "a"),
        (("uvx", "a@1.2"), "a==1.2"),
        (("uvx", "--from", "a[b]>=1", "c"), "a[b]>=1"),
        (("uv", "tool", "run", "a"), "a"),
        (("pipx", "run", "a"), "a"),
        (("npx", "github:a/b"), None),
        (("npx", "--node-options=x", "a"), None),
        (("uvx", "--from", "git+https://a.example/b", "c"), None),
        (("npx",), None),
    ],
)
def test_a_package_is_distinguished_from_its_launcher(
    words: tuple[str, ...], spec: str | None
) -> None:
    package = launch_of(words).package

    assert (package.spec if package else None) == spec


@pytest.mark.parametrize(
    ("value", "name", "is_one"),
    [
        ("ghp_abcdefghijkl", "", True),
        ("postgres://a:b@c/d", "", True),
        ("x", "API_KEY", True),
        ("/home/me/key.pem", "KEY_FILE", False),
        ("${API_KEY}", "API_KEY", False),
        ("Bearer ${TOKEN}", "Authorization", False),
        ("/srv/a-long-folder/with-many-words/in-it", "", False),
        ("@modelcontextprotocol/server-filesystem", "", False),
        ("debug", "LOG_LEVEL", False),
    ],
)
def test_values_that_look_like_a_secret_are_recognised(value: str, name: str, is_one: bool) -> None:  # noqa: FBT001
    assert is_secret(value, name) is is_one


@given(st.lists(st.text(max_size=30), max_size=6))
def test_any_words_stay_words(args: list[str]) -> None:
    try:
        words = words_of("serve", args)
    except EntryError:
        return
    secrets = Secrets("demo")
    kept = list(secrets.words(words[1:]))
    known = {f"${{{one.variable}}}": one.value for one in secrets.moved}

    for variable, value in known.items():
        kept = [word.replace(variable, value) for word in kept]
    assert kept == list(words[1:])


def test_servers_at_the_top_of_a_file_are_found(tmp_path: Path) -> None:
    text = (
        '{"zoo": {"type": "http", "url": "https://zoo.example/mcp"},'
        ' "cage": {"command": "npx", "args": ["-y", "cage-mcp"]}, "version": 1, "theme": {}}'
    )

    assert [item.name for item in read(text, tmp_path).items] == ["zoo", "cage"]


@pytest.mark.parametrize("text", ["", "// {}\n", '/* {"a": 1} */'])
def test_a_file_of_comments_holds_no_servers(text: str, tmp_path: Path) -> None:
    assert "no MCP servers" in read(text, tmp_path).notes[0]


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("${CLAUDE_PLUGIN_ROOT}/s.js", "{project_path}/plug/s.js"),
        ("${CLAUDE_PROJECT_DIR}/s.js", "{project_path}/s.js"),
        ("${CLAUDE_PROJECT_DIR:-.}/s.js", "{project_path}/s.js"),
        ("${extensionPath}/s.js", "{project_path}/plug/s.js"),
    ],
)
@pytest.mark.parametrize("file", ["plug/.mcp.json", "plug/.claude-plugin/plugin.json"])
def test_the_folder_of_a_plugin_is_put_in(
    written: str, meant: str, file: str, tmp_path: Path
) -> None:
    path = tmp_path / file
    path.parent.mkdir(parents=True)
    entry = {"command": "node", "args": [written], "env": {"ROOT": written}}
    path.write_text(json.dumps({"mcpServers": {"a": entry}}), "utf-8")
    (item,) = read_servers(ImportSource(path=path, project=tmp_path)).items

    config = values(item)["config"]
    assert (config["args"], config["env"]) == ([meant], {"ROOT": meant})


def test_a_program_of_a_plugin_is_started_by_its_path(tmp_path: Path) -> None:
    item = only('{"command": "${CLAUDE_PLUGIN_ROOT}/bin/serve"}', tmp_path)

    assert values(item)["config"]["command"] == "{project_path}/bin/serve"


@pytest.mark.parametrize(
    ("file", "read_too"),
    [
        ("srv/node_modules/zoo/dist/index.js", "srv/node_modules"),
        ("srv/node_modules/@s/zoo/node_modules/a/i.mjs", "srv/node_modules"),
        ("tool/dist/index.js", "tool"),
    ],
)
def test_a_file_of_node_is_read_with_the_packages_that_it_imports(
    file: str, read_too: str, tmp_path: Path
) -> None:
    project, path = tmp_path / "project", tmp_path / file
    path.parent.mkdir(parents=True)
    project.mkdir()
    path.write_text("", "utf-8")
    (tmp_path / "tool").mkdir(exist_ok=True)
    (tmp_path / "tool/package.json").write_text("{}", "utf-8")
    settings = project / "mcp.json"
    entry = {"command": "node", "args": [str(path)]}
    settings.write_text(json.dumps({"mcpServers": {"a": entry}}), "utf-8")
    (item,) = read_servers(ImportSource(path=settings, project=project)).items

    rights = values(item)["sandbox"]
    assert rights["read"] == ["{project}", str(path.parent), str(tmp_path / read_too)]
    assert rights["write"] == ["{tmp}"]


def test_a_date_in_the_place_of_a_server_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text("[mcp_servers]\na = 2026-01-01\nb = {url = 'https://b.example'}\n", "utf-8")
    items = read_servers(ImportSource(path=path, project=tmp_path)).items

    assert "expected an object" in items[0].problems[0]
    assert items[1].problems == ()
