"""Runs that are recorded, cut off anywhere, and loaded again."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lillux.digests import sha256_hex
from lillux.errors import FileSystemError
from lillux.signing import generate_keypair
from lillux.store_errors import ObjectChangedError
from ryeos.graph.errors import RunIdError, RunPlaceError, TranscriptError
from ryeos.graph.loaded_runs import LoadedRun, load_run, receipts_of
from ryeos.graph.run_objects import Receipt
from ryeos.graph.run_places import RunPlace, run_id_for, valid_run_id
from ryeos.graph.run_store import INLINE_BYTES, CheckpointPace, RunIdentity, RunRecords, StepRecord
from ryeos.graph.transcript import CHECKPOINT
from ryeos.items.errors import RyeError
from ryeos.items.refs import USER, Space
from ryeos.trust.signing_key import SigningKey
from tests.support.errors import coded
from tests.support.workspace import fixed_clock

ROOT = Path(__file__).resolve().parents[3]
RUN, GRAPH_HASH = "mine-build-1763725437000-00ff", "a" * 64
PAIR = generate_keypair()
KEY = SigningKey(PAIR, fixed_clock)
links = pytest.mark.skipif(sys.platform == "win32", reason="links need a privilege there")


@pytest.fixture
def place(tmp_path: Path) -> RunPlace:
    """A space without any run."""
    return RunPlace(Space(USER, tmp_path))


def trusted(fingerprint: str) -> bytes | None:
    return PAIR.public_pem if fingerprint == KEY.fingerprint else None


def begun(place: RunPlace, *, key: SigningKey | None = KEY, every: int = 3) -> RunRecords:
    return RunRecords.create(
        place,
        RunIdentity(run_id=RUN, graph_id="mine/build", graph_hash=GRAPH_HASH),
        state={"inputs": {"x": 1}, "done": []},
        current_node="n1",
        key=key,
        pace=CheckpointPace(every, 1e9),
        clock=fixed_clock,
    )


def take_step(records: RunRecords, number: int, *, filler: str = "") -> None:
    result = records.put_result({"value": number})
    records.event("step_started", {"step": number, "node": f"n{number}"})
    records.step(
        StepRecord(
            step=number,
            node=f"n{number}",
            next_node=f"n{number + 1}",
            state={"inputs": {"x": 1}, "done": list(range(1, number + 1)), "filler": filler},
            receipts=(Receipt(node_input_hash="b" * 64, node_result_hash=result),),
            suppressed=({"node": f"n{number}", "message": "bad"},) if number % 2 else (),
        )
    )


def recorded(place: RunPlace, steps: int, *, key: SigningKey | None = KEY) -> None:
    with begun(place, key=key) as records:
        for number in range(1, steps + 1):
            take_step(records, number)


def transcript(place: RunPlace) -> Path:
    return place.runs / RUN / "transcript.jsonl"


def load(place: RunPlace) -> LoadedRun:
    return load_run(place, RUN, trusted)


def resume(place: RunPlace) -> tuple[RunRecords, LoadedRun]:
    return RunRecords.resume(
        place,
        RUN,
        trusted=trusted,
        allow=lambda _: None,
        key=KEY,
        pace=CheckpointPace(3, 1e9),
        clock=fixed_clock,
    )


# --- ids ------------------------------------------------------------------------------------------


def test_a_run_id_is_the_graphs_own_and_when_it_began() -> None:
    assert run_id_for("mine/build", epoch_ms=1763725437000, chance=b"\x00\xff") == RUN


@pytest.mark.parametrize("run_id", ["", "../x", "a/b", ".x", "x" * 201, "c:x", "a\n"])
def test_an_id_that_cannot_be_a_folder_is_refused(run_id: str) -> None:
    with pytest.raises(RunIdError):
        valid_run_id(run_id)


@pytest.mark.property
@given(st.from_regex(r"[\w./ -]{1,300}", fullmatch=True))
def test_every_graphs_run_id_is_short_and_starts_with_no_dot(graph_id: str) -> None:
    run_id = run_id_for(graph_id, epoch_ms=1, chance=b"\x00\xff")

    assert not run_id.startswith(".")
    assert "/" not in run_id
    assert len(run_id.encode()) <= 200


# --- recording and loading ------------------------------------------------------------------------


@pytest.mark.parametrize("steps", [0, 1, 2, 3, 7, 40])
def test_a_run_that_was_killed_is_loaded_as_it_was_after_its_last_step(
    place: RunPlace, steps: int
) -> None:
    recorded(place, steps)

    run = load(place)

    assert (run.step, run.current_node, run.status) == (steps, f"n{steps + 1}", "running")
    assert run.state["done"] == list(range(1, steps + 1))
    assert run.graph_hash == GRAPH_HASH
    assert [error["node"] for error in run.errors] == [f"n{n}" for n in range(1, steps + 1, 2)]
    assert len(list(receipts_of(place.store(), run))) == steps
    assert run.unsigned_steps == steps % 3


def test_a_resumed_run_goes_on_where_it_was(place: RunPlace) -> None:
    recorded(place, 40)

    records, before = resume(place)
    take_step(records, 41)
    records.finish("completed", state={"done": "all"})

    run = load(place)
    store = place.store()
    assert before.step == 40
    assert (run.step, run.status, run.current_node) == (41, "completed", None)
    assert (run.unsigned_steps, run.warnings) == (0, ())
    assert len(list(receipts_of(store, run))) == 41
    assert store.read_ref(f"graphs/{RUN}") == {"hash": run.snapshot_hash}


def test_everything_that_the_ref_reaches_is_in_the_store(place: RunPlace) -> None:
    with begun(place) as records:
        for number in range(1, 41):
            take_step(records, number)
        records.finish("completed", state={})
    store = place.store()
    ref = store.read_ref(f"graphs/{RUN}")
    digest, seen = (ref or {})["hash"], 0
    while digest:
        snapshot = store.get_object(digest)
        for receipt in snapshot["node_receipts"]:
            store.get_object(store.get_object(receipt)["node_result_hash"])
            seen += 1
        digest = snapshot["previous"]

    assert seen == 40


def test_a_large_state_is_an_object_at_once(place: RunPlace) -> None:
    with begun(place) as records:
        take_step(records, 1, filler="x" * INLINE_BYTES)

    assert len(load(place).state["filler"]) == INLINE_BYTES
    assert transcript(place).stat().st_size < INLINE_BYTES


def test_the_same_state_is_stored_once(place: RunPlace) -> None:
    with begun(place, every=1) as records:
        for number in range(1, 11):
            records.step(StepRecord(step=number, node="n", next_node="n", state={"same": 1}))

    kinds = [json.loads(path.read_bytes())["kind"] for path in place.objects.rglob("*/*/*/*.json")]
    assert kinds.count("state_snapshot") == 2  # the first one has the inputs


def test_two_processes_never_record_one_run(place: RunPlace) -> None:
    with begun(place), pytest.raises(RyeError, check=coded("CONFLICT")):
        resume(place)


def test_a_run_id_is_used_once(place: RunPlace) -> None:
    recorded(place, 1)

    with pytest.raises(RyeError, check=coded("CONFLICT")):
        begun(place)


def test_a_run_without_records_cannot_be_resumed(place: RunPlace) -> None:
    with pytest.raises(RyeError, check=coded("RUN_NOT_FOUND")):
        resume(place)

    assert not place.runs.exists()


def test_a_run_that_failed_goes_on_at_the_node_that_failed(place: RunPlace) -> None:
    with begun(place) as records:
        take_step(records, 1)
        records.finish("error", state={"done": [1]}, current_node="n2", error="no")

    records, before = resume(place)
    records.close()

    assert (before.status, before.current_node) == ("error", "n2")
    assert load(place).status == "running"


# --- transcripts that are cut off -----------------------------------------------------------------


@pytest.mark.property
@given(data=st.data())
def test_a_transcript_that_is_cut_anywhere_gives_whole_steps(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    place = RunPlace(Space(USER, tmp_path_factory.mktemp("run")))
    recorded(place, 8)
    whole = transcript(place).read_bytes()
    cut = data.draw(st.integers(whole.index(b"\n", whole.index(b"state_check")) + 1, len(whole)))
    transcript(place).write_bytes(whole[:cut])
    done = whole[: whole.rfind(b"\n", 0, cut) + 1].count(b'"event_type":"state_checkpoint"') - 1

    records, before = resume(place)
    for number in range(before.step + 1, 10):
        take_step(records, number)
    records.close()

    events = [json.loads(line) for line in transcript(place).read_bytes().splitlines()]
    steps = [e["payload"]["step"] for e in events if e["event_type"] == "step_completed"]
    assert before.step == done
    assert before.state["done"] == list(range(1, done + 1))
    assert steps == list(range(1, 10))
    assert load(place).step == 9


def test_a_line_that_was_cut_short_is_reported(place: RunPlace) -> None:
    recorded(place, 3)
    with transcript(place).open("ab") as file:
        file.write(b'{"timest')

    assert load(place).warnings == (
        f"the transcript of run {RUN} was cut short: 8 bytes are left out",
    )


def test_a_step_that_a_loss_of_power_took_runs_again(place: RunPlace) -> None:
    with begun(place) as records:
        for number in range(1, 6):
            take_step(records, number, filler="x" * INLINE_BYTES)
    lost = load(place).snapshot.state_hash
    (place.objects / "objects" / lost[:2] / lost[2:4] / f"{lost}.json").write_bytes(b"")

    run = load(place)

    assert (run.step, run.lost_steps) == (4, 1)
    assert f"1 steps of run {RUN} were lost with the power and run again" in run.warnings


# --- attacks --------------------------------------------------------------------------------------


def test_a_state_of_a_checkpoint_that_was_changed_is_an_error(place: RunPlace) -> None:
    with begun(place) as records:
        for number in range(1, 4):
            take_step(records, number, filler="x" * INLINE_BYTES)
    changed = load(place).snapshot.state_hash
    path = place.objects / "objects" / changed[:2] / changed[2:4] / f"{changed}.json"
    path.write_bytes(path.read_bytes().replace(b'"x":1', b'"x":2'))

    with pytest.raises(ObjectChangedError) as error:
        load(place)

    assert error.value.path == str(path)


BYTES_CHANGED = "checkpoint does not match: the bytes before it were changed"
WRONG_SIGNATURE = "checkpoint does not match: the signature is not of its key"


@pytest.mark.parametrize(
    ("change", "expected", "problem"),
    [
        (lambda data: data.replace(b'"x":1', b'"x":2', 1), RyeError, BYTES_CHANGED),
        (lambda data: data.replace(b'"sig":"', b'"sig":"A', 1), RyeError, WRONG_SIGNATURE),
        (lambda data: data.replace(b'"fp":"', b'"fp":"0', 1), RyeError, "which is not trusted"),
        (
            lambda data: data.replace(RUN.encode(), b"another", 1),
            TranscriptError,
            "found 'another'",
        ),
        (lambda data: b"garbage\n" + data, TranscriptError, "expected JSON"),
        (lambda data: data.split(b"\n", 1)[1], RyeError, BYTES_CHANGED),
    ],
)
def test_a_transcript_that_was_changed_is_refused(
    place: RunPlace, change: Callable[[bytes], bytes], expected: type[RyeError], problem: str
) -> None:
    recorded(place, 3)
    transcript(place).write_bytes(change(transcript(place).read_bytes()))

    with pytest.raises(expected, match=problem):
        load(place)


@pytest.mark.property
@given(data=st.data())
def test_no_changed_byte_before_a_checkpoint_goes_unnoticed(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    place = RunPlace(Space(USER, tmp_path_factory.mktemp("run")))
    recorded(place, 3)
    whole = bytearray(transcript(place).read_bytes())
    end = whole.rindex(b'{"event_type":"checkpoint"')
    # Without the end of the line before it, the checkpoint is one that was cut short.
    at = data.draw(st.integers(0, end - 2))
    whole[at] ^= data.draw(st.integers(1, 255))
    transcript(place).write_bytes(whole)

    with pytest.raises(RyeError):
        load(place)


def test_a_checkpoint_by_a_foreign_key_is_refused(place: RunPlace) -> None:
    recorded(place, 3, key=SigningKey(generate_keypair(), fixed_clock))

    with pytest.raises(RyeError, check=coded("UNTRUSTED_KEY")):
        load(place)


def as_another_run(transcript: bytes, run_id: str) -> bytes:
    """A transcript under another id, its checkpoints made to fit; only the signatures stay."""
    made = b""
    for line in transcript.splitlines():
        event = json.loads(line) | {"thread_id": run_id}
        if event["event_type"] == CHECKPOINT:
            event["payload"] |= {"byte_offset": len(made), "hash": sha256_hex(made)}
        made += json.dumps(event).encode() + b"\n"
    return made


def test_a_signed_checkpoint_is_of_its_run_only(place: RunPlace) -> None:
    recorded(place, 3)
    moved = place.runs / "other-1-0000" / "transcript.jsonl"
    moved.parent.mkdir()
    moved.write_bytes(as_another_run(transcript(place).read_bytes(), "other-1-0000"))

    with pytest.raises(RyeError, match="signature is not of its key", check=coded("INTEGRITY")):
        load_run(place, "other-1-0000", trusted)


def test_a_run_without_a_key_reports_that_it_is_unsigned(place: RunPlace) -> None:
    recorded(place, 3, key=None)

    run = load(place)

    assert run.unsigned_steps == 3
    assert run.warnings == (
        f"run {RUN} was recorded without a signing key: nothing shows who wrote it",
    )


def test_a_transcript_that_was_cut_back_is_reported(place: RunPlace) -> None:
    recorded(place, 3)
    earlier = transcript(place).read_bytes()
    records, _ = resume(place)
    for number in (4, 5, 6):
        take_step(records, number)
    records.close()
    transcript(place).write_bytes(earlier)

    problem = f"of run {RUN} ends with step 3, and step 6 was recorded: it may have been cut"
    assert load(place).warnings == (f"the transcript {problem}",)


def test_a_transcript_without_states_is_kept_when_its_run_goes_on(place: RunPlace) -> None:
    recorded(place, 3)
    line = {"timestamp": 1, "thread_id": RUN, "event_type": "graph_started", "payload": {}}
    foreign = json.dumps(line).encode() + b"\n"
    transcript(place).write_bytes(foreign)

    records, before = resume(place)
    records.close()

    assert before.step == 3
    assert transcript(place).read_bytes().startswith(foreign)


def test_a_run_of_which_only_the_ref_is_left_says_so(place: RunPlace) -> None:
    recorded(place, 3)
    transcript(place).unlink()

    run = load(place)

    assert (run.step, run.unsigned_steps) == (3, 3)
    assert run.warnings == (
        f"run {RUN} has no transcript: nothing shows that its state is what it was",
    )


def test_a_run_of_which_only_the_ref_is_left_can_go_on(place: RunPlace) -> None:
    recorded(place, 3)
    transcript(place).unlink()

    records, _ = resume(place)
    take_step(records, 4)
    records.close()

    assert (load(place).step, load(place).state["done"]) == (4, [1, 2, 3, 4])


def test_a_place_that_cannot_be_written_is_named(place: RunPlace) -> None:
    place.ai.mkdir()
    (place.ai / "state").write_bytes(b"")

    with pytest.raises(FileSystemError) as error:
        begun(place)

    assert error.value.path.startswith(str(place.ai / "state"))


@links
@pytest.mark.parametrize(
    "planted", ["state", "state/objects", "state/graphs", f"state/graphs/{RUN}"]
)
def test_no_run_is_written_through_a_planted_link(
    place: RunPlace, tmp_path: Path, planted: str
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    link = place.ai / planted
    link.parent.mkdir(parents=True)
    link.symlink_to(outside)

    with pytest.raises(RunPlaceError):
        begun(place)

    assert list(outside.iterdir()) == []


@links
def test_no_transcript_is_written_through_a_planted_link(place: RunPlace, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_bytes(b"")
    transcript(place).parent.mkdir(parents=True)
    transcript(place).symlink_to(outside)

    with pytest.raises((RunPlaceError, RyeError)):
        begun(place)

    assert outside.read_bytes() == b""


# --- a full disk ----------------------------------------------------------------------------------

# The fourth step has no room for its whole line; then there is room again.
CROWDED = """
import resource, sys
from pathlib import Path
from lillux.digests import sha256_hex
from lillux.errors import FileSystemError
from ryeos.graph.run_places import RunPlace
from ryeos.graph.run_store import CheckpointPace, RunIdentity, RunRecords, StepRecord
from ryeos.items.refs import USER, Space

place = RunPlace(Space(USER, Path(sys.argv[1])))
identity = RunIdentity(run_id=sys.argv[2], graph_id="g", graph_hash="a" * 64)
pace = CheckpointPace(5, 1e9)
run = RunRecords.create(place, identity, state={"n": 0}, current_node="n", pace=pace)
take = lambda n: run.step(StepRecord(step=n, node="n", next_node="n", state={"n": n}))
for n in (1, 2, 3):
    take(n)
size = place.run_file(sys.argv[2], "transcript.jsonl").stat().st_size
soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (size + 100, hard))
try:
    take(4)
except FileSystemError as error:
    print(error.problem)
resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
for n in (4, 5, 6):
    take(n)
run.finish("completed", state={"n": 6})
"""


@pytest.mark.skipif(sys.platform == "win32", reason="files have no limit there")
def test_a_step_that_met_a_full_disk_is_recorded_once_there_is_room(place: RunPlace) -> None:
    command = [sys.executable, "-c", CROWDED, str(place.space.base), RUN]
    done = subprocess.run(
        command, stdout=subprocess.PIPE, check=True, cwd=ROOT, encoding="utf-8", timeout=60
    )

    run = load(place)

    assert done.stdout == "file too large\n"
    assert (run.step, run.status) == (6, "completed")


# --- killed runs ----------------------------------------------------------------------------------

# Records steps without end, and prints the number of each that is recorded.
ENDLESS = """
import itertools, sys
from pathlib import Path
from ryeos.graph.run_objects import Receipt
from ryeos.graph.run_places import RunPlace
from ryeos.graph.run_store import CheckpointPace, RunIdentity, RunRecords, StepRecord
from ryeos.items.refs import USER, Space

place = RunPlace(Space(USER, Path(sys.argv[1])))
identity = RunIdentity(run_id=sys.argv[2], graph_id="g", graph_hash="a" * 64)
pace = CheckpointPace(5, 1e9)
run = RunRecords.create(place, identity, state={"n": 0}, current_node="n", pace=pace)
for n in itertools.count(1):
    receipts = (Receipt(node_input_hash="b" * 64, node_result_hash=run.put_result({"n": n})),)
    run.step(StepRecord(step=n, node="n", next_node="n", state={"n": n}, receipts=receipts))
    print(n, flush=True)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL")
@pytest.mark.parametrize("steps", [1, 2, 5, 16, 33, 101])
def test_a_run_that_is_killed_has_every_step_that_was_recorded(place: RunPlace, steps: int) -> None:
    command = [sys.executable, "-c", ENDLESS, str(place.space.base), RUN]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT) as process:
        assert process.stdout is not None
        for _ in range(steps):
            process.stdout.readline()
        process.kill()
        said = steps + len(process.stdout.read().splitlines())

    records, before = resume(place)
    records.close()

    assert before.step in {said, said + 1}  # killed between recording and saying so
    assert before.state == {"n": before.step}
    assert len(list(receipts_of(place.store(), load(place)))) == before.step
