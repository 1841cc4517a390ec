import pytest

from lillux.watch import TERMINAL_STATUSES
from ryeos.run.threads.thread import FOLLOWING, TERMINAL, Status, Thread, leavable, thread_of


def test_a_terminal_status_has_no_successor() -> None:
    assert {status for status in Status if not FOLLOWING[status]} == TERMINAL


def test_the_statuses_that_end_a_thread_are_those_that_the_watcher_waits_for() -> None:
    assert {status.value for status in TERMINAL} == TERMINAL_STATUSES


@pytest.mark.parametrize("status", sorted(TERMINAL))
def test_a_thread_may_end_before_it_runs_and_while_it_runs(status: Status) -> None:
    assert leavable(status) == (Status.CREATED, Status.RUNNING)


def test_only_a_new_thread_begins_to_run() -> None:
    assert leavable(Status.RUNNING) == (Status.CREATED,)
    assert leavable(Status.CREATED) == ()


def test_a_value_of_a_wrong_type_is_read_as_none() -> None:
    thread = thread_of({"thread_id": "a", "status": b"running", "pid": "12", "turns": None})

    assert thread == Thread(thread_id="a", status="")


def test_the_description_has_known_fields_without_the_result() -> None:
    thread = Thread(thread_id="a", pid=12, turns=0, spend=0.5, result="{}")

    assert thread.describe() == {
        "thread_id": "a",
        "directive": "",
        "status": "created",
        "pid": 12,
        "spend": 0.5,
    }


@pytest.mark.parametrize(
    ("result", "answer"), [(None, None), ("{", None), ("[" * 99_999, None), ('{"a": 1}', {"a": 1})]
)
def test_a_result_that_is_not_json_gives_no_answer(result: str | None, answer: object) -> None:
    assert Thread(thread_id="a", result=result).answer() == answer
