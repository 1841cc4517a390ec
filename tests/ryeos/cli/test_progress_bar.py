import io

from ryeos.app.output import Output
from ryeos.cli.progress import ProgressBar, bar


class Terminal(io.StringIO):
    """A stream that is a terminal."""

    def isatty(self) -> bool:
        return True


class Clock:
    """A clock that a test sets."""

    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def drawn(stream: io.StringIO, *times: float, quiet: bool = False) -> str:
    clock = Clock()
    progress = ProgressBar(Output(quiet=quiet, environ={}), stream, clock)
    for done, time_s in enumerate(times, 1):
        clock.now_s = time_s
        progress.tell("sending", done, 4)
    progress.end()
    return stream.getvalue()


def test_a_transfer_that_takes_a_while_is_shown_and_removed() -> None:
    text = drawn(Terminal(), 0.1, 0.6, 0.8)

    shown = [line for line in text.split("\r\x1b[K") if line]
    assert shown == [bar("sending", 2, 4), bar("sending", 3, 4)]
    assert text.endswith("\r\x1b[K")


def test_a_short_transfer_is_not_shown() -> None:
    assert drawn(Terminal(), 0.1, 0.4) == ""


def test_the_bar_is_drawn_ten_times_a_second_at_most() -> None:
    text = drawn(Terminal(), 0.6, 0.65, 0.69)

    assert text.count("sending") == 1


def test_no_bar_is_shown_in_a_pipe_or_with_quiet() -> None:
    assert drawn(io.StringIO(), 0.6) == ""
    assert drawn(Terminal(), 0.6, quiet=True) == ""


def test_a_bar_says_how_far_it_is() -> None:
    assert bar("sending", 1, 4) == "sending    [#######.....................]      1/4"
