"""``rye remote ...`` against a real node, as a user types it."""

import os
import re
import signal
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from sqlalchemy import func, select

from lillux.key_files import load_keypair
from rye_services.storage.database import Database, threads
from ryeos.items.refs import Space
from ryeos.remote.node import Node as RemoteNode
from tests.support.command_line import CommandLine, program_of
from tests.support.endings import wait_until
from tests.support.node import Node, running_node
from tests.support.terminal import Terminal

pytest_plugins = ("tests.support.node",)

HELLO = """\
# version: 1.0.0
# tool_type: bash
# category: mine
# description: Says something
mkdir -p src
echo made > src/made.txt
echo "hello $1"
"""


GRAPH = """\
version: "1.0.0"
tool_type: graph
executor_id: rye/core/runtimes/state-graph/runtime
category: mine
description: a graph of one call
permissions: ["rye.execute.*"]
config:
  start: hello
  nodes:
    hello: {action: {item_id: "tool:mine/hello"}, next: done}
    done: {type: return, output: {}}
"""


class User:
    """A command line whose default remote is a node that knows its key."""

    def __init__(self, folder: Path, bundle: Space, node: Node, like: "User | None" = None) -> None:
        folder.mkdir(exist_ok=True)
        self.cli = CommandLine(folder, bundle)
        if like is None:
            self.cli.json("keys", "generate")
            node.user(keypair=load_keypair(self.cli.key_directory))
        else:
            self.cli.json("keys", "import", like.cli.key_directory / "private_key.pem")
        self.cli.json("remote", "add", "default", node.url)
        self.write(".ai/config/cas/manifest.yaml", "sync: {include: ['src/']}\n")

    def write(self, path: str, text: str) -> None:
        target = self.cli.project / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")

    def read(self, path: str) -> str:
        return (self.cli.project / path).read_text(encoding="utf-8")


@pytest.fixture
def user(tmp_path: Path, bundle: Space, shared_node: Node) -> User:
    return User(tmp_path / "here", bundle, shared_node)


@pytest.fixture
def other(tmp_path: Path, bundle: Space, shared_node: Node, user: User) -> User:
    """The same user on another machine."""
    return User(tmp_path / "there", bundle, shared_node, like=user)


def test_a_push_reports_its_result(user: User) -> None:
    user.write("src/a.txt", "a\n")

    first, second = user.cli.json("remote", "push"), user.cli("remote", "push")

    assert first["status"] == "success"
    assert first["ref_published"]
    assert first["objects_synced"] == first["total_objects"]
    assert second.stdout == f"project on default: {first['snapshot_hash'][:12]}, nothing new\n"
    third = user.cli.json("remote", "push")
    assert (third["ref_published"], third["head_moved"]) == (True, False)


class Repository:
    """A project with files beside ``.ai``, some of which git ignores, and no rules of its own."""

    def __init__(self, folder: Path, bundle: Space, node: Node) -> None:
        self.user = User(folder, bundle, node)
        (self.user.cli.project / ".ai/config/cas/manifest.yaml").unlink()
        for path in ("README.md", "src/a.py", "src/gen/x.py", "build/out", "a.log", ".env"):
            self.user.write(path, f"{path}\n")
        self.user.write(".gitignore", "build/\n*.log\n")
        self.user.write("src/.gitignore", "gen\n")

    TRAVELS = (".gitignore", "README.md", "src/.gitignore", "src/a.py")

    def files_there(self, folder: Path, bundle: Space, node: Node) -> list[str]:
        """What a second machine of this user gets of the project, but ``.ai``."""
        other = User(folder, bundle, node, like=self.user)
        accepted = ("--accept", ".gitignore", "--accept", "src/.gitignore")
        other.write(".ai/config/cas/manifest.yaml", self.rules)
        other.cli.json("remote", "pull", *accepted)
        project = other.cli.project
        found = (path.relative_to(project) for path in project.rglob("*") if path.is_file())
        return sorted(str(path) for path in found if path.parts[0] != ".ai")

    @property
    def rules(self) -> str:
        return self.user.read(".ai/config/cas/manifest.yaml")


@pytest.fixture
def repository(tmp_path: Path, bundle: Space, shared_node: Node) -> Repository:
    return Repository(tmp_path / "here", bundle, shared_node)


def test_a_push_takes_the_repository_but_what_git_ignores_when_that_is_asked_for(
    repository: Repository, tmp_path: Path, bundle: Space, shared_node: Node
) -> None:
    cli = repository.user.cli

    first = cli("remote", "push", "--repository")
    repository.user.write("src/b.log", "later\n")
    second = cli("remote", "push")
    again = cli("remote", "push", "--repository")

    assert first.status == 0, first.stderr
    assert "nothing new" in second.stdout
    assert again.status == 2
    assert ".ai/config/cas/manifest.yaml: says already which files travel" in again.stderr
    there = repository.files_there(tmp_path / "there", bundle, shared_node)
    assert there == list(Repository.TRAVELS)


def test_a_run_on_the_node_leaves_out_what_git_ignores_as_well(repository: Repository) -> None:
    user = repository.user
    user.write(
        ".ai/tools/mine/make.sh",
        SPEAKING.replace("echo said", "mkdir -p build; echo 1 > build/new; echo 2 > src/new.py"),
    )
    user.cli.json("sign", "tool:mine/make")
    user.cli.json("remote", "push", "--repository")

    ran = user.cli.json("run", "mine/make", "--target", "remote")

    assert ran["remote"]["applied"] == ["src/new.py"]


def test_a_person_is_asked_at_the_first_push_and_not_again(
    repository: Repository, tmp_path: Path
) -> None:
    cli = repository.user.cli
    program = str(program_of(cli, tmp_path))

    with Terminal([program, "remote", "push"], cli.env, cli.project) as terminal:
        asked = terminal.type("", until="[y/N]")
        terminal.type("y\r", until="objects sent")
        status = terminal.status()

    assert status == 0
    assert "Take the other files too, but what .gitignore names (4 files, 0.0 MB)?" in asked
    assert "gitignore: true" in repository.rules
    assert "only .ai travels" not in cli("remote", "push").stderr


def test_a_first_push_without_a_terminal_takes_ai_alone_and_says_so(
    repository: Repository,
) -> None:
    first, second = (repository.user.cli("remote", "push") for _ in range(2))

    assert "only .ai travels; with the other 4 files, 0.0 MB: rye remote push --repository" in (
        first.stderr
    )
    assert second.stderr == ""


def test_a_run_reports_the_merge_before_it(user: User, other: User) -> None:
    user.write(".ai/tools/mine/hello.sh", HELLO)
    user.cli.json("sign", "tool:mine/hello")
    user.write("src/a.txt", "a\n")
    user.write("src/b.txt", "b\n")
    user.cli.json("remote", "push")
    other.cli.json("remote", "pull")
    other.write("src/a.txt", "theirs\n")
    other.write("src/c.txt", "c\n")
    (other.cli.project / "src/b.txt").unlink()
    other.cli.json("remote", "push")

    done = user.cli("run", "mine/hello", "--target", "remote")

    assert done.status == 0, done.stderr
    assert "merged in from default:\n  ~ src/a.txt\n  - src/b.txt\n  + src/c.txt\n" in done.stderr


def test_force_reports_the_replaced_snapshot(user: User, other: User) -> None:
    user.write("src/a.txt", "a\n")
    user.cli.json("remote", "push")
    other.cli.json("remote", "pull")
    other.write("src/a.txt", "theirs\n")
    other.write("src/b.txt", "b\n")
    head = other.cli.json("remote", "push")["snapshot_hash"]

    done = user.cli("remote", "push", "--force")

    assert done.stderr == (
        f"replaced {head[:12]}; it stays in the history of default; others had done:\n"
        "  ~ src/a.txt\n  + src/b.txt\n"
    )


def test_files_that_no_longer_travel_stop_a_push_and_are_marked(user: User) -> None:
    user.write("src/a.txt", "a\n")
    user.cli.json("remote", "push")
    user.write(".ai/config/cas/manifest.yaml", "sync: {include: ['lib/']}\n")

    stopped, compared = user.cli("remote", "push"), user.cli("remote", "diff")
    dropped = user.cli("remote", "push", "--drop-excluded")

    assert stopped.status == 7
    assert "1 of the files that were pushed are here, but no longer travel: src/a.txt" in (
        stopped.stderr
    )
    assert "x    src/a.txt\n" in compared.stdout
    assert dropped.status == 0


def test_rules_that_cannot_be_read_stop_a_push(user: User) -> None:
    user.cli.json("remote", "push")
    user.write(".ai/config/cas/manifest.yaml", "sync: [\n")

    done = user.cli("remote", "push")

    assert done.status == 6
    assert "manifest.yaml" in done.stderr
    assert "hint: correct it: it says which files travel" in done.stderr


def test_a_pull_says_which_files_it_wrote(user: User, other: User) -> None:
    user.write("src/a.txt", "a\n")
    user.cli.json("remote", "push")

    done = other.cli("remote", "pull")

    assert done.stdout == "+ src/a.txt\n"
    assert other.read("src/a.txt") == "a\n"


def test_a_pull_before_the_first_push_is_no_error(user: User) -> None:
    done = user.cli("remote", "pull")

    assert done.status == 0
    assert done.stdout == "default has no project 'project' yet; next: rye remote push\n"


def test_content_is_fetched_by_its_digest(user: User) -> None:
    pushed = user.cli.json("remote", "push")

    fetched = user.cli.json("remote", "pull", pushed["snapshot_hash"])

    assert fetched["hashes"] == [pushed["snapshot_hash"]]
    assert user.cli("remote", "pull", "nonsense").status == 2

    unknown = user.cli("remote", "pull", "0" * 64)
    assert unknown.status == 3
    assert f"not there: {'0' * 64}" in unknown.stderr


def test_conflicts_are_reported_and_settled(user: User, other: User) -> None:
    for path in ("src/a.txt", "src/b.txt", "src/c.txt"):
        user.write(path, "base\n")
    user.cli.json("remote", "push")
    other.cli.json("remote", "pull")
    for path in ("src/a.txt", "src/b.txt", "src/c.txt"):
        user.write(path, "here\n")
        other.write(path, "there\n")
    other.cli.json("remote", "push")

    refused = user.cli("remote", "push")
    assert refused.status == 7
    assert "changed here and there: src/a.txt (both changed it), src/b.txt (both" in refused.stderr
    differences = user.cli("remote", "diff")
    assert differences.stdout == "~ ~  src/a.txt\n~ ~  src/b.txt\n~ ~  src/c.txt\n"

    (user.cli.project / "merged").write_text("both\n", encoding="utf-8")
    user.cli.json("remote", "resolve", "src/a.txt", "--theirs")
    user.cli.json("remote", "resolve", "src/b.txt", "--ours")
    left = user.cli.json("remote", "resolve", "src/c.txt", "--merged", "merged")
    assert left["conflicts"] == []
    user.cli.json("remote", "push")
    other.cli.json("remote", "pull")

    assert [other.read(f"src/{name}.txt") for name in "abc"] == ["there\n", "here\n", "both\n"]


@pytest.mark.parametrize(
    "arguments",
    [
        ("src/a.txt",),
        ("src/a.txt", "--ours", "--theirs"),
        ("src/a.txt", "src/b.txt", "--merged", "x"),
        ("src/a.txt", "--merged", "nowhere"),
    ],
)
def test_a_settlement_has_to_be_clear(user: User, arguments: tuple[str, ...]) -> None:
    assert user.cli("remote", "resolve", *arguments).status == 2


def test_a_file_without_a_conflict_is_not_settled(user: User) -> None:
    done = user.cli("remote", "resolve", "src/a.txt", "--ours")

    assert done.status == 3
    assert done.stderr == (
        "error: src/a.txt: in no conflict with remote default\n"
        "  hint: there are no conflicts to settle\n"
    )


def test_a_tool_runs_on_the_node(user: User) -> None:
    user.write(".ai/tools/mine/hello.sh", HELLO)
    user.cli.json("sign", "tool:mine/hello")

    done = user.cli("remote", "execute", "mine/hello", "name=Ann", "--params", '{"a": 1}')

    assert (done.status, done.stdout) == (0, 'hello {"a": 1, "name": "Ann"}\n'), done.stderr
    assert user.read("src/made.txt") == "made\n"
    threads = user.cli.json("remote", "threads")["threads"]
    assert [row["state"] for row in threads] == ["completed"]
    shown = user.cli("remote", "thread", threads[0]["thread_id"])
    assert "completed" in shown.stdout
    assert re.search(r"created_at: +\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC\n", shown.stdout)
    assert not re.search(r"\dT\d\d:", shown.stdout)
    history = user.cli("remote", "history").stdout.splitlines()
    assert [line.split()[4] for line in history] == ["execution", "push"]


def test_a_graph_that_ran_there_can_be_shown_and_has_a_page(user: User) -> None:
    user.write(".ai/tools/mine/hello.sh", HELLO)
    user.write(".ai/tools/mine/far.yaml", GRAPH)
    user.cli.json("sign", "tool:mine/*", "--yes")

    ran = user.cli.json("remote", "execute", "mine/far", "--resign")

    (ref,) = [path for path in ran["remote"]["outputs_materialized"] if "/refs/graphs/" in path]
    run_id = ref.rpartition("/")[2].removesuffix(".json")
    assert user.cli("graph", "show", "mine/far", "--run", run_id, "--mermaid").status == 0
    (page,) = (user.cli.project / ".ai/knowledge/state").rglob(f"{run_id}.md")
    assert user.cli("verify", page).status == 0


def test_items_that_a_node_signs_count_once_its_key_for_items_is_trusted(user: User) -> None:
    user.write(".ai/tools/mine/hello.sh", HELLO)
    user.write(".ai/tools/mine/far.yaml", GRAPH)
    user.cli.json("sign", "tool:mine/*", "--yes")
    user.cli.json("remote", "execute", "mine/far")
    (page,) = (user.cli.project / ".ai/knowledge/state").rglob("*.md")
    assert user.cli("verify", page).stdout.startswith("untrusted-key")

    unasked = user.cli("remote", "trust-items")
    trusted = user.cli.json("remote", "trust-items", "--yes")

    assert (unasked.status, trusted["space"]) == (4, "project")
    assert trusted["fingerprint"] != trusted["node_id"].removeprefix("fp:")
    assert user.cli("verify", page).status == 0
    user.cli.json("keys", "untrust", trusted["fingerprint"])
    assert user.cli("verify", page).stdout.startswith("untrusted-key")


def test_run_with_a_target_is_the_same(user: User) -> None:
    user.write(".ai/tools/mine/hello.sh", HELLO)
    user.cli.json("sign", "tool:mine/hello")

    envelope = user.cli.json("run", "mine/hello", "--target", "remote:default")

    assert envelope["execution_mode"] == "remote"
    assert envelope["remote"]["merge_type"] == "fast-forward"
    assert envelope["remote"]["applied"] == ["src/made.txt"]


def test_a_background_run_can_be_shown(user: User) -> None:
    user.write(".ai/tools/mine/hello.sh", HELLO)
    user.cli.json("sign", "tool:mine/hello")

    started = user.cli.json("run", "mine/hello", "--target", "remote", "--async")

    row = user.cli.json("remote", "thread", started["thread_id"])["thread"]
    assert row["thread_id"] == started["thread_id"]


def test_an_unsigned_item_is_not_even_pushed(user: User) -> None:
    user.write(".ai/tools/mine/hello.sh", HELLO)

    done = user.cli("remote", "execute", "mine/hello")

    assert done.status == 4
    assert user.cli("remote", "history").status == 7


@pytest.mark.parametrize("target", ["far", "remote:", "remotes:x"])
def test_an_invalid_target_is_refused(user: User, target: str) -> None:
    assert user.cli("run", "rye/bash/bash", "command=true", "--target", target).status == 2


def test_a_dry_run_is_made_here(user: User) -> None:
    done = user.cli("run", "rye/bash/bash", "command=true", "--target", "remote", "--dry-run")

    assert done.status == 2


def test_a_remote_that_is_mistyped_is_guessed(user: User) -> None:
    done = user.cli("remote", "push", "--remote", "defualt")

    assert done.status == 3
    assert "did you mean default?" in done.stderr


def test_the_status_sends_no_request(user: User, shared_node: Node) -> None:
    user.write("src/a.txt", "a\n")
    before = user.cli.json("remote", "status")
    user.cli.json("remote", "push")
    after = user.cli("remote", "status")

    assert before["remotes"]["default"]["snapshot_hash"] is None
    assert (
        after.stdout.splitlines()[1] == f"  default      pushed                   {shared_node.url}"
    )


def test_a_renamed_folder_is_no_new_project_on_the_node(user: User) -> None:
    user.cli.json("remote", "push")
    user.write(".ai/config/remotes/remotes.yaml", "project_path: gard2\n")

    stopped, status = user.cli("remote", "push"), user.cli("remote", "status")
    row = user.cli.json("remote", "status")["remotes"]["default"]
    begun = user.cli("remote", "push", "--new-project")

    assert stopped.status == 7
    assert "was pushed as 'project', and is called 'gard2' now" in stopped.stderr
    assert "pushed as project" in status.stdout
    assert (row["pushed_as"], row["project_path"], row["is_pushed"]) == ("project", "gard2", False)
    assert begun.status == 0, begun.stderr


@pytest.mark.parametrize("thread", ["../health", "a b", "%2e%2e"])
def test_an_id_is_no_path(user: User, thread: str) -> None:
    assert user.cli("remote", "thread", thread).status == 2


def test_no_progress_is_shown_without_a_terminal(user: User) -> None:
    assert user.cli("remote", "push").stderr == ""


@pytest.fixture
def seen_folder() -> Iterator[Path]:
    """A folder that a run sees, also where it is a user of its own."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder


SLOW = """\
# version: 1.0.0
# tool_type: bash
# category: mine
# description: Says something
mkdir -p src
echo run > src/a.txt
echo made > src/made.txt
while ! [ -e "$GO" ]; do sleep 0.02; done
"""


@pytest.mark.skipif(os.name == "nt", reason="the tool is for POSIX")
def test_a_conflict_made_on_the_node_is_settled_here(user: User, seen_folder: Path) -> None:
    user.write(".ai/tools/mine/slow.sh", SLOW.replace("$GO", str(seen_folder / "go")))
    user.write("src/a.txt", "base\n")
    user.cli.json("sign", "tool:mine/slow")
    thread = user.cli.json("remote", "execute", "mine/slow", "--async")["thread_id"]
    user.write("src/a.txt", "here\n")
    user.cli.json("remote", "push")
    (seen_folder / "go").touch()
    wait_until(lambda: user.cli.json("remote", "thread", thread)["thread"]["state"] != "running")

    threads = user.cli("remote", "threads")
    assert threads.stdout.rstrip().endswith(f"{thread}  not merged")
    refused = user.cli("remote", "pull", "--thread", thread)
    assert refused.status == 7
    assert "src/a.txt (both changed it)" in refused.stderr
    assert "  src/a.txt: both changed it\n" in user.cli("remote", "diff").stderr
    settled = user.cli("remote", "resolve", "src/a.txt", "--theirs")
    assert settled.stdout == "settled src/a.txt: both changed it\n"
    pushed = user.cli.json("remote", "push")

    assert pushed["pulled"] == ["src/made.txt"]
    assert (user.read("src/a.txt"), user.read("src/made.txt")) == ("run\n", "made\n")
    threads = user.cli("remote", "threads")
    assert threads.stdout.rstrip().endswith(f"{thread}  merged here")
    assert "not merged" not in threads.stderr
    again = user.cli("remote", "pull", "--thread", thread)
    assert again.status == 0, again.stderr
    assert again.stdout == f"{thread} was merged here before: nothing to do\n"
    assert "to merge it once more: rye remote pull --thread " in again.stderr
    assert user.cli.json("remote", "pull", "--thread", thread)["was_merged"]
    assert user.cli("remote", "pull", "--thread", "a b").status == 2


@pytest.mark.skipif(os.name == "nt", reason="no such names there")
def test_names_of_files_steer_no_terminal(user: User) -> None:
    user.write("src/\x1b[31mred\n\u202etxt.a", "a\n")

    done = user.cli("remote", "push")

    assert {"\x1b", "\u202e"}.isdisjoint(done.stdout + done.stderr)
    assert r"src/\u001b[31mred\u000a\u202etxt.a: stays here" in done.stderr, done


# ------------------------------------------------------------------ refused before anything is sent

PINNED = """\
__version__ = "1.0.0"
__tool_type__ = "python"
__executor_id__ = "rye/core/runtimes/python/script"
__category__ = "mine"
__tool_description__ = "Takes a number"
CONFIG_SCHEMA = {"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}}
print("ran")
"""

DO = """\
# Do it

```xml
<directive name="do" version="1.0.0">
  <metadata>
    <description>Do it.</description>
    <category>mine</category>
    <author>me</author>
    <permissions/>
  </metadata>
  <inputs>
    <input name="what" type="string" required="true">What.</input>
  </inputs>
</directive>
```

Do {input:what}.
"""

THERE = pytest.mark.parametrize(
    "there",
    [("remote", "execute"), ("run", "--target", "remote")],
    ids=["remote execute", "run --target"],
)


def nothing_was_sent(user: User) -> bool:
    """Whether the node has neither the project nor a run of it."""
    threads = user.cli.json("remote", "threads")["threads"]
    return not threads and user.cli("remote", "history").status == 7


@THERE
def test_a_tool_that_differs_from_its_lockfile_is_refused_here(
    user: User, there: tuple[str, ...]
) -> None:
    user.write(".ai/tools/mine/w.py", PINNED)
    user.cli.json("sign", "tool:mine/w")
    lockfile = Path(user.cli.json("lock", "update", "mine/w")["path"])
    pinned = lockfile.read_bytes()
    user.write(".ai/tools/mine/w.py", PINNED + "# changed\n")
    user.cli.json("sign", "tool:mine/w")
    lockfile.write_bytes(pinned)

    here, done = user.cli("run", "mine/w", "n:=1"), user.cli(*there, "mine/w", "n:=1")

    assert (done.status, done.stderr) == (5, here.stderr)
    assert nothing_was_sent(user)


@THERE
@pytest.mark.parametrize("given", [(), ("n=many",)])
def test_wrong_parameters_are_refused_here(
    user: User, there: tuple[str, ...], given: tuple[str, ...]
) -> None:
    user.write(".ai/tools/mine/w.py", PINNED)
    user.cli.json("sign", "tool:mine/w")

    here, done = user.cli("run", "mine/w", *given), user.cli(*there, "mine/w", *given)

    assert (done.status, done.stderr) == (6, here.stderr)
    assert nothing_was_sent(user)


@THERE
def test_a_graph_without_its_inputs_is_refused_here(user: User, there: tuple[str, ...]) -> None:
    schema = "config_schema: {type: object, required: [word]}\nconfig:\n"
    user.write(".ai/tools/mine/hello.sh", HELLO)
    user.write(".ai/tools/mine/far.yaml", GRAPH.replace("config:\n", schema))
    user.cli.json("sign", "tool:mine/*", "--yes")

    here, done = user.cli("run", "mine/far"), user.cli(*there, "mine/far")

    assert (done.status, done.stderr) == (6, here.stderr)
    assert nothing_was_sent(user)


@THERE
def test_a_directive_without_its_inputs_is_refused_here(user: User, there: tuple[str, ...]) -> None:
    user.write(".ai/directives/mine/do.md", DO)
    user.cli.json("sign", "directive:mine/do")

    here, done = user.cli("run", "directive:mine/do"), user.cli(*there, "directive:mine/do")

    assert (done.status, done.stderr) == (6, here.stderr)
    assert nothing_was_sent(user)


def test_a_directive_that_is_not_to_be_forked_is_refused_here(user: User) -> None:
    user.write(".ai/directives/mine/do.md", DO)
    user.cli.json("sign", "directive:mine/do")

    done = user.cli("remote", "execute", "directive:mine/do", "what=it", "--thread", "inline")

    assert done.status == 2
    assert "a directive is forked on a node" in done.stderr
    assert nothing_was_sent(user)


# ------------------------------------------------------------------ output and ends of runs

SPEAKING = """\
# version: 1.0.0
# tool_type: bash
# category: mine
# description: Says something
echo said
echo boom >&2
exit "${FAILS:-0}"
"""

WAITING = """\
__version__ = "1.0.0"
__tool_type__ = "python"
__executor_id__ = "rye/core/runtimes/python/script"
__category__ = "mine"
__tool_description__ = "Runs until a file is there"
import json, pathlib, sys, time
given = json.load(sys.stdin)
print("began", file=sys.stderr, flush=True)
while not pathlib.Path(given["gate"]).exists():
    time.sleep(0.02)
sys.exit(given.get("status", 0))
"""


@pytest.fixture
def gate(user: User, seen_folder: Path) -> Path:
    """The tool ``mine/waiting`` runs until this file is there."""
    user.write(".ai/tools/mine/waiting.py", WAITING)
    user.cli.json("sign", "tool:mine/waiting")
    return seen_folder / "gate"


@THERE
@pytest.mark.parametrize("status", ["0", "3"])
def test_standard_error_of_a_tool_is_shown_as_of_a_run_here(
    user: User, there: tuple[str, ...], status: str
) -> None:
    user.write(".ai/tools/mine/speaking.sh", SPEAKING.replace("${FAILS:-0}", status))
    user.cli.json("sign", "tool:mine/speaking")

    done, here = user.cli(*there, "mine/speaking"), user.cli("run", "mine/speaking")

    assert (done.status, done.stdout) == (here.status, here.stdout)
    assert done.stderr == here.stderr
    assert "boom\n" in done.stderr


def test_standard_error_is_shown_beside_an_answer_in_json(user: User) -> None:
    user.write(".ai/tools/mine/speaking.sh", SPEAKING.replace("said", "'[1]'"))
    user.cli.json("sign", "tool:mine/speaking")

    done = user.cli("remote", "execute", "mine/speaking")

    assert (done.stdout, done.stderr) == ("[\n  1\n]\n", "boom\n")


@pytest.mark.heavy
def test_a_run_that_outlasts_the_wait_goes_on_there(user: User, gate: Path) -> None:
    user.cli.json("remote", "push")

    done = user.cli("remote", "execute", "mine/waiting", f"gate={gate}", "--timeout", "1")

    gate.touch()
    assert done.status == 124
    (row,) = user.cli.json("remote", "threads")["threads"]
    assert f"no result in time; {row['thread_id']} continues there" in done.stderr
    assert f"rye remote thread {row['thread_id']} --wait --remote default" in done.stderr
    assert user.cli("remote", "thread", row["thread_id"], "--wait").status == 0


def test_a_run_on_a_node_is_waited_for(user: User, gate: Path) -> None:
    started = user.cli.json("remote", "execute", "mine/waiting", f"gate={gate}", "--async")
    thread_id = started["thread_id"]

    early = user.cli("remote", "thread", thread_id, "--wait", "--timeout", "0.1")
    gate.touch()
    late = user.cli.json("remote", "thread", thread_id, "--wait")

    assert early.status == 124
    assert f"{thread_id} is still running after 0.1 s" in early.stderr
    assert late["thread"]["state"] == "completed"


def test_a_run_that_was_waited_for_and_failed_is_reported_by_the_status(
    user: User, gate: Path
) -> None:
    gate.touch()
    started = user.cli.json(
        "remote", "execute", "mine/waiting", f"gate={gate}", "status:=2", "--async"
    )

    done = user.cli("remote", "thread", started["thread_id"], "--wait")

    assert done.status == 1
    assert "error" in done.stdout


def test_output_of_a_run_on_a_node_is_shown_while_it_runs(user: User, gate: Path) -> None:
    started = user.cli.json("remote", "execute", "mine/waiting", f"gate={gate}", "--async")
    thread_id = started["thread_id"]
    wait_until(lambda: user.cli("remote", "logs", thread_id).stderr == "began\n")
    during = user.cli.json("remote", "logs", thread_id)
    gate.touch()

    followed = user.cli("remote", "logs", thread_id, "-f")

    assert [(one["stream"], one["text"]) for one in during["pieces"]] == [("stderr", "began\n")]
    assert (followed.status, followed.stdout, followed.stderr) == (0, "", "began\n")
    assert user.cli.json("remote", "thread", thread_id)["thread"]["state"] == "completed"


TELLING = """\
__version__ = "1.0.0"
__tool_type__ = "python"
__executor_id__ = "rye/core/runtimes/python/script"
__category__ = "mine"
__tool_description__ = "Says one line for each file that comes"
import json, pathlib, sys, time
folder = pathlib.Path(json.load(sys.stdin)["folder"])
for number in range(4):
    print(number, file=sys.stderr if number % 2 else sys.stdout, flush=True)
    while not (folder / str(number)).exists():
        time.sleep(0.02)
sys.exit(5)
"""


class Followed:
    """A program that runs ``mine/telling`` on the node, both of its streams in one file."""

    def __init__(self, user: User, folder: Path) -> None:
        user.write(".ai/tools/mine/telling.py", TELLING)
        user.cli.json("sign", "tool:mine/telling")
        self._folder, self._file = folder, folder / "written"
        program = program_of(user.cli, folder)
        with self._file.open("wb") as written:
            self._process = subprocess.Popen(
                [program, "run", "mine/telling", f"folder={folder}", "--target", "remote"],
                cwd=user.cli.project,
                env=user.cli.env,
                stdin=subprocess.DEVNULL,
                stdout=written,
                stderr=written,
            )

    @property
    def written(self) -> str:
        return self._file.read_text(encoding="utf-8")

    def go_on(self, number: int) -> None:
        (self._folder / str(number)).touch()

    def interrupt(self) -> None:
        self._process.send_signal(signal.SIGINT)

    def status(self) -> int:
        return self._process.wait(60)


def test_a_run_with_a_target_is_shown_while_it_runs(user: User, seen_folder: Path) -> None:
    followed = Followed(user, seen_folder)

    for number in range(4):
        seen = "".join(f"{one}\n" for one in range(number + 1))
        wait_until(lambda seen=seen: followed.written == seen)  # type: ignore[misc]
        followed.go_on(number)

    assert followed.status() == 1
    assert followed.written == "0\n1\n2\n3\nerror: mine/telling exited with code 5\n"


def test_an_interrupt_ends_the_run_on_the_node(user: User, seen_folder: Path) -> None:
    followed = Followed(user, seen_folder)
    wait_until(lambda: followed.written == "0\n")

    followed.interrupt()

    assert followed.status() == 130
    (row,) = user.cli.json("remote", "threads")["threads"]
    assert row["state"] == "cancelled"
    assert f"{row['thread_id']} is being ended" in followed.written
    assert "error: cancelled by " in followed.written


def test_a_followed_run_shows_what_the_log_of_the_node_had_no_room_for(user: User) -> None:
    user.write(".ai/tools/mine/much.sh", SPEAKING.replace("echo boom >&2", "seq 200000; echo end"))
    user.cli.json("sign", "tool:mine/much")

    there = user.cli("run", "mine/much", "--target", "remote")

    assert (there.status, there.stderr) == (0, "")
    assert there.stdout == user.cli("run", "mine/much").stdout


def test_a_node_that_lets_no_run_be_followed_shows_its_output_at_the_end(
    user: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RemoteNode, "keeps_answers", lambda _: False)
    user.write(".ai/tools/mine/speaking.sh", SPEAKING)
    user.cli.json("sign", "tool:mine/speaking")

    done = user.cli("run", "mine/speaking", "--target", "remote")

    assert (done.status, done.stdout, done.stderr) == (0, "said\n", "boom\n")


def test_a_run_on_a_node_is_cancelled(user: User, gate: Path) -> None:
    started = user.cli.json("remote", "execute", "mine/waiting", f"gate={gate}", "--async")
    thread_id = started["thread_id"]
    wait_until(lambda: user.cli("remote", "logs", thread_id).stderr == "began\n")

    done = user.cli("remote", "cancel", thread_id)

    assert (done.status, done.stdout) == (0, f"{thread_id} is being ended\n")
    assert user.cli("remote", "thread", thread_id, "--wait").status == 1
    assert user.cli("remote", "cancel", thread_id).stdout == f"{thread_id}: cancelled\n"
    assert user.cli("remote", "cancel", "nope").status == 3


def _count(database: Database) -> int:
    with database.reading() as connection:
        return connection.scalar(select(func.count()).select_from(threads)) or 0


@pytest.mark.heavy
def test_a_run_without_a_free_place_waits_there_and_is_answered(
    tmp_path: Path, seen_folder: Path, bundle: Space
) -> None:
    environ = {"RYE_NODE_MAX_CONCURRENT": "1", "RYE_NODE_QUEUE_WAIT_S": "0"}
    with running_node(tmp_path / "narrow", environ=environ) as node:
        user = User(tmp_path / "user", bundle, node)
        user.write(".ai/tools/mine/waiting.py", WAITING)
        user.write("src/a.txt", "a\n")
        user.cli.json("sign", "tool:mine/waiting")
        gates = [seen_folder / "first", seen_folder / "second"]
        gates[1].touch()
        first = user.cli.json("remote", "execute", "mine/waiting", f"gate={gates[0]}", "--async")
        database = Database(node.settings.database_url)

        def open_gate() -> None:
            wait_until(lambda: _count(database) == 2)
            gates[0].touch()

        with ThreadPoolExecutor(1) as pool:
            pool.submit(open_gate)
            answer = user.cli.json("remote", "execute", "mine/waiting", f"gate={gates[1]}")
        database.close()

    assert answer["status"] == "success"
    assert answer["execution_mode"] == "remote"
    assert answer["thread_id"] != first["thread_id"]


@pytest.mark.parametrize("options", [("--timeout", "1"), ("--wait", "--timeout", "-1")])
def test_a_limit_is_for_waiting(user: User, options: tuple[str, ...]) -> None:
    assert user.cli("remote", "thread", "x", *options).status == 2


def test_a_missing_run_is_reported(user: User) -> None:
    user.cli.json("remote", "push")

    done = user.cli("remote", "thread", "nope")

    assert done.status == 3
    assert done.stderr.startswith("error: remote default: no run nope\n")


def test_a_missing_secret_of_a_node_is_reported(user: User) -> None:
    user.write(".ai/tools/mine/hello.sh", HELLO)
    user.cli.json("sign", "tool:mine/hello")

    done = user.cli("remote", "execute", "mine/hello", "--vault-keys", "NOPE")

    assert done.status == 3
    assert "secret not found: 'NOPE'" in done.stderr
    assert "rye remote secrets list --remote default" in done.stderr


def test_pages_of_a_run_that_is_not_waited_for_cannot_be_signed(user: User) -> None:
    done = user.cli("remote", "execute", "mine/hello", "--async", "--resign")

    assert done.status == 2
    assert "--async, --resign: expected one of them" in done.stderr


def test_an_api_key_that_is_refused_is_named_by_its_variable(user: User, shared_node: Node) -> None:
    user.cli.json("remote", "add", "keyed", shared_node.url, "--key-env", "NODE_KEY")

    done = user.cli("remote", "threads", "--remote", "keyed", NODE_KEY="rye_wrong")

    assert done.status == 7
    assert "is the API key in NODE_KEY one of this node's" in done.stderr


def test_a_run_on_a_node_is_no_thread_of_this_machine(user: User) -> None:
    done = user.cli("threads", "wait", "rye-remote-tool:mine-train-1767323045000-0a1b2c")

    assert done.status == 3
    assert "rye remote thread rye-remote-tool:mine-train-1767323045000-0a1b2c" in done.stderr
