"""``rye mcp add|servers|discover|refresh|remove``."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.command_line import CommandLine, Done
from tests.support.mcp_servers import LISTING_SERVER, sdk_over_http

ADD = {
    "name": "add",
    "description": "Adds",
    "inputSchema": {"type": "object", "properties": {"a": {"type": "integer"}}},
}


class Lister:
    """A user with a server whose list can be set."""

    def __init__(self, cli: CommandLine) -> None:
        self.cli = cli
        self.list = cli.project.parent / "list.json"
        self.tools = cli.project / ".ai/tools/mcp"
        self.offer(ADD)
        words = (sys.executable, "-I", "-S", str(LISTING_SERVER), str(self.list))
        added = cli("mcp", "add", "demo", "--", *words)
        assert added.status == 0, added.stderr

    def offer(self, *tools: Any) -> None:  # noqa: ANN401 - JSON
        self.list.write_text(json.dumps({"tools": tools}), "utf-8")

    def __call__(self, *words: str) -> Done:
        return self.cli("mcp", *words)

    def states(self, *words: str) -> dict[str, tuple[str, bool]]:
        """By tool its state, and whether a file was written."""
        answer = self("--json", *words).json
        assert answer["status"] == "success", answer
        return {tool["tool"]: (tool["state"], tool["done"]) for tool in answer["tools"]}


@pytest.fixture
def lister(signer: CommandLine) -> Lister:
    return Lister(signer)


def test_a_tool_of_a_server_is_written_signed_and_runs(lister: Lister) -> None:
    found = lister("discover", "demo")

    assert found.stdout == "added  tool:mcp/demo/add (written and signed)\n"
    assert lister.cli("verify", "tool:mcp/demo/add").status == 0
    assert lister.cli("run", "mcp/demo/add", "a:=1", "--json").json["data"]["parsed"] == "add"
    assert lister.cli("run", "mcp/demo/add", "a=x").status == 6
    assert lister.states("discover", "demo") == {"add": ("unchanged", False)}


def test_a_dry_run_writes_nothing(lister: Lister) -> None:
    assert lister.states("discover", "demo", "--dry-run") == {"add": ("added", False)}
    assert not (lister.tools / "demo").exists()


def test_a_changed_description_of_a_server_is_written_by_refresh_alone(lister: Lister) -> None:
    lister("discover", "demo")
    lister.offer({**ADD, "description": "Adds numbers"}, {"name": "sub"})

    discovered = lister.states("discover", "demo")
    refreshed = lister.states("refresh", "demo", "--yes")

    assert discovered == {"add": ("changed", False), "sub": ("added", True)}
    assert refreshed == {"add": ("changed", True), "sub": ("unchanged", False)}
    text = (lister.tools / "demo/add.yaml").read_text("utf-8")
    assert 'version: "1.0.1"' in text
    assert "Adds numbers" in text


def test_lockfiles_of_tools_that_were_run_follow_what_discover_and_refresh_write(
    lister: Lister,
) -> None:
    lister("discover", "demo")
    run = ("run", "mcp/demo/add", "a:=1")
    assert lister.cli(*run).status == 0  # which pins its chain
    lister.offer({**ADD, "description": "Adds numbers"})

    refreshed = lister("refresh", "demo", "--yes")
    after_refresh = lister.cli(*run)
    (lister.tools / "demo/add.yaml").unlink()
    discovered = lister("discover", "demo")
    after_discover = lister.cli(*run)

    assert "the lockfile of mcp/demo/add follows\n" in refreshed.stderr
    assert "the lockfile of mcp/demo/add follows\n" in discovered.stderr
    assert (after_refresh.status, after_discover.status) == (0, 0), after_refresh.stderr


def test_an_edited_item_is_a_conflict_and_stays(lister: Lister) -> None:
    lister("discover", "demo")
    path = lister.tools / "demo/add.yaml"
    path.write_text(path.read_text("utf-8").replace('"Adds"', '"My own words"'), "utf-8")
    assert lister.cli("sign", "tool:mcp/demo/add").status == 0
    lister.offer({**ADD, "description": "Adds numbers"})

    assert lister.states("refresh", "demo", "--yes", "--prune") == {"add": ("conflict", False)}
    lister.offer()
    assert lister.states("refresh", "demo", "--yes", "--prune") == {"add": ("conflict", False)}
    assert "My own words" in path.read_text("utf-8")
    removed = lister("remove", "demo", "--json").json
    assert removed["kept"] == ["tool:mcp/demo/add"]
    assert path.is_file()


def test_a_tool_that_a_server_no_longer_has_is_removed_only_on_request(lister: Lister) -> None:
    lister("discover", "demo")
    lister.offer({"name": "sub"})

    assert lister.states("refresh", "demo", "--yes")["add"] == ("removed", False)
    assert lister.states("refresh", "demo", "--yes", "--only", "sub") == {
        "sub": ("unchanged", False)
    }
    assert (lister.tools / "demo/add.yaml").is_file()
    assert lister.states("refresh", "demo", "--yes", "--prune")["add"] == ("removed", True)
    assert not (lister.tools / "demo/add.yaml").exists()


def test_servers_are_listed_and_removed(lister: Lister) -> None:
    lister("discover", "demo")

    (listed,) = lister("servers", "--json").json["servers"]
    removed = lister("remove", "demo", "--json").json

    assert (listed["name"], listed["space"], listed["tools"]) == ("demo", "project", 1)
    assert listed["command"] == sys.executable
    assert removed["removed"] == ["tool:mcp/demo/add", "tool:mcp/servers/demo"]
    assert sorted(path.name for path in lister.tools.iterdir()) == ["servers"]
    assert lister("servers", "--json").json["servers"] == []
    assert lister("discover", "demo").status == 3


def test_a_mistyped_server_gets_a_suggestion(lister: Lister) -> None:
    refused = lister("discover", "dmeo")

    assert refused.status == 3
    assert refused.stderr == (
        "error: MCP server 'dmeo': not found; configured: demo\n"
        "  hint: did you mean demo? or add it: rye mcp add dmeo -- PROGRAM\n"
    )


def test_a_server_is_a_program_or_an_address(signer: CommandLine) -> None:
    neither = signer("mcp", "add", "a")
    both = signer("mcp", "add", "a", "--url", "https://example.com", "--", "serve")

    assert "program of a server or --url, found neither\n" in neither.stderr
    assert "program of a server or --url, found both\n" in both.stderr


def test_a_changed_server_item_is_not_started(lister: Lister) -> None:
    path = lister.tools / "servers/demo.yaml"
    path.write_text(path.read_text("utf-8").replace("-S", "-s"), "utf-8")

    assert lister("discover", "demo").status == 4
    (listed,) = lister("servers", "--json").json["servers"]
    assert "modified since signing" in listed["problem"]


def test_an_existing_server_is_replaced_only_on_request(lister: Lister) -> None:
    assert lister("add", "demo", "--", "true").status == 1
    assert lister("add", "demo", "--replace", "--", "true").status == 0
    assert "true" in (lister.tools / "servers/demo.yaml").read_text("utf-8")


def test_a_server_that_fails_is_reported_as_a_failed_tool(lister: Lister) -> None:
    lister("add", "demo", "--replace", "--", sys.executable, "-c", "raise SystemExit(3)")

    done = lister("discover", "demo")

    assert done.status == 1
    assert "it exited with code 3" in done.stderr


def test_a_server_at_an_address_is_queried(signer: CommandLine) -> None:
    with sdk_over_http("stream") as url:
        assert signer("mcp", "add", "sdk", "--url", url).status == 0
        found = signer("mcp", "discover", "sdk", "--only", "add", "--json").json
        ran = signer("run", "mcp/sdk/add", "a:=2", "b:=3", "--json").json

    assert found["counts"]["added"] == 1
    assert ran["data"]["structuredContent"] == {"result": 5}


def test_secrets_are_names_of_variables(signer: CommandLine) -> None:
    url = "https://example.com/mcp"
    signer("mcp", "add", "a", "--url", url, "--bearer", "TOKEN", "--header", "X-Key=API_KEY")
    signer("mcp", "add", "b", "--env", "TOKEN", "--timeout", "5", "--", "serve", "--all")

    tools = signer.project / ".ai/tools/mcp/servers"
    first, second = ((tools / f"{name}.yaml").read_text("utf-8") for name in "ab")
    assert 'Authorization: "Bearer ${TOKEN}"' in first
    assert 'X-Key: "${API_KEY}"' in first
    assert 'TOKEN: "${TOKEN}"' in second
    assert 'args: ["--all"]' in second
    assert "timeout: 5.0" in second


@pytest.mark.parametrize(
    "words",
    [
        ["a"],
        ["a", "--url", "https://example.com", "--", "serve"],
        ["a", "--url", "ftp://example.com"],
        ["a", "--url", "https://me:secret@example.com"],
        ["a", "--url", "https://example.com", "--bearer", "sk-123"],
        ["a", "--url", "https://example.com", "--header", "X: y=TOKEN"],
        ["a", "--url", "https://example.com", "--env", "TOKEN"],
        ["a", "--bearer", "TOKEN", "--", "serve"],
        ["a", "--env", "TOKEN=secret", "--", "serve"],
        ["a", "--timeout", "-1", "--", "serve"],
        ["servers", "--", "serve"],
        ["../a", "--", "serve"],
    ],
)
def test_an_invalid_server_is_refused(signer: CommandLine, words: list[str]) -> None:
    done = signer("mcp", "add", *words)

    assert done.status in (2, 6), done
    assert not (signer.project / ".ai/tools").exists()


def test_without_a_key_no_item_is_written(cli: CommandLine) -> None:
    assert cli("mcp", "add", "a", "--", "serve").status == 4
    assert not (cli.project / ".ai").exists()


def test_items_of_a_user_space_server_are_written_there(lister: Lister) -> None:
    words = (sys.executable, "-I", "-S", str(LISTING_SERVER), str(lister.list))
    lister("add", "mine", "--space", "user", "--", *words)

    lister("discover", "mine")

    assert Path(lister.cli.home, ".ai/tools/mcp/mine/add.yaml").is_file()
    assert lister.cli("run", "mcp/mine/add").status == 0


def test_an_edited_server_stays_and_its_missing_executor_is_reported(
    lister: Lister,
) -> None:
    path = lister.tools / "servers/mine.yaml"
    path.write_text(
        'version: "1.0.0"\ntool_type: mcp_server\nexecutor_id: null\n'
        "category: mcp/servers\ndescription: mine\nconfig: {command: serve}\n",
        "utf-8",
    )
    assert lister.cli("sign", "tool:mcp/servers/mine").status == 0

    rediscovered = lister("discover", "mine")
    removed = lister("remove", "mine", "--json").json

    assert rediscovered.status == 5
    assert "rye/core/runtimes/mcp/stdio" in rediscovered.stderr
    assert (removed["removed"], removed["kept"]) == ([], ["tool:mcp/servers/mine"])
    assert path.is_file()
