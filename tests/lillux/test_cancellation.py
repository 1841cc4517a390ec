from lillux.cancellation import Cancellation


def test_it_is_set_once_cancelled_and_stays_so() -> None:
    cancellation = Cancellation()

    cancellation.cancel()
    cancellation.cancel()

    assert cancellation.is_set


def test_it_wakes_all_waiters_inside_the_block_and_none_after_it() -> None:
    cancellation = Cancellation()
    woken: list[str] = []

    with cancellation.waking(lambda: woken.append("late")):
        pass
    with (
        cancellation.waking(lambda: woken.append("first")),
        cancellation.waking(lambda: woken.append("second")),
    ):
        cancellation.cancel()

    assert woken == ["first", "second"]
