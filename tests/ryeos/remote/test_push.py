import json
from collections.abc import Callable

import pytest

from lillux.digests import sha256_hex
from lillux.store_layout import ObjectKind
from ryeos.items.errors import RyeError, error_envelope
from ryeos.remote.apply import AppliedChanges
from ryeos.remote.difference import ADDED, CHANGED
from ryeos.remote.errors import (
    HeadMovedError,
    ProjectRenamedError,
    RemoteConflictError,
    RemoteError,
)
from ryeos.remote.pull import pull
from ryeos.remote.push import MAX_CHANGED_BYTES, ROUNDS, pause_s, push
from ryeos.remote.transport import NodeReply
from tests.ryeos.remote.conftest import MakeProject
from tests.support.errors import coded
from tests.support.memory_node import MemoryNode, reply
from tests.support.remote_project import RemoteProject

TOOL = ".ai/tools/mine/hello.py"


def test_after_a_push_the_node_has_the_files_of_the_project(
    project: RemoteProject, memory_node: MemoryNode
) -> None:
    project.write({TOOL: "print(1)\n", "src/a.txt": "a\n"})

    pushed = push(project.link)

    assert memory_node.files() == project.files()
    assert pushed.snapshot_hash == memory_node.heads["project"]
    assert pushed.is_new
    assert pushed.objects_sent == pushed.objects_total


def test_a_push_without_changes_sends_two_requests_and_no_push(
    project: RemoteProject, memory_node: MemoryNode
) -> None:
    first = push(project.link)
    memory_node.requests.clear()

    second = push(project.link)

    assert second.snapshot_hash == first.snapshot_hash
    assert not second.is_new
    assert memory_node.requests == ["GET /public-key", "GET /history"]


def test_only_objects_missing_on_the_node_are_sent(project: RemoteProject) -> None:
    project.write({TOOL: "print(1)\n"})
    push(project.link)
    project.write({"src/new.txt": "new\n"})

    pushed = push(project.link)

    assert pushed.objects_sent == 2  # the file and the manifest


def test_one_changed_file_is_pushed_in_one_request(
    project: RemoteProject, memory_node: MemoryNode
) -> None:
    memory_node.takes_changes = True
    project.write({f"src/{number}.txt": f"{number}\n" for number in range(100)})
    project.write_user(".ai/tools/mine/own.py", "print(1)\n")
    push(project.link)
    project.write({"src/1.txt": "changed\n"})
    memory_node.requests.clear()
    memory_node.bodies.clear()

    pushed = push(project.link)

    assert memory_node.requests == ["GET /public-key", "GET /history", "POST /push"]
    assert len(json.dumps(memory_node.bodies[-1])) < 1000  # whatever the project has
    assert memory_node.files() == project.files()
    assert pushed.is_new
    assert pushed.objects_sent == 2  # the file and the manifest


def test_items_files_and_removals_are_pushed_in_one_request(
    project: RemoteProject, memory_node: MemoryNode
) -> None:
    memory_node.takes_changes = True
    project.write({TOOL: "print(1)\n", "src/a.txt": "a\n", "src/b.txt": "b\n"})
    push(project.link)
    project.write({TOOL: "print(2)\n", "src/a.txt": None, "src/c.txt": "c\n"})
    memory_node.requests.clear()

    push(project.link)

    assert memory_node.count("POST /objects/put") == 0
    assert memory_node.files() == project.files()


@pytest.mark.parametrize("status", [400, 413])
def test_a_refused_single_request_falls_back_to_steps(
    project: RemoteProject, memory_node: MemoryNode, status: int
) -> None:
    memory_node.takes_changes = True
    project.write({"src/a.txt": "a\n"})
    push(project.link)
    project.write({"src/a.txt": "b\n"})
    refusals = [reply({"detail": "no such manifest"}, status)]
    memory_node.before = lambda _, path: refusals.pop() if path == "/push" and refusals else None

    push(project.link)

    assert memory_node.files() == project.files()
    assert memory_node.count("POST /objects/put") == 2  # of the first push, and of this one


def test_large_changes_are_sent_in_parts(project: RemoteProject, memory_node: MemoryNode) -> None:
    memory_node.takes_changes = True
    project.write({"src/a.txt": "a\n"})
    push(project.link)
    project.write({"src/large.txt": "x" * (MAX_CHANGED_BYTES + 1)})
    memory_node.requests.clear()

    push(project.link)

    assert memory_node.count("POST /objects/has") == 1
    assert memory_node.count("POST /objects/put") == 1
    assert memory_node.files() == project.files()


def test_a_head_that_moves_before_one_request_is_merged_in(
    project: RemoteProject, memory_node: MemoryNode
) -> None:
    memory_node.takes_changes = True
    project.write({"src/a.txt": "a\n"})
    push(project.link)
    project.write({"src/a.txt": "ours\n"})
    moves = [{"src/theirs.txt": b"theirs\n"}]

    def move(_: str, path: str) -> None:
        if path == "/push" and moves:
            memory_node.edit(moves.pop())

    memory_node.before = move

    pushed = push(project.link, sleep=lambda _: None)

    assert pushed.merged.added == ("src/theirs.txt",)
    assert memory_node.files() == project.files()


def test_the_user_space_is_pushed_once(project: RemoteProject, memory_node: MemoryNode) -> None:
    project.write_user(".ai/tools/mine/own.py", "print(1)\n")

    assert push(project.link).is_user_space_new
    assert not push(project.link).is_user_space_new

    assert memory_node.user is not None
    assert memory_node.user[1] == 1
    assert memory_node.count("POST /push/user-space") == 1


def test_a_change_of_the_user_space_only_is_pushed(
    project: RemoteProject, memory_node: MemoryNode
) -> None:
    push(project.link)
    project.write_user(".ai/tools/mine/own.py", "print(1)\n")

    assert push(project.link).is_user_space_new

    assert memory_node.user is not None


def test_another_users_change_is_merged_in_first(
    project: RemoteProject, memory_node: MemoryNode
) -> None:
    project.write({"src/a.txt": "a\n", "src/b.txt": "b\n"})
    push(project.link)
    memory_node.edit({"src/a.txt": b"theirs\n", "src/c.txt": b"c\n"})
    project.write({"src/b.txt": "ours\n"})

    pushed = push(project.link)

    assert pushed.merged == AppliedChanges(("src/a.txt", "src/c.txt"), added=("src/c.txt",))
    assert project.reported == [("default", pushed.merged)]
    assert project.read("src/a.txt") == "theirs\n"
    assert memory_node.files() == project.files()
    assert project.files()["src/b.txt"] == b"ours\n"


def test_a_removal_on_the_node_removes_here(
    project: RemoteProject, memory_node: MemoryNode
) -> None:
    project.write({"src/deep/a.txt": "a\n", "src/b.txt": "b\n"})
    push(project.link)
    memory_node.edit({"src/deep/a.txt": None})

    push(project.link)

    assert project.read("src/deep/a.txt") is None
    assert not (project.root / "src/deep").exists()


def test_texts_that_both_changed_apart_are_merged(
    project: RemoteProject, memory_node: MemoryNode
) -> None:
    lines = "".join(f"{number}\n" for number in range(20))
    project.write({"src/a.txt": lines})
    push(project.link)
    memory_node.edit({"src/a.txt": lines.replace("2\n", "two\n", 1).encode()})
    project.write({"src/a.txt": lines.replace("19\n", "nineteen\n")})

    push(project.link)

    merged = project.read("src/a.txt")
    assert merged == lines.replace("2\n", "two\n", 1).replace("19\n", "nineteen\n")
    assert memory_node.files()["src/a.txt"].decode() == merged


def test_a_conflict_changes_no_file_and_keeps_all_versions(
    project: RemoteProject, memory_node: MemoryNode
) -> None:
    project.write({"src/a.txt": "base\n", "src/b.txt": "b\n"})
    push(project.link)
    head = memory_node.edit({"src/a.txt": b"theirs\n", "src/b.txt": b"new\n"})
    project.write({"src/a.txt": "ours\n"})
    before = project.files()

    with pytest.raises(RemoteConflictError) as error:
        push(project.link)

    assert error.value.paths == ("src/a.txt",)
    assert project.files() == before
    assert memory_node.heads["project"] == head
    kept = project.root / ".ai/state/remote/default/conflicts"
    versions = {name: (kept / name / "src/a.txt").read_text("utf-8") for name in _VERSIONS}
    assert versions == {"base": "base\n", "ours": "ours\n", "theirs": "theirs\n"}


_VERSIONS = ("base", "ours", "theirs")


def test_force_replaces_changes_of_others(project: RemoteProject, memory_node: MemoryNode) -> None:
    project.write({"src/a.txt": "base\n"})
    push(project.link)
    theirs = memory_node.edit({"src/a.txt": b"theirs\n", "src/more.txt": b"more\n"})
    project.write({"src/a.txt": "ours\n"})

    pushed = push(project.link, force=True)

    assert memory_node.files() == project.files()
    snapshot = memory_node.store.get_object(pushed.snapshot_hash)
    assert snapshot["parent_hashes"] == [theirs]
    assert pushed.replaced is not None
    assert pushed.replaced.snapshot_hash == theirs
    assert [(one.path, one.there) for one in pushed.replaced.differences or ()] == [
        ("src/a.txt", CHANGED),
        ("src/more.txt", ADDED),
    ]


def test_force_without_changes_of_others_replaces_no_file(project: RemoteProject) -> None:
    push(project.link)
    project.write({"src/a.txt": "ours\n"})

    assert push(project.link, force=True).replaced is None


def test_merged_changes_are_reported_even_if_the_push_fails(
    project: RemoteProject, memory_node: MemoryNode
) -> None:
    push(project.link)
    memory_node.edit({"src/theirs.txt": b"theirs\n"})
    project.write({"src/ours.txt": "ours\n"})
    broken = reply({"detail": "broken"}, 500)
    memory_node.before = lambda _, path: broken if path == "/objects/put" else None

    with pytest.raises(RemoteError) as error:
        push(project.link)

    assert project.read("src/theirs.txt") == "theirs\n"
    assert [applied.added for _, applied in project.reported] == [("src/theirs.txt",)]
    assert error_envelope(error.value)["merged"] == ["src/theirs.txt"]
    assert error_envelope(error.value)["http_status"] == 500


def test_a_push_that_fails_before_merging_reports_no_merge(
    project: RemoteProject, memory_node: MemoryNode
) -> None:
    memory_node.before = lambda _, path: (
        reply({"detail": "broken"}, 500) if path == "/push" else None
    )

    with pytest.raises(RemoteError) as error:
        push(project.link)

    assert "merged" not in error_envelope(error.value)


def test_another_project_of_the_same_name_is_not_merged_in(
    project: RemoteProject, memory_node: MemoryNode
) -> None:
    memory_node.edit({"src/foreign.txt": b"x\n"})
    before = project.files()

    with pytest.raises(RyeError, check=coded("REMOTE_UNRELATED")):
        push(project.link)

    assert project.files() == before


def test_a_project_that_was_renamed_is_not_pushed_as_another(
    project: RemoteProject, memory_node: MemoryNode
) -> None:
    push(project.link)
    project.name = "gard2"

    with pytest.raises(ProjectRenamedError, match=r"'project'.*'gard2'") as error:
        push(project.link)

    assert "set project_path: project in" in error.value.hint
    assert memory_node.heads.keys() == {"project"}
    push(project.link, is_new_project=True)
    push(project.link)
    assert memory_node.heads.keys() == {"project", "gard2"}


def test_a_copy_of_the_project_can_push_at_once(
    project: RemoteProject, make_project: MakeProject, memory_node: MemoryNode
) -> None:
    push(project.link)
    copy = make_project("there")

    pushed = push(copy.link)

    assert not pushed.is_new
    assert pushed.snapshot_hash == memory_node.heads["project"]


def test_two_machines_that_push_in_turn_have_the_same_files(
    project: RemoteProject, make_project: MakeProject, memory_node: MemoryNode
) -> None:
    push(project.link)
    other = make_project("there")
    pull(other.link)
    project.write({"src/here.txt": "1\n"})
    other.write({"src/there.txt": "2\n"})

    push(project.link)
    push(other.link)
    push(project.link)

    assert project.files() == other.files() == memory_node.files()


def slept(pauses: list[float]) -> Callable[[float], None]:
    """Records the pauses instead of sleeping."""
    return pauses.append


def test_pauses_between_attempts_grow_and_stay_short() -> None:
    longest = [max(pause_s(number) for _ in range(200)) for number in range(1, 9)]

    for number, pause in enumerate(longest, 1):
        assert min(2.0, 0.125 * 2**number) < pause <= min(4.0, 0.25 * 2**number)


def test_a_head_that_moves_meanwhile_is_merged(
    project: RemoteProject, memory_node: MemoryNode
) -> None:
    push(project.link)
    project.write({"src/here.txt": "1\n"})
    moves = iter([{"src/there.txt": b"2\n"}])

    def move(_: str, path: str) -> None:
        if path == "/push":
            for changes in moves:
                memory_node.edit(changes)

    memory_node.before = move

    push(project.link, sleep=slept([]))

    assert project.files() == memory_node.files()
    assert project.read("src/there.txt") == "2\n"


def test_a_head_that_moves_all_the_time_is_an_error(
    project: RemoteProject, memory_node: MemoryNode
) -> None:
    push(project.link)
    project.write({"src/here.txt": "1\n"})
    numbers = iter(range(100))

    def move(_: str, path: str) -> None:
        if path == "/push":
            memory_node.edit({f"src/{next(numbers)}.txt": b"x\n"})

    memory_node.before = move
    pauses: list[float] = []

    with pytest.raises(HeadMovedError):
        push(project.link, sleep=slept(pauses))

    assert len(pauses) == ROUNDS - 1


def test_an_interrupted_push_continues(project: RemoteProject, memory_node: MemoryNode) -> None:
    project.write({f"src/{number}.txt": f"{number}\n" for number in range(1200)})
    puts = iter([None, reply({"detail": "gone"}, 500)])
    memory_node.before = lambda _, path: next(puts, None) if path == "/objects/put" else None
    with pytest.raises(RemoteError):
        push(project.link)

    pushed = push(project.link)

    assert pushed.objects_sent <= pushed.objects_total - 500
    assert memory_node.files() == project.files()


def test_a_too_large_file_is_reported_before_an_upload(
    project: RemoteProject, memory_node: MemoryNode
) -> None:
    project.write({"src/large.txt": bytes(38 * 1024 * 1024)})

    with pytest.raises(Exception, match=r"src/large\.txt: expected at most") as error:
        push(project.link)

    assert getattr(error.value, "code", "") == "RESOURCE_EXCEEDED"
    assert memory_node.count("POST /objects/put") == 0


def test_a_node_that_does_not_confirm_stored_objects_is_reported(
    project: RemoteProject, memory_node: MemoryNode
) -> None:
    memory_node.before = lambda _, path: reply({"stored": []}) if path == "/objects/put" else None

    with pytest.raises(Exception, match="to be stored as well"):
        push(project.link)


def test_an_unpinned_node_gets_no_further_request(
    project: RemoteProject, memory_node: MemoryNode, tmp_path: object
) -> None:
    push(project.link)
    impostor = MemoryNode(project.root.parent / "impostor")
    project.memory = impostor

    with pytest.raises(Exception, match="expected the node fp:"):
        push(project.link)

    assert impostor.requests == ["GET /public-key"]


def test_progress_is_reported_from_start_to_end(project: RemoteProject) -> None:
    pushed = push(project.link)

    total = pushed.objects_total
    assert project.progress[0] == ("comparing", 0, total)
    assert project.progress[-1] == ("sending", total, total)


def test_the_reason_of_a_refused_push_is_shown(
    project: RemoteProject, memory_node: MemoryNode
) -> None:
    refusal: NodeReply = reply({"detail": "version 9 does not fit"}, 409)
    memory_node.before = lambda _, path: refusal if path == "/push" else None

    with pytest.raises(RemoteError, match="refused with status 409: version 9 does not fit"):
        push(project.link)


def test_only_changed_objects_are_looked_up(
    project: RemoteProject, memory_node: MemoryNode
) -> None:
    project.write({f"src/{number}.txt": f"{number}\n" for number in range(50)})
    push(project.link)
    project.write({"src/7.txt": "seven\n", TOOL: "print(1)\n"})
    memory_node.bodies.clear()

    pushed = push(project.link)

    (requested,) = [body["hashes"] for body in memory_node.bodies if set(body) == {"hashes"}]
    assert len(requested) == 5  # the file, the item and its bytes, both manifests
    assert pushed.objects_sent == 4
    assert memory_node.files() == project.files()


def test_a_node_that_lost_content_gets_it_again(
    project: RemoteProject, memory_node: MemoryNode
) -> None:
    project.write({"src/a.txt": "a\n", "src/b.txt": "b\n"})
    push(project.link)
    memory_node.store.remove(ObjectKind.BLOB, sha256_hex(b"a\n"))
    project.write({"src/b.txt": "new\n"})

    push(project.link)

    assert memory_node.files() == project.files()
