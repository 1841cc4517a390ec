"""``rye threads`` without a runner: help, mistakes, an empty registry."""

import re

import pytest

from ryeos.app.commands import HIDDEN
from ryeos.run.threads.place import ThreadsPlace
from ryeos.run.threads.registry import ThreadRegistry
from ryeos.run.threads.thread import Status, Thread
from tests.support.command_line import CommandLine

ID = "mine/x/x-1-2-00aa"


@pytest.fixture
def registry(cli: CommandLine) -> ThreadRegistry:
    """The registry of the project."""
    cli.project_space.ai.mkdir()
    return ThreadRegistry(ThreadsPlace(cli.project_space.ai))


def add(registry: ThreadRegistry, thread_id: str, status: Status) -> None:
    """A thread that has come to this status."""
    registry.register(Thread(thread_id=thread_id, directive="mine/x"))
    registry.finish(thread_id, status, error="why" if status != Status.COMPLETED else None)


def test_no_help_names_the_command_that_runs_a_thread(cli: CommandLine) -> None:
    helped = cli("help").stdout + cli("help", "threads").stdout

    assert [entry.words for entry in HIDDEN if entry.words in helped] == []
    assert "threads wait" in helped


def test_the_command_that_runs_a_thread_takes_only_its_payload(cli: CommandLine) -> None:
    done = cli("_thread", "x-1", stdin=b"{}")

    error, _, hint = done.stderr.splitlines()
    assert (done.status, error) == (2, "error: standard input: expected the payload of a thread")
    assert hint.endswith("start a background run with: rye run REF --async")


def test_an_empty_list_names_the_searched_place_and_makes_no_file(cli: CommandLine) -> None:
    done = cli("threads", "list")

    folder = cli.user_space.ai / "state" / "threads"
    assert (done.status, done.stdout) == (0, "")
    assert done.stderr == f"no threads in {folder}\n"
    assert not folder.exists()


def test_a_list_has_the_requested_length(cli: CommandLine, registry: ThreadRegistry) -> None:
    for number in range(22):
        add(registry, f"mine/x/x-{number}", Status.COMPLETED)

    lengths = {
        options: len(cli.json("threads", "list", *options)["threads"])
        for options in ((), ("--all",), ("--limit", "3"), ("--active",))
    }

    assert lengths == {(): 20, ("--all",): 22, ("--limit", "3"): 3, ("--active",): 0}


@pytest.mark.parametrize(
    ("statuses", "status", "code"),
    [
        ((Status.COMPLETED, Status.COMPLETED), 0, None),
        ((Status.COMPLETED, Status.KILLED), 1, "EXECUTION_FAILED"),
        ((Status.COMPLETED_WITH_ERRORS,), 1, "EXECUTION_FAILED"),
        ((Status.RELEASED,), 1, "EXECUTION_FAILED"),
    ],
)
def test_waiting_succeeds_when_all_have_completed(
    statuses: tuple[Status, ...],
    status: int,
    code: str | None,
    cli: CommandLine,
    registry: ThreadRegistry,
) -> None:
    ids = [f"mine/x/x-{number}" for number in range(len(statuses))]
    for thread_id, ended in zip(ids, statuses, strict=True):
        add(registry, thread_id, ended)

    done = cli("threads", "wait", *ids, "--json")

    assert (done.status, done.json.get("code")) == (status, code)
    assert [one["status"] for one in done.json["threads"]] == list(statuses)


def test_one_that_still_runs_is_reported_before_one_that_failed(
    cli: CommandLine, registry: ThreadRegistry
) -> None:
    add(registry, "a", Status.ERROR)
    registry.register(Thread(thread_id="b", directive="mine/x"))

    done = cli("threads", "wait", "a", "b", "--timeout", "0", "--json")

    assert (done.status, done.json["code"]) == (124, "TIMEOUT")
    assert done.json["error"] == "still running after 0 s: b"


def test_a_mistyped_id_gets_a_suggestion(cli: CommandLine, registry: ThreadRegistry) -> None:
    add(registry, ID, Status.COMPLETED)

    done = cli("threads", "show", "x-1-2-00ab")

    assert done.status == 3
    assert done.stderr.endswith(f"  hint: did you mean {ID}?\n")


def test_a_shown_thread_has_its_fields_and_the_end_of_its_log(
    cli: CommandLine, registry: ThreadRegistry
) -> None:
    add(registry, ID, Status.ERROR)
    registry.place.make_thread_folder(ID)
    registry.place.file(ID, "spawn.log").write_bytes(b"a line\n" + b"\xff\n")

    shown = cli.json("threads", "show", "00aa")
    logs = cli.json("threads", "logs", "00aa")

    assert (shown["thread"]["status"], shown["thread"]["error"]) == ("error", "why")
    assert shown["result"] is None
    assert (logs["log"], logs["truncated"]) == ("a line\n\N{REPLACEMENT CHARACTER}\n", False)
    assert logs["path"] == shown["thread"]["log"]


def test_times_of_a_thread_are_for_people_but_in_json(
    cli: CommandLine, registry: ThreadRegistry
) -> None:
    add(registry, ID, Status.COMPLETED)

    text = cli("threads", "show", ID).stdout
    row = cli.json("threads", "show", ID)["thread"]

    times = re.findall(r"(?:created|updated|completed) at: +(.+)", text)
    assert len(times) == 3
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC", one) for one in times)
    assert "T" in row["created_at"]


def test_following_is_for_people(cli: CommandLine, registry: ThreadRegistry) -> None:
    add(registry, ID, Status.COMPLETED)

    done = cli("threads", "logs", ID, "--follow", "--json")

    assert (done.status, done.json["error"]) == (2, "--follow, --json: expected one of them")
