from threading import Event, current_thread

from ryeos.mcp.stdio import WorkerPool
from tests.support.endings import wait_until

PATIENCE_S = 20.0


def test_a_single_thread_keeps_the_order_of_the_work() -> None:
    workers, done, over = WorkerPool("test", 1), list[int](), Event()

    for number in range(100):
        workers.put(lambda number=number: done.append(number))  # type: ignore[misc]
    workers.put(over.set)

    assert over.wait(PATIENCE_S)
    assert done == list(range(100))


def test_no_more_work_runs_at_once_than_there_are_threads() -> None:
    workers, gate = WorkerPool("test", 2), Event()
    begun: list[str] = []

    def work() -> None:
        begun.append(current_thread().name)
        gate.wait(PATIENCE_S)

    for _ in range(5):
        workers.put(work)
    wait_until(lambda: len(begun) == 2)
    at_first = len(begun)
    gate.set()
    wait_until(lambda: workers.is_idle)

    assert (at_first, len(begun)) == (2, 5)


def test_a_thread_that_is_free_is_used_again() -> None:
    workers = WorkerPool("test", 4)
    used: set[object] = set()

    for _ in range(20):
        workers.put(lambda: used.add(current_thread()))
        wait_until(lambda: workers.is_idle)

    assert len(used) <= 2


def test_a_worker_pool_is_idle_when_all_is_done_and_not_before() -> None:
    workers, gate = WorkerPool("test", 1), Event()

    def wait() -> None:
        gate.wait(PATIENCE_S)

    before = workers.is_idle
    workers.put(wait)
    during = workers.is_idle
    gate.set()
    wait_until(lambda: workers.is_idle)

    assert (before, during) == (True, False)
