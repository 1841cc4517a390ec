import pytest

from ryeos.app.progress import StepProgress, ToolProgress

Reports = list[tuple[float, float | None, str]]


def fed(*lines: str) -> Reports:
    """The progress that is reported for these lines of standard error."""
    reported: Reports = []
    progress = ToolProgress(lambda *said: reported.append(said))
    for line in lines:
        progress.feed(f"::rye-progress {line}\n".encode())
    return reported


@pytest.mark.parametrize(
    "number", ["NaN", "Infinity", "-Infinity", "1e999", "9" * 400, "null", '"1"', "true"]
)
def test_progress_that_is_no_number_of_json_is_passed_over(number: str) -> None:
    wrong = f'{{"progress":{number}}}'

    assert fed(wrong, '{"progress":1,"total":1}') == [(1.0, 1, "")]


@pytest.mark.parametrize("total", ["NaN", "1e999", "9" * 400, '"5"'])
def test_a_total_that_is_no_number_of_json_is_left_out(total: str) -> None:
    assert fed(f'{{"progress":1,"total":{total},"message":null}}') == [(1.0, None, "")]


def test_steps_are_reported_ten_times_a_second_and_the_last_one_always() -> None:
    reported: list[float] = []
    times = iter(number / 50 for number in range(100))
    progress = StepProgress(lambda done, *_: reported.append(done), clock=lambda: next(times))

    for number in range(1, 101):
        progress.step(number, 100, "")

    assert (reported[:3], reported[-1], len(reported) <= 21) == ([1, 6, 11], 100, True)


def test_progress_that_came_too_soon_is_reported_at_the_end_if_it_is_the_last() -> None:
    reported: Reports = []

    with ToolProgress(lambda *said: reported.append(said)) as progress:
        for number in range(1, 6):
            progress.feed(f'::rye-progress {{"progress":{number}}}\n'.encode())
        assert reported == [(1.0, None, "")]

    assert reported == [(1.0, None, ""), (5.0, None, "")]
