from concurrent.futures import ThreadPoolExecutor

import pytest

from rye_services.node.queue.turns import AWAITED, LATER, Queue, Turn
from rye_services.web.http import RequestProblem


def has_come(turn: Turn) -> bool:
    return turn.wait(0)


def test_a_request_waits_only_if_all_places_are_taken() -> None:
    queue = Queue(1, 10)
    first, second = queue.enter("ada"), queue.enter("bob")

    assert (has_come(first), has_come(second)) == (True, False)
    assert (queue.active, queue.waiting, queue.place_of(second)) == (1, 1, 1)
    queue.leave(first)
    assert has_come(second)
    assert (queue.active, queue.waiting, queue.place_of(second)) == (1, 0, 0)


def test_one_user_cannot_have_all_places() -> None:
    queue = Queue(3, 10)
    turns = [queue.enter("ada") for _ in range(3)]

    assert [has_come(one) for one in turns] == [True, True, False]
    assert has_come(queue.enter("bob"))


@pytest.mark.parametrize("places", [1, 3])
def test_a_client_with_many_requests_does_not_block_others(places: int) -> None:
    queue = Queue(places, 1000)
    often = [queue.enter("ada") for _ in range(100)]
    running = [turn for turn in often if has_come(turn)]
    once = queue.enter("bob")

    while not has_come(once):
        queue.leave(running.pop(0))
        running = [turn for turn in often if has_come(turn)][-places:]
        assert queue.place_of(once) <= 1

    assert sum(map(has_come, often)) <= places + 1


def test_users_take_turns() -> None:
    queue = Queue(1, 100)
    running = queue.enter("ada")
    turns = {f"{user}{n}": queue.enter(user) for user in ("ada", "bob", "eve") for n in range(2)}
    order: list[str] = []
    while turns:
        queue.leave(running)
        (name,) = (name for name, turn in turns.items() if has_come(turn))
        order.append(name)
        running = turns.pop(name)

    assert order == ["bob0", "eve0", "ada0", "bob1", "eve1", "ada1"]


def test_a_queue_has_a_bound_and_one_user_half_of_it() -> None:
    queue = Queue(1, 4)
    queue.enter("ada")
    for _ in range(2):
        queue.enter("ada")

    with pytest.raises(RequestProblem, match="2 executions of user ada wait") as mine:
        queue.enter("ada")
    queue.enter("bob")
    queue.enter("eve")
    with pytest.raises(RequestProblem, match="all 1 places for executions are taken, and 4 wait"):
        queue.enter("joe")

    assert (mine.value.status_code, mine.value.headers) == (503, {"Retry-After": "5"})
    assert queue.waiting == 4
    queue.enter("joe", is_known=True)
    assert queue.waiting == 5


def test_an_abandoned_turn_is_skipped() -> None:
    queue = Queue(1, 10)
    first, second, third = (queue.enter(user) for user in ("ada", "bob", "eve"))

    queue.leave(second)
    queue.leave(first)

    assert (has_come(third), queue.active, queue.waiting) == (True, 1, 0)


def test_a_closing_queue_refuses_waiting_turns() -> None:
    queue = Queue(1, 10)
    first, second = queue.enter("ada"), queue.enter("bob")

    queue.close()

    with pytest.raises(RequestProblem, match="this node is ending"):
        second.wait(1)
    with pytest.raises(RequestProblem, match="this node is ending"):
        queue.enter("eve")
    queue.leave(second)
    queue.leave(first)
    assert queue.active == 0


def test_no_more_turns_run_at_once_than_there_are_places() -> None:
    queue = Queue(3, 1000)
    most: list[int] = []

    def go(number: int) -> None:
        turn = queue.enter(f"user{number % 5}")
        assert turn.wait(30)
        most.append(queue.active)
        queue.leave(turn)

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(go, range(300)))

    assert (len(most), max(most) <= 3, queue.active, queue.waiting) == (300, True, 0, 0)


def test_a_turn_that_is_left_twice_frees_one_place() -> None:
    queue = Queue(2, 10)
    first, second, third = (queue.enter(user) for user in ("ada", "bob", "eve"))

    queue.leave(first)
    queue.leave(first)

    assert has_come(third)
    assert queue.active == 2
    queue.leave(second)


def test_an_awaited_turn_goes_before_others_of_its_user() -> None:
    queue = Queue(1, 10)
    running = queue.enter("ada")
    later, awaited = queue.enter("ada", priority=LATER), queue.enter("ada", priority=AWAITED)

    queue.leave(running)

    assert (has_come(awaited), has_come(later)) == (True, False)
