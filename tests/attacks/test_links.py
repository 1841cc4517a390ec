"""Links that lead out of a space, to files that another user may change."""

import json
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from lillux.digests import sha256_hex
from lillux.errors import LilluxError
from lillux.key_files import save_keypair
from ryeos.app.load import load
from ryeos.app.sign import sign
from ryeos.graph.run_pages import RunPage, write_page
from ryeos.graph.run_places import run_place
from ryeos.graph.run_store import RunIdentity, RunRecords
from ryeos.items.errors import Answer, IntegrityError, SpecError
from ryeos.items.refs import PROJECT, ItemRef, Kind, Space, parse_reference
from ryeos.mcp.results import tool_result
from ryeos.remote.apply import FileChange, apply_changes
from ryeos.remote.conflicts import OURS, ConflictFolder
from ryeos.remote.pull import MergedRuns
from ryeos.remote.registry_lock import LockEntry, RegistryLock
from ryeos.remote.run_outputs import Outputs, write_outputs
from ryeos.run.http_sinks import StreamConfig, StreamDestination, open_sinks
from ryeos.run.threads.place import threads_place
from ryeos.run.threads.registry import ThreadRegistry, write_document
from ryeos.run.threads.thread import Thread
from ryeos.sync.objects import OutputsBundle
from tests.support.command_line import CommandLine
from tests.support.workspace import Workspace

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="links need a privilege there")


@pytest.fixture
def outside(workspace: Workspace) -> Path:
    """A tool that is validly signed, in a folder outside of every space."""
    signed = workspace.project.signed_tool("mine", "print('{}')\n")
    folder = workspace.folder / "outside"
    folder.mkdir()
    return signed.rename(folder / "mine.py")


def assert_escape(workspace: Workspace, item_id: str, path: Path) -> None:
    with pytest.raises(IntegrityError) as error:
        workspace.rye().load(parse_reference(f"tool:{item_id}"))
    assert str(error.value) == f"symlink escape: the file lies outside the project space: {path}"

    result = workspace.run(item_id)

    assert type(result.failure) is IntegrityError
    assert not result.success


def test_a_link_to_a_file(workspace: Workspace, outside: Path) -> None:
    link = workspace.project.space.ai / "tools" / "link.py"
    link.symlink_to(outside)

    assert_escape(workspace, "link", link)


def test_a_link_to_a_folder(workspace: Workspace, outside: Path) -> None:
    folder = workspace.project.space.ai / "tools" / "folder"
    folder.symlink_to(outside.parent)

    assert_escape(workspace, "folder/mine", folder / "mine.py")


def test_a_link_through_another_link(workspace: Workspace, outside: Path) -> None:
    tools = workspace.project.space.ai / "tools"
    (tools / "a.py").symlink_to("b.py")
    (tools / "b.py").symlink_to(outside)

    assert_escape(workspace, "a", tools / "a.py")


def test_a_link_into_another_space(workspace: Workspace) -> None:
    mine = workspace.user.signed_tool("mine")
    link = workspace.project.space.ai / "tools" / "mine.py"
    link.parent.mkdir()
    link.symlink_to(mine)

    assert_escape(workspace, "mine", link)


def test_a_link_into_another_folder_of_the_same_space(workspace: Workspace) -> None:
    state = workspace.project.write("state/x.py", "")
    link = workspace.project.space.ai / "tools" / "x.py"
    link.parent.mkdir()
    link.symlink_to(state)

    assert_escape(workspace, "x", link)


def test_a_link_in_the_project_does_not_fall_back_to_a_good_item_below(
    workspace: Workspace, outside: Path
) -> None:
    workspace.user.signed_tool("x")
    link = workspace.project.space.ai / "tools" / "x.py"
    link.symlink_to(outside)

    assert_escape(workspace, "x", link)


def test_a_broken_link_is_no_item(workspace: Workspace) -> None:
    tools = workspace.project.space.ai / "tools"
    tools.mkdir()
    (tools / "dangling.py").symlink_to("nothing.py")
    (tools / "circle.py").symlink_to("circle.py")
    resolver = workspace.rye().resolver

    for name in ("dangling", "circle"):
        (ref,) = parse_reference(f"tool:{name}").refs()
        assert resolver.find(ref) is None


def test_a_folder_of_items_that_is_a_link_holds_the_items_of_its_target(
    workspace: Workspace, outside: Path
) -> None:
    """The space is where its folders are; every file there is verified as ever."""
    (outside.parent / "unsigned.py").write_text("x = 1\n", encoding="utf-8")
    project = workspace.folder / "linked"
    (project / ".ai").mkdir(parents=True)
    (project / ".ai" / "tools").symlink_to(outside.parent)
    workspace.project_path = project
    rye = workspace.rye()

    _, item = rye.load(parse_reference("tool:mine"))

    assert item.verified
    with pytest.raises(IntegrityError, match="unsigned item"):
        rye.load(parse_reference("tool:unsigned"))


def test_a_project_that_links_to_the_users_items_gets_no_rights_of_theirs(
    workspace: Workspace,
) -> None:
    """``.ai`` as a link to user space: the items count as the project's, the keys as carried."""
    workspace.user.signed_tool("mine")
    project = workspace.folder / "borrower"
    project.mkdir()
    (project / ".ai").symlink_to(workspace.home / ".ai")
    workspace.project_path = project
    rye = workspace.rye()

    resolution, item = rye.load(parse_reference("tool:mine"))

    assert resolution.location.space.label == PROJECT
    assert item.key
    assert item.key.source == "user"


def test_configuration_behind_a_link_is_refused(workspace: Workspace, outside: Path) -> None:
    secret = outside.parent / "secret.yaml"
    secret.write_text("token: 1\n", encoding="utf-8")
    config = workspace.project.space.ai / "config"
    config.mkdir()
    (config / "x.yaml").symlink_to(secret)

    with pytest.raises(SpecError, match="a link to"):
        workspace.rye().config.resolve({"path": "x.yaml"})


@pytest.mark.parametrize("kind", [Kind.DIRECTIVE, Kind.KNOWLEDGE])
def test_text_behind_a_link_is_not_shown(workspace: Workspace, kind: Kind) -> None:
    secret = workspace.folder / "secret.md"
    secret.write_text('token: 1\n<directive name="x">\n</directive>\n', encoding="utf-8")
    folder = workspace.project.space.directory(kind)
    folder.mkdir()
    (folder / "x.md").symlink_to(secret)

    with pytest.raises(IntegrityError, match="symlink escape"):
        workspace.render(f"{kind.value}:x")


# --- what Rye writes ------------------------------------------------------------------------------
# A folder of the project leads elsewhere: to user space, which gives rights, or to other programs'
# files. What Rye itself writes is not confined: it goes from the project down, through no link.

TOOL = """\
version: "1.0.0"
tool_type: bash
executor_id: rye/core/runtimes/bash/bash
category: mine
description: says hello
config: {command: "echo hello"}
"""
GRAPH = """\
version: "1.0.0"
tool_type: graph
executor_id: rye/core/runtimes/state-graph/runtime
category: mine
description: says hello
permissions: ["rye.execute.*"]
config:
  start: one
  nodes:
    one: {action: {item_id: "tool:mine/x"}, next: two}
    two: {type: return}
"""
COMMANDS: dict[str, tuple[str, list[str]]] = {
    "new": (".ai/tools/mine", ["new", "tool", "mine/new"]),
    "init": (".ai/tools", ["init", "--project", "."]),
    "init of the ignore list": (".ai", ["init", "--project", "."]),
    "load": (".ai/tools", ["load", "tool:rye/bash/bash", "--to", "project"]),
    "load over another": (".ai/tools/mine", ["load", "tool:mine/y", "--to", "project"]),
    "sign": (".ai/tools/mine", ["sign", "tool:mine/x", "--force", "--yes"]),
    "sign's lock": (".ai/state", ["sign", "tool:mine/x", "--force", "--yes"]),
    "import": (".ai/tools", ["import", ".mcp.json", "--yes"]),
    "mcp add": (".ai/tools", ["mcp", "add", "there", "--", "python3", "server.py"]),
    "mv from": (".ai/tools/mine", ["mv", "mine/x", "yours/x"]),
    "mv to": (".ai/tools/yours", ["mv", "mine/x", "yours/x"]),
    "rm": (".ai/tools/mine", ["rm", "mine/x", "--yes"]),
    "lock": (".ai/lockfiles", ["lock", "update", "mine/x"]),
    "run of a graph": (".ai/state", ["run", "mine/graph"]),
    "run in the background": (".ai/state", ["run", "mine/x", "--async"]),
    "mcp install": (
        ".cursor",
        ["mcp", "install", "cursor", "--scope", "project", "--program", "p"],
    ),
}


@pytest.fixture
def shop(tmp_path: Path, bundle: Space) -> CommandLine:
    """A project with a signed tool and a signed graph."""
    cli = CommandLine(tmp_path, bundle)
    assert cli("init", "--project", ".").status == 0
    for folder in ("yours", "mine"):
        (cli.project / ".ai/tools" / folder).mkdir()
    for name, text in (("x", TOOL), ("graph", GRAPH)):
        (cli.project / f".ai/tools/mine/{name}.yaml").write_text(text, "utf-8")
        assert cli("sign", f"tool:mine/{name}", "--yes").status == 0
    (cli.home / ".ai/tools/mine").mkdir()
    (cli.home / ".ai/tools/mine/y.yaml").write_text(TOOL, "utf-8")
    assert cli("sign", "tool:mine/y", "--space", "user", "--yes").status == 0
    for name in ("lockfiles", "state"):
        (cli.project / ".ai" / name).mkdir(exist_ok=True)
    (cli.project / ".cursor").mkdir()
    (cli.project / "p").write_text("", "utf-8")
    server = {"command": "python3", "args": ["server.py"]}
    settings = json.dumps({"mcpServers": {"there": server}})
    (cli.project / ".mcp.json").write_text(settings, "utf-8")
    return cli


def led_away(project: Path, place: str, elsewhere: Path) -> Path:
    """Have a folder of the project lead elsewhere, to all that it contained."""
    elsewhere.mkdir(exist_ok=True)
    target = elsewhere / "theirs"
    (project / place).rename(target)
    (project / place).symlink_to(target)
    return target


def contents(folder: Path) -> dict[str, bytes | None]:
    return {str(p): p.read_bytes() if p.is_file() else None for p in folder.rglob("*")}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_writes_through_no_link(shop: CommandLine, name: str) -> None:
    place, words = COMMANDS[name]
    target = led_away(shop.project, place, shop.home / "elsewhere")
    before = contents(target)

    done = shop(*words)

    assert contents(target) == before
    assert done.status != 0, done.stdout + done.stderr
    said = done.stderr + done.stdout
    named = (f"{shop.project / place}: a link to {target}", "found a link", "symlink escape")
    assert any(words in said for words in (*named, "leads outside")), said


@pytest.mark.parametrize("name", sorted(COMMANDS.keys() - {"mcp install"}))
def test_a_command_writes_nothing_where_all_of_the_items_lead_elsewhere(
    shop: CommandLine, name: str
) -> None:
    target = led_away(shop.project, ".ai", shop.home / "elsewhere")
    before = contents(target)

    done = shop(*COMMANDS[name][1])

    assert contents(target) == before
    assert done.status != 0, done.stdout


Write = Callable[[Workspace], object]


def sign_content(workspace: Workspace) -> object:
    """`sign` with `content`, as an agent calls it."""
    text = TOOL.replace("mine", "agents")
    return sign(workspace.rye(), {"item_id": "tool:agents/policy", "content": text})


def load_copy(workspace: Workspace) -> object:
    """`load` with a destination, as an agent calls it."""
    return load(workspace.rye(), {"item_id": "tool:rye/bash/bash", "destination": "project"})


def keep_output(workspace: Workspace) -> object:
    """What is too long for an answer."""
    return tool_result({"status": "success", "data": "x" * 200_000}, workspace.context())


def stream(workspace: Workspace) -> object:
    """A sink of the http client, at a path of the tool's choice."""
    destination = StreamDestination("file", ".ai/state/authorized_keys", format="raw")
    config = StreamConfig(destinations=(destination,))
    for sink in open_sinks(config, workspace.project_path):
        sink.write("ssh-ed25519 AAAA agent")
        sink.close()
    return None


def follow_run(workspace: Workspace) -> object:
    """The registry and the folder of a run in the background."""
    registry = ThreadRegistry(threads_place(workspace.context().spaces))
    registry.register(Thread(thread_id="mine-1", directive="mine/x"))
    write_document(registry, "mine-1")
    return None


def record_run(workspace: Workspace) -> object:
    """The transcript and the states of a graph's run."""
    identity = RunIdentity(run_id="mine-1-00ff", graph_id="mine/b", graph_hash="a" * 64)
    place = run_place(workspace.context().spaces)
    return RunRecords.create(place, identity, state={}, current_node="one")


def write_run_page(workspace: Workspace) -> object:
    """The knowledge item about a graph's run."""
    page = RunPage(
        graph_id="mine/b",
        run_id="mine-1-00ff",
        version="1.0.0",
        status="running",
        started=0,
        updated=0,
        nodes=(),
        history=(),
    )
    return write_page(run_place(workspace.context().spaces), page, None)


def keep_outputs_of_node(workspace: Workspace) -> object:
    """What a run on a node left."""
    data = b"from a node"
    left = OutputsBundle("t", "", {".ai/state/cache.txt": sha256_hex(data)})
    book = workspace.project.space.ai / "state/remote/node/outputs.json"
    return write_outputs(workspace.project_path, left, lambda _: data, book, workspace.folder)


def keep_conflict(workspace: Workspace) -> object:
    """The versions of a file that could not be merged."""
    ConflictFolder(workspace.project.space.ai, "node").keep(OURS, "config.yaml", b"x")
    return None


def remember_merged_run(workspace: Workspace) -> object:
    """What was merged of a node's runs."""
    MergedRuns(ConflictFolder(workspace.project.space.ai, "node")).add("a" * 64)
    return None


def pull_file(workspace: Workspace) -> object:
    """A file of a pushed tree, put into its place."""
    data = b"pulled"
    change = FileChange(".ai/tools/mine/pulled.yaml", None, sha256_hex(data))
    return apply_changes(workspace.project_path, [change], lambda _: data, workspace.folder)


def lock_registry_item(workspace: Workspace) -> object:
    """What came from a registry."""
    entry = LockEntry(
        ref=ItemRef(Kind.TOOL, "mine/x"),
        version="1.0.0",
        path="tools/mine/x.yaml",
        registry="https://registry.example",
        text_hash="a" * 64,
        fingerprint="a" * 16,
        author="ada",
        pulled_at="2026-01-02T03:04:05Z",
    )
    RegistryLock(workspace.project.space).put(entry)
    return None


WRITERS: dict[Write, tuple[str, ...]] = {
    sign_content: (".ai/tools", ".ai"),
    load_copy: (".ai/tools", ".ai"),
    keep_output: (".ai/state/outputs", ".ai/state", ".ai"),
    stream: (".ai/state", ".ai"),
    follow_run: (".ai/state/threads", ".ai/state", ".ai"),
    record_run: (".ai/state/graphs", ".ai/state/objects", ".ai/state", ".ai"),
    write_run_page: (".ai/knowledge/state", ".ai/knowledge", ".ai"),
    keep_outputs_of_node: (".ai/state", ".ai"),
    keep_conflict: (".ai/state/remote", ".ai/state", ".ai"),
    remember_merged_run: (".ai/state/remote", ".ai/state", ".ai"),
    pull_file: (".ai/tools/mine", ".ai/tools", ".ai"),
    lock_registry_item: (".ai/state", ".ai"),
}


@pytest.mark.parametrize(
    ("write", "place"),
    [(write, place) for write, places in WRITERS.items() for place in places],
    ids=lambda value: value if isinstance(value, str) else value.__name__,
)
def test_the_server_and_the_engine_write_through_no_link(
    workspace: Workspace, write: Write, place: str
) -> None:
    save_keypair(workspace.context().key_directory, workspace.keypair)
    (workspace.project_path / place).mkdir(parents=True, exist_ok=True)
    target = led_away(workspace.project_path, place, workspace.folder / "elsewhere")
    before = contents(target)

    with suppress(LilluxError):
        answer = write(workspace)
        # What a node left is reported file by file; a long answer is cut where it cannot be kept.
        said = json.dumps(answer.envelope if isinstance(answer, Answer) else answer, default=str)
        said = str(answer.kept) if isinstance(answer, Outputs) else said
        assert "a link to" in said

    assert contents(target) == before


@pytest.mark.parametrize("write", WRITERS, ids=lambda write: write.__name__)
def test_the_same_is_written_where_no_link_stands(workspace: Workspace, write: Write) -> None:
    save_keypair(workspace.context().key_directory, workspace.keypair)
    before = contents(workspace.project_path)

    write(workspace)

    assert contents(workspace.project_path).keys() > before.keys()


def test_the_user_space_of_dotfiles_may_be_a_link(shop: CommandLine) -> None:
    led_away(shop.home, ".ai/tools", shop.home / "dotfiles")
    led_away(shop.home, ".ai", shop.home / "more-dotfiles")

    assert shop("new", "tool", "mine/own", "--space", "user").status == 0
    assert shop("sign", "tool:mine/own", "--space", "user", "--yes").status == 0
