"""``rye threads`` of models: lists, logs, kill, branches, and what makes no sense of each."""

import json
import os
import shutil
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest

from tests.support.command_line import CommandLine, program_of
from tests.support.model_server import ModelServer, calls, events, words

DIRECTIVE = """# say

```xml
<directive name="say" version="1.0.0">
<metadata>
<description>test</description>
<category>ops</category>
<author>tester</author>
<model provider="lab" id="small"/>
<limits turns="3"/>
<permissions><execute><tool>ops.*</tool></execute></permissions>
</metadata>
</directive>
```

Say something.
"""
PROVIDER = """\
version: "1.0.0"
category: agent/providers
dialect: openai-chat
base_url: {url}
models:
  small: {{prices: {{input: 1000, output: 1000}}, context: 8000, features: [tools]}}
"""


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer(always=words("all is well", sent=1000, answered=200)) as running:
        yield running


@pytest.fixture
def ready(signer: CommandLine, server: ModelServer) -> CommandLine:
    """A user with a provider, and a project with a directive."""
    files = {
        signer.user_space.ai / "config" / "agent" / "providers" / "lab.yaml": PROVIDER.format(
            url=server.url
        ),
        signer.project / ".ai" / "directives" / "ops" / "say.md": DIRECTIVE,
    }
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
        assert signer("sign", path, "--yes").status == 0
    return signer


FORK = ("run", "directive:ops/say", "--fork")
STOPPED = calls(("load", {"item_id": "rye://thread/other/result/1"}), sent=1000, answered=200)


def forked(cli: CommandLine) -> str:
    """The id of a thread that ended."""
    return str(cli(*FORK, "--json").json["thread_id"])


@contextmanager
def running(cli: CommandLine, server: ModelServer) -> Iterator[str]:
    """A thread in another process of this test's making, whose model says half a sentence."""
    said, over = Event(), Event()

    def hold(_: BaseHTTPRequestHandler) -> None:
        said.set()
        over.wait(60)

    begun = json.dumps({"id": "c", "choices": [{"index": 0, "delta": {"content": "Half a"}}]})
    server.replies = [events([begun], then=hold)]
    with subprocess.Popen(
        [program_of(cli, cli.home.parent), *FORK, "--json"],
        env=cli.env,
        cwd=cli.project,
        stdout=subprocess.DEVNULL,
    ) as process:
        try:
            assert said.wait(60)
            (folder_of,) = (cli.user_space.ai / "state" / "agent" / "threads").iterdir()
            yield folder_of.name
            process.wait(60)
        finally:
            over.set()
            process.kill()


def test_a_list_shows_the_state_and_the_cost(ready: CommandLine) -> None:
    thread_id = forked(ready)

    done = ready("threads", "list")

    assert done.stdout.startswith("completed ")
    assert f"{thread_id}  0.0012 dollars, 1 turns" in done.stdout
    (row,) = ready.json("threads", "list")["threads"]
    assert (row["state"], row["turns"]) == ("completed", 1)


@pytest.mark.parametrize(
    ("options", "names"),
    [
        (("--model", "lab/small"), "--model"),
        (("--limit", "spend=0.5", "--limit", "turns=2"), "--limit"),
        (("--target", "remote", "--model", "fast", "--limit", "turns=1"), "--model, --limit"),
    ],
)
def test_options_of_a_thread_are_refused_of_a_run_without_one_with_the_line_that_has_one(
    ready: CommandLine, server: ModelServer, options: tuple[str, ...], names: str
) -> None:
    done = ready("run", "directive:ops/say", "what=two words", *options)

    assert done.status == 2
    assert f"error: {names}: expected beside --fork" in done.stderr
    line = f"rye run directive:ops/say 'what=two words' --fork {' '.join(options)}"
    assert done.stderr.splitlines()[1].endswith(line)
    assert not server.requests


def test_logs_of_a_thread_in_the_foreground_have_its_words(ready: CommandLine) -> None:
    thread_id = forked(ready)

    assert ready("threads", "logs", thread_id).stdout == "all is well\n"


@pytest.mark.parametrize("flags", [("-f", "--json"), ("--json",)])
def test_as_json_each_event_is_a_line_and_the_end_is_the_last(
    ready: CommandLine, flags: tuple[str, ...]
) -> None:
    thread_id = forked(ready)

    done = ready("threads", "logs", thread_id, *flags)

    kinds = [json.loads(line)["type"] for line in done.stdout.splitlines()]
    assert kinds == ["thread", "asked", "answered", "ended"]


def test_a_running_thread_is_listed_followed_and_killed_from_elsewhere(
    ready: CommandLine, server: ModelServer
) -> None:
    with running(ready, server) as thread_id:
        rows = ready.json("threads", "list", "--active")["threads"]
        log = ready("threads", "logs", thread_id).stdout
        refused = ready("threads", "resume", thread_id, "--json").json
        killed = ready.json("threads", "kill", thread_id)
    end = ready("threads", "logs", thread_id, "-f", "--json").stdout.splitlines()[-1]

    assert [(row["thread_id"], row["state"]) for row in rows] == [(thread_id, "running")]
    assert log == "Half a"
    assert refused["code"] == "CONFLICT"
    assert killed["killed"] is True
    assert json.loads(end)["state"] == "cancelled"
    assert ready.json("threads", "list")["threads"][0]["state"] == "cancelled"


def test_a_killed_thread_is_gone_on_with_and_not_killed_again(
    ready: CommandLine, server: ModelServer
) -> None:
    with running(ready, server) as thread_id:
        ready.json("threads", "kill", thread_id)

    resumed = ready.json("threads", "resume", thread_id)
    again = ready.json("threads", "kill", thread_id)

    assert (resumed["state"], resumed["text"]) == ("completed", "all is well")
    assert again["killed"] is False
    assert ready.json("threads", "list")["threads"][0]["status"] == "completed"


def test_a_branch_starts_a_new_thread_that_is_shown_as_one(
    ready: CommandLine, server: ModelServer
) -> None:
    server.replies = [STOPPED]
    old = forked(ready)

    done = ready("threads", "branch", old, "--turn", "1", "--say", "Go on.")

    assert done.status == 0, done.stderr
    assert done.stdout == "all is well\n"
    rows = ready.json("threads", "list")["threads"]
    assert len({row["thread_id"] for row in rows}) == 2


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (("show", "no-such-thing"), "thread not found"),
        (("logs", "no-such-thing"), "thread not found"),
        (("kill", "no-such-thing"), "thread not found"),
        (("resume", "no-such-thing"), "thread not found"),
        (("steer", "no-such-thing", "x"), "thread not found"),
        (("branch", "no-such-thing", "--turn", "1"), "thread not found"),
        (("resume", "ID"), "it is completed"),
        (("steer", "ID", "x"), "it has ended"),
        (("cancel", "ID"), "it has ended"),
        (("branch", "ID", "--turn", "7"), "(1 to 1), found 7"),
        (("branch", "ID", "--turn", "0"), "(1 to 1), found 0"),
        (("branch", "ID", "--turn", "x"), "invalid int value"),
        (("branch", "ID", "--turn", "1"), "nothing is left to do"),
        (("raise", "ID", "spend"), "expected NAME=N"),
        (("raise", "ID", "spend=lots"), "spend"),
        (("raise", "ID", "spend=0.1"), "it is completed"),
        (("raise", "ID", "money=3"), "money"),
        (("raise", "ID", "turns=-3"), "turns"),
        (("prune", "--older", "soon"), "expected a number with s, m, h or d"),
    ],
)
def test_what_makes_no_sense_is_refused_with_what_was_expected(
    ready: CommandLine, command: tuple[str, ...], said: str
) -> None:
    thread_id = forked(ready)

    done = ready("threads", *(thread_id if word == "ID" else word for word in command))

    assert done.status != 0
    assert said in done.stderr


def test_an_id_that_is_almost_right_gets_the_right_one(ready: CommandLine) -> None:
    thread_id = forked(ready)
    typed = f"{thread_id[:-1]}{'0' if thread_id[-1] != '0' else '1'}"

    for command in ("show", "logs", "kill", "resume"):
        assert f"did you mean {thread_id}?" in ready("threads", command, typed).stderr


def test_two_resumes_at_once_are_one(ready: CommandLine, server: ModelServer) -> None:
    server.always = STOPPED
    thread_id = forked(ready)
    server.always = words("all is well")
    assert ready("threads", "raise", thread_id, "turns=9").status == 0
    done: list[dict[str, Any]] = []

    argv: list[str | Path] = [
        program_of(ready, ready.home.parent),
        "threads",
        "resume",
        thread_id,
        "--json",
    ]

    def resume() -> None:
        ended = subprocess.run(
            argv, env=ready.env, cwd=ready.project, capture_output=True, check=False
        )
        done.append(json.loads(ended.stdout))

    both = [Thread(target=resume) for _ in range(2)]
    for one in both:
        one.start()
    for one in both:
        one.join()

    ends = sorted((one.get("state", ""), one.get("code", "")) for one in done)
    assert ends == [("", "CONFLICT"), ("completed", "")]
    assert sum(one.get("usage", {}).get("turns", 0) for one in done) == 4


def test_a_thread_of_another_project_is_shown_where_it_is(ready: CommandLine) -> None:
    thread_id = forked(ready)
    other = ready.home.parent / "other"
    (other / ".ai").mkdir(parents=True)

    logs = ready("threads", "logs", thread_id, cwd=other)
    resumed = ready("threads", "resume", thread_id, cwd=other)

    assert logs.stdout == "all is well\n"
    assert f"--project {ready.project}" in resumed.stderr


def test_a_dry_run_shows_the_model_the_limits_and_the_tools(
    ready: CommandLine, server: ModelServer
) -> None:
    done = ready(*FORK, "--dry-run", "--limit", "spend=0.25")

    lines = done.stdout.splitlines()
    assert lines[0] == "directive:ops/say would be carried out"
    assert lines[1] == "model:  lab/small"
    assert lines[2].startswith("limits: turns 3, tokens 200000")
    assert "spend 0.25" in lines[2]
    assert lines[3].startswith("tools:  ")
    assert not server.requests


def test_a_terminal_says_which_limit_holds_instead_of_a_higher_one(ready: CommandLine) -> None:
    here = ready(*FORK, "--limit", "turns=9")
    later = ready(*FORK, "--limit", "turns=9", "--async")
    ready("threads", "wait", later.stdout.strip())

    words_of_it = "limit turns: 3 holds, not 9: it is the limit of directive:ops/say"
    assert words_of_it in here.stderr
    assert f"warning: {words_of_it}" in later.stderr


# --- one thread, every face -----------------------------------------------------------------------


def journal_of(cli: CommandLine, thread_id: str) -> Path:
    return cli.user_space.ai / "state" / "agent" / "threads" / thread_id / "journal.jsonl"


ABOUT_ONE = [
    ("show",),
    ("show", "--transcript"),
    ("logs",),
    ("logs", "--json"),
    ("logs", "-f", "--json"),
    ("resume",),
    ("kill",),
    ("wait",),
    ("steer",),
]


def about(command: tuple[str, ...], thread_id: str) -> tuple[str, ...]:
    """The words of a command about this thread."""
    text = ("Leave the tests alone.",) if command == ("steer",) else ()
    return ("threads", command[0], thread_id, *text, *command[1:])


@pytest.mark.parametrize("command", ABOUT_ONE)
def test_every_command_says_that_a_journal_was_changed(
    ready: CommandLine, command: tuple[str, ...]
) -> None:
    thread_id = forked(ready)
    path = journal_of(ready, thread_id)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)

    done = ready(*about(command, thread_id))

    assert done.status == 4, done
    assert str(path) in done.stdout + done.stderr


def test_a_changed_journal_is_a_warning_of_a_list_and_hides_no_other_thread(
    ready: CommandLine,
) -> None:
    changed, other = forked(ready), forked(ready)
    path = journal_of(ready, changed)
    path.write_bytes(path.read_bytes().replace(b"all is well", b"all is lost"))

    done = ready("threads", "list")

    assert done.status == 0
    assert f"warning: {path}" in done.stderr
    rows = {line.split()[4]: line for line in done.stdout.splitlines()}
    assert rows[changed].startswith("error ")
    assert "(its journal was changed)" in rows[changed]
    assert rows[other].startswith("completed ")


def test_a_thread_whose_end_is_half_written_is_interrupted_everywhere_and_goes_on(
    ready: CommandLine,
) -> None:
    thread_id = forked(ready)
    path = journal_of(ready, thread_id)
    path.write_bytes(path.read_bytes()[:-10])

    listed = ready("threads", "list").stdout
    shown = ready.json("threads", "show", thread_id)["thread"]
    said = ready("threads", "show", thread_id, "--transcript").stdout
    waited = ready("threads", "wait", thread_id).stdout
    resumed = ready.json("threads", "resume", thread_id)

    assert listed.startswith("interrupted ")
    assert (shown["state"], shown["status"]) == ("interrupted", "error")
    assert 'state: "interrupted"' in said or "state: interrupted" in said
    assert waited.startswith("interrupted ")
    assert resumed["state"] == "completed"
    assert ready("threads", "list").stdout.startswith("completed ")


def test_a_pruned_thread_is_gone_from_every_command(ready: CommandLine) -> None:
    thread_id = forked(ready)
    here = ready.project / ".ai" / "state" / "threads"
    assert ready.json("threads", "prune", "--older", "1h")["removed"] == []

    pruned = ready.json("threads", "prune", "--older", "0s")

    assert pruned["removed"] == [thread_id]
    assert ready.json("threads", "list", "--all")["threads"] == []
    assert not (here / thread_id).exists()
    assert not journal_of(ready, thread_id).parent.exists()
    for command in ABOUT_ONE:
        done = ready(*about(command, thread_id))
        assert done.status == 3, (command, done)
        assert "thread not found" in done.stdout + done.stderr


def registry_of(cli: CommandLine) -> Path:
    return cli.project / ".ai" / "state" / "threads" / "registry.db"


def test_a_thread_whose_row_is_gone_is_listed_and_found_by_its_journal(
    ready: CommandLine,
) -> None:
    thread_id = forked(ready)
    (before,) = ready.json("threads", "list")["threads"]
    for path in registry_of(ready).parent.glob("registry.db*"):
        path.unlink()

    (row,) = ready.json("threads", "list")["threads"]
    shown = ready("threads", "list").stdout
    waited = ready("threads", "wait", thread_id[-4:], "--json")

    assert (row["thread_id"], row["state"], row["turns"]) == (thread_id, "completed", 1)
    assert row["created_at"][:16] == before["created_at"][:16]
    assert f"{thread_id}  0.0012 dollars, 1 turns" in shown
    assert ready.json("threads", "list", "--active")["threads"] == []
    assert waited.status == 0
    assert waited.json["threads"][0]["result"]["text"] == "all is well"


def test_a_list_has_rows_and_journals_in_one_order_and_only_of_its_project(
    ready: CommandLine,
) -> None:
    first, second = forked(ready), forked(ready)
    with sqlite3.connect(registry_of(ready)) as database:
        database.execute("DELETE FROM threads WHERE thread_id = ?", (first,))
    database.close()
    third = forked(ready)
    other = ready.home.parent / "other"
    (other / ".ai").mkdir(parents=True)

    rows = ready.json("threads", "list")["threads"]
    newest = ready.json("threads", "list", "--limit", "2")["threads"]

    assert [row["thread_id"] for row in rows] == [third, second, first]
    assert [row["thread_id"] for row in newest] == [third, second]
    assert ready("threads", "list", "--json", cwd=other).json["threads"] == []


def test_of_a_journal_that_has_no_row_the_beginning_alone_says_whose_it_is(
    ready: CommandLine,
) -> None:
    thread_id = forked(ready)
    other = ready.home.parent / "other"
    (other / ".ai").mkdir(parents=True)
    path = journal_of(ready, thread_id)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    for row in registry_of(ready).parent.glob("registry.db*"):
        row.unlink()

    here = ready("threads", "list")
    there = ready("threads", "list", cwd=other)

    assert here.stdout.startswith("error ")
    assert f"warning: {path}, line " in here.stderr
    assert "warning" not in there.stderr


@pytest.mark.parametrize("command", ABOUT_ONE)
def test_every_command_finds_a_thread_of_another_project_by_the_end_of_its_id(
    ready: CommandLine, command: tuple[str, ...]
) -> None:
    thread_id = forked(ready)
    other = ready.home.parent / "other"
    (other / ".ai").mkdir(parents=True)

    done = ready(*about(command, thread_id[-4:]), cwd=other)

    assert "thread not found" not in done.stdout + done.stderr
    if command[0] not in {"resume", "steer"}:  # of what is completed, and of another project
        assert done.status == 0, done


def test_a_thread_without_a_row_is_waited_for_until_its_process_ends_it(
    ready: CommandLine, server: ModelServer
) -> None:
    with running(ready, server) as thread_id:
        for path in registry_of(ready).parent.glob("registry.db*"):
            path.unlink()
        (active,) = ready.json("threads", "list", "--active")["threads"]
        early = ready("threads", "wait", thread_id, "--timeout", "0.1", "--json")
        ready("threads", "kill", thread_id)
        waited = ready("threads", "wait", thread_id, "--json")

    assert (active["thread_id"], active["state"]) == (thread_id, "running")
    assert early.status == 124
    assert waited.json["threads"][0]["state"] == "cancelled"


@pytest.mark.skipif(os.name == "nt", reason="links need a privilege there")
def test_a_link_among_the_threads_is_named_and_left_with_all_that_it_leads_to(
    ready: CommandLine,
) -> None:
    thread_id = forked(ready)
    folder = journal_of(ready, thread_id).parent
    elsewhere = ready.home.parent / "elsewhere"
    shutil.move(folder, elsewhere)
    folder.symlink_to(elsewhere)
    whole = folder.parent / "kept-1795870104410-a87c"
    whole.symlink_to(ready.project)
    before = {path: path.stat().st_mtime_ns for path in elsewhere.rglob("*")}

    pruned = ready("threads", "prune", "--older", "0s", "--json")

    assert pruned.json["removed"] == []
    for link in (folder, whole):
        assert link.is_symlink()
        assert f"{link}: a link, not a thread" in pruned.stderr
    assert {path: path.stat().st_mtime_ns for path in elsewhere.rglob("*")} == before
    for command in ABOUT_ONE:
        assert ready(*about(command, thread_id)).status != 0
    assert {path: path.stat().st_mtime_ns for path in elsewhere.rglob("*")} == before


def test_a_thread_is_pruned_in_the_project_that_it_is_of(ready: CommandLine) -> None:
    thread_id = forked(ready)
    other = ready.home.parent / "other"
    (other / ".ai").mkdir(parents=True)

    pruned = ready("threads", "prune", "--older", "0s", "--json", cwd=other)

    assert pruned.json["removed"] == [thread_id]
    assert ready.json("threads", "list", "--all")["threads"] == []


def test_a_row_that_is_left_of_a_pruned_thread_says_so_in_every_command(
    ready: CommandLine,
) -> None:
    thread_id = forked(ready)
    shutil.rmtree(journal_of(ready, thread_id).parent)  # as where the project was not there

    listed = ready("threads", "list")

    assert listed.stdout.startswith("pruned ")
    for command in ABOUT_ONE:
        done = ready(*about(command, thread_id))
        assert done.status == 3, (command, done)
        assert f"thread {thread_id}: it was pruned" in done.stdout + done.stderr
    assert ready.json("threads", "prune", "--older", "0s")["removed"] == [thread_id]
    assert ready.json("threads", "list", "--all")["threads"] == []


def test_a_thread_is_shown_in_words_and_names_only_what_is_there(
    ready: CommandLine, server: ModelServer
) -> None:
    server.replies = [STOPPED]
    thread_id = forked(ready)

    shown = ready("threads", "show", thread_id).stdout
    data = ready.json("threads", "show", thread_id)["thread"]

    lines = dict(line.split(": ", 1) for line in shown.splitlines() if ": " in line)
    assert lines["state"].strip() == "completed"
    assert lines["used"].strip().startswith("2 turns, 2400 tokens (2000 in, 400 out), 0.0024")
    assert lines["left"].strip().startswith("1 of 3 turns, ")
    assert lines["turn 1"].strip() == "1000 in, 200 out, 0.0012 dollars"
    assert "{" not in shown
    assert Path(data["log"]).read_text("utf-8").endswith("all is well\n")
    Path(data["log"]).unlink()
    assert "log" not in ready.json("threads", "show", thread_id)["thread"]


STEERING = "a\x1b[2Jb\rc\u202ed\u200be\u3000f"
HARMLESS = r"a\u001b[2Jb\u000dc\u202ed\u200be" + "\u3000f"


def test_what_a_model_says_is_shown_with_escapes_and_stays_as_it_is_in_json(
    ready: CommandLine, server: ModelServer
) -> None:
    server.always = words(STEERING)
    live = ready(*FORK).stdout
    answer = ready(*FORK, "--json").json
    thread_id = answer["thread_id"]

    assert answer["text"] == STEERING
    assert live == f"{HARMLESS}\n"
    assert ready("threads", "logs", thread_id).stdout == f"{HARMLESS}\n"
    shown = ready("threads", "show", thread_id).stdout
    assert HARMLESS in shown
    log = Path(ready.json("threads", "show", thread_id)["thread"]["log"])
    assert log.read_text("utf-8") == f"{HARMLESS}\n"
    log.write_text(f"{STEERING}\n", "utf-8")  # as an older version wrote it
    assert ready("threads", "logs", thread_id).stdout == f"{HARMLESS}\n"
    lines = ready("threads", "logs", thread_id, "--json").stdout.splitlines()
    assert json.loads(lines[-1])["text"] == STEERING


def test_a_ledger_that_was_removed_gives_no_money_again(ready: CommandLine) -> None:
    forked(ready)
    ledger = ready.user_space.ai / "state" / "agent" / "ledger.jsonl"
    ledger.unlink()

    models = ready("agent", "models", "--json")
    answer = ready(*FORK)
    after = ready("agent", "models", "--json")

    assert models.json["daily"]["left"] == "4.9988"
    assert f"{ledger}: it is not there" in models.stderr
    assert "the 0.0012 dollars that their journals say are counted again" in answer.stderr
    assert after.json["daily"]["left"] == "4.9976"
    assert "it is not there" not in after.stderr


@pytest.mark.parametrize("is_noted", [True, False])
def test_an_older_copy_of_the_ledger_gives_no_money_again(
    ready: CommandLine, *, is_noted: bool
) -> None:
    ledger = ready.user_space.ai / "state" / "agent" / "ledger.jsonl"
    forked(ready)
    older = ledger.read_bytes()
    forked(ready)
    ledger.write_bytes(older)
    if not is_noted:
        ledger.with_name("ledger.newest").unlink()

    models = ready("agent", "models", "--json")
    answer = ready(*FORK)
    after = ready("agent", "models", "--json")

    assert models.json["daily"]["left"] == "4.9976"
    assert f"{ledger}: it is an older copy" in models.stderr
    assert "the 0.0012 dollars that their journals say are counted again" in answer.stderr
    assert after.json["daily"]["left"] == "4.9964"
    assert "older copy" not in after.stderr


def test_a_removed_ledger_counts_a_call_without_an_answer_in_full_and_none_of_another_day(
    ready: CommandLine, server: ModelServer
) -> None:
    with running(ready, server) as thread_id:
        (ready.user_space.ai / "state" / "agent" / "ledger.jsonl").unlink()
        left = ready.json("agent", "models")["daily"]["left"]
        ready.json("threads", "kill", thread_id)
    asked = [
        json.loads(line)
        for line in ready("threads", "logs", thread_id, "--json").stdout.splitlines()
        if '"type": "asked"' in line
    ]
    worst = sum(one["input_tokens"] + one["output_tokens"] for one in asked)

    assert worst > 0
    assert left == f"{5 - worst / 1_000_000:.6f}".rstrip("0")
    (ready.user_space.ai / "state" / "agent" / "ledger.jsonl").unlink(missing_ok=True)
    path = journal_of(ready, thread_id)
    os.utime(path, (0, 0))  # nothing was written today
    assert ready.json("agent", "models")["daily"]["left"] == "5.00"
