"""The output of ``rye run`` for running and failed tools; its input from a pipe."""

import io
import json
import subprocess
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import IO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lillux.process.model import CapturedStream, Outcome
from ryeos.cli.progress import Spinner, end_spinner
from ryeos.cli.run import ToolOutput, may_be_json
from ryeos.run.outcomes import cause_in, map_outcome
from tests.support.command_line import CommandLine, program_of
from tests.support.terminal import Terminal

HEADER = """\
__version__ = "1.0.0"
__tool_type__ = "python"
__executor_id__ = "rye/core/runtimes/python/{runtime}"
__category__ = "mine"
__tool_description__ = "Says something"
"""
WAITS = """\
import sys, time
from pathlib import Path
{first}
while not Path("go").exists():
    time.sleep(0.01)
{then}
"""


def tool(cli: CommandLine, code: str, runtime: str = "script") -> None:
    """A signed tool of the project, ``mine/say``."""
    cli("keys", "generate")
    path = cli.project / ".ai/tools/mine/say.py"
    path.parent.mkdir(parents=True)
    path.write_text(HEADER.format(runtime=runtime) + code, "utf-8")
    assert cli("sign", "tool:mine/say").status == 0


def at_terminal(cli: CommandLine, tmp_path: Path, *words: str) -> Terminal:
    """The command at a terminal."""
    argv = [str(program_of(cli, tmp_path)), *words]
    return Terminal(argv, cli.env | {"TERM": "xterm"}, cli.project)


# --- output while a tool runs ---------------------------------------------------------------------


def test_lines_are_shown_while_the_tool_runs(cli: CommandLine, tmp_path: Path) -> None:
    tool(cli, WAITS.format(first='print("one")', then='print("two")'))

    with at_terminal(cli, tmp_path, "run", "mine/say") as terminal:
        terminal.type("", until="one\r\n")
        (cli.project / "go").touch()
        shown = terminal.type("", until="two\r\n")

    assert "one" not in shown


def test_json_is_laid_out_at_the_end(cli: CommandLine, tmp_path: Path) -> None:
    tool(cli, """print('{"sum":', end="", flush=True); print(' 4}')""")

    with at_terminal(cli, tmp_path, "run", "mine/say") as terminal:
        shown = terminal.type("", until="}\r\n")

    assert shown == '{\r\n  "sum": 4\r\n}\r\n'


def test_a_silent_run_shows_its_time_and_removes_it_at_the_end(
    cli: CommandLine, tmp_path: Path
) -> None:
    tool(cli, WAITS.format(first="", then='print("done")'))

    with at_terminal(cli, tmp_path, "run", "mine/say") as terminal:
        terminal.type("", until=" 1 s")
        (cli.project / "go").touch()
        shown = terminal.type("", until="done\r\n")

    assert shown.endswith("\r\x1b[Kdone\r\n")


def test_a_pipe_gets_no_time_and_no_half_answer(cli: CommandLine, tmp_path: Path) -> None:
    tool(cli, 'print("one")')
    argv = [str(program_of(cli, tmp_path)), "run", "mine/say"]

    done = subprocess.run(argv, env=cli.env, cwd=cli.project, capture_output=True, check=True)

    assert (done.stdout, done.stderr) == (b"one\n", b"")


def piped(
    cli: CommandLine,
    tmp_path: Path,
    *,
    stdout: int | IO[bytes] = subprocess.PIPE,
    stderr: int = subprocess.DEVNULL,
) -> subprocess.Popen[bytes]:
    """The run of the tool, to a pipe."""
    argv = [str(program_of(cli, tmp_path)), "run", "mine/say"]
    return subprocess.Popen(argv, env=cli.env, cwd=cli.project, stdout=stdout, stderr=stderr)


def test_a_pipe_gets_each_line_while_the_tool_runs(cli: CommandLine, tmp_path: Path) -> None:
    tool(cli, WAITS.format(first='print("one")', then='print("two")'))

    with piped(cli, tmp_path) as running:
        assert running.stdout
        first = running.stdout.readline()
        (cli.project / "go").touch()
        rest = running.stdout.read()

    assert (first, rest) == (b"one\n", b"two\n")


def test_a_pipe_of_both_streams_gets_them_in_the_order_they_were_written(
    cli: CommandLine, tmp_path: Path
) -> None:
    waits = WAITS.format(first="note('a')\nprint('b')", then="note('c')\nprint('d')")
    tool(cli, f"import sys\ndef note(text):\n    print(text, file=sys.stderr)\n{waits}")

    with piped(cli, tmp_path, stderr=subprocess.STDOUT) as running:
        assert running.stdout
        first = {running.stdout.readline(), running.stdout.readline()}
        (cli.project / "go").touch()
        rest = set(running.stdout.read().splitlines(keepends=True))

    assert (first, rest) == ({b"a\n", b"b\n"}, {b"c\n", b"d\n"})


def test_the_end_of_its_reader_ends_the_run(cli: CommandLine, tmp_path: Path) -> None:
    tool(cli, "while True:\n    print('y')\n")

    with piped(cli, tmp_path) as running:
        assert running.stdout
        assert running.stdout.readline() == b"y\n"
        running.stdout.close()
        assert running.wait(30) == 141


def test_a_stream_of_documents_is_passed_on_line_by_line(cli: CommandLine, tmp_path: Path) -> None:
    first = """print('{"n": 1}'); print('{"n": 2}')"""
    tool(cli, WAITS.format(first=first, then="""print('{"n": 3}')"""))

    with piped(cli, tmp_path) as running:
        assert running.stdout
        shown = [running.stdout.readline(), running.stdout.readline()]
        (cli.project / "go").touch()
        rest = running.stdout.read()

    assert (shown, rest) == ([b'{"n": 1}\n', b'{"n": 2}\n'], b'{"n": 3}\n')


def test_an_object_in_the_last_line_is_laid_out_behind_the_text_above_it(
    cli: CommandLine, tmp_path: Path
) -> None:
    tool(cli, """print('one'); print('{"n": 1}'); print('two'); print('{"sum": 4}')""")

    with piped(cli, tmp_path) as running:
        assert running.stdout
        shown = running.stdout.read()

    assert shown == b'one\n{"n": 1}\ntwo\n{\n  "sum": 4\n}\n'


LINES = st.lists(st.sampled_from(["one\n", '{"n": 1}\n', "\n", "[2]\n", "two"]), max_size=6)


@given(lines=LINES, cuts=st.lists(st.integers(1, 9), max_size=20))
def test_output_is_shown_the_same_however_it_is_cut(lines: list[str], cuts: list[int]) -> None:
    said = "".join(lines).encode()
    pieces, at = [], 0
    for cut in cuts:
        pieces.append(said[at : at + cut])
        at += cut

    assert shown_of([*pieces, said[at:]]) == shown_of([said])


def shown_of(pieces: list[bytes]) -> tuple[bytes, bool]:
    """What is shown of pieces, with what the end leaves out, and whether there is a result."""
    written, stream = ToolOutput(), io.BytesIO()
    with redirect_stdout(io.TextIOWrapper(stream, "utf-8", write_through=True)) as text:
        for piece in pieces:
            written.stdout(piece)
        has_result = written.holds_result
        written.end(has_failed=False, drops_result=True)
    text.flush()
    return stream.getvalue(), has_result


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
def test_output_that_nothing_takes_is_an_error_and_the_tool_runs_to_its_end(
    cli: CommandLine, tmp_path: Path
) -> None:
    tool(cli, "from pathlib import Path\nprint('one')\nPath('ended').touch()\n")

    with (
        Path("/dev/full").open("wb") as full,
        piped(cli, tmp_path, stdout=full, stderr=subprocess.PIPE) as running,
    ):
        _, said = running.communicate()

    assert running.returncode == 1
    assert b"error: standard output: no space left on device" in said
    assert (cli.project / "ended").exists()


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=20,
    ).filter(lambda value: isinstance(value, (dict, list, str))),
    st.sampled_from([None, 2]),
    st.integers(min_value=0),
)
def test_no_beginning_of_a_document_is_taken_for_other_text(
    value: object, indent: int | None, cut: int
) -> None:
    data = json.dumps(value, indent=indent).encode() + b"\n"

    assert may_be_json(data[: cut % (len(data) + 1)])


@pytest.mark.parametrize(
    "text", ["one", "[INFO] ready\n", '{"n": 1}\n{', '"a" and b\n', "{hello}\n", "[1] [2]\n"]
)
def test_text_that_only_begins_like_a_document_is_shown_at_once(text: str) -> None:
    assert not may_be_json(text.encode())


class Screen(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def test_the_spinner_ends_with_the_first_word_that_goes_elsewhere_than_to_a_terminal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stream, out = Screen(), io.StringIO()
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", stream)
    with Spinner(stream):
        heard = sys.stdout
        sys.stdout.write("answer")
        given_back = sys.stdout, sys.stderr

    assert heard is not out
    assert given_back == (sys.stdout, sys.stderr) == (out, stream)
    assert (out.getvalue(), stream.getvalue()) == ("answer", "")


def shown_between(
    monkeypatch: pytest.MonkeyPatch, text: str, *, silent_s: float
) -> tuple[str, list[str]]:
    """The text on a terminal after a command wrote a text and was silent; each change of it."""
    changes: list[str] = []

    class Watched(Screen):
        def write(self, data: str) -> int:
            changes.append(data)
            return super().write(data)

    screen = Watched()
    monkeypatch.setattr(sys, "stdout", screen)
    monkeypatch.setattr(sys, "stderr", screen)
    with Spinner(screen, quiet_s=0.0, again_s=0.0) as spinner:
        sys.stdout.write(text)
        spinner._ended.wait(silent_s)
        sys.stdout.write("end\n")
    return screen.getvalue(), changes


def test_the_spinner_ends_before_a_pager_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Screen()
    monkeypatch.setattr(sys, "stdout", screen)
    monkeypatch.setattr(sys, "stderr", screen)
    with Spinner(screen, quiet_s=0.0, again_s=0.0) as spinner:
        end_spinner()

        assert spinner._ended.is_set()
        assert (sys.stdout, sys.stderr) == (screen, screen)
    end_spinner()  # there is none


def test_after_a_whole_line_the_spinner_comes_back_and_goes_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole, changes = shown_between(monkeypatch, "one\n", silent_s=0.35)

    assert any(change.endswith(" 0 s") for change in changes)
    assert whole.endswith("\r\x1b[Kend\n")


def test_within_a_line_like_a_question_there_is_no_spinner(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole, _ = shown_between(monkeypatch, "sure? [y/N] ", silent_s=0.25)

    assert whole == "sure? [y/N] end\n"


# --- tracebacks -----------------------------------------------------------------------------------


@pytest.mark.parametrize("runtime", ["script", "function"])
def test_of_a_traceback_the_last_line_comes_first_and_frames_are_the_tool_s(
    cli: CommandLine, runtime: str
) -> None:
    work = "def work():\n    raise ValueError('too big')\n"
    call = {"script": "work()\n", "function": "def execute(params, project_path):\n    work()\n"}
    tool(cli, work + call[runtime], runtime)

    failed = cli("run", "mine/say")

    first, second, *frames = failed.stderr.splitlines()
    assert (failed.status, failed.stdout) == (1, "")
    assert first == "error: ValueError: too big"
    assert second == "Traceback (most recent call last):"
    assert all("say.py" in line for line in frames if line.startswith("  File"))
    assert frames[-1] == "ValueError: too big"


def test_a_logged_traceback_of_a_tool_keeps_its_place(cli: CommandLine) -> None:
    tool(
        cli,
        "import traceback, sys\n"
        "try:\n    1 / 0\nexcept ZeroDivisionError:\n    traceback.print_exc()\n"
        "print('went on', file=sys.stderr)\nprint('fine')\n",
    )

    done = cli("run", "mine/say")

    assert (done.status, done.stdout) == (0, "fine\n")
    assert done.stderr.startswith("Traceback (most recent call last):\n")
    assert done.stderr.endswith("ZeroDivisionError: division by zero\nwent on\n")


def test_lines_before_a_traceback_stay_before_the_error(cli: CommandLine) -> None:
    tool(cli, "import sys\nprint('note', file=sys.stderr)\n1 / 0\n")

    assert cli("run", "mine/say").stderr.startswith(
        "note\nerror: ZeroDivisionError: division by zero\nTraceback"
    )


PYTHON = 'Traceback (most recent call last):\n  File "x.py", line 1, in f\n    g()\n'
NODE = "/x.js:3\nthrow new Error(1)\n^\n\nError: bad\n    at f (/x.js:3:7)\n\nNode.js v20.1.0\n"


@pytest.mark.parametrize(
    ("stderr", "cause"),
    [
        (f"{PYTHON}ValueError: bad\n", "ValueError: bad"),
        (f"log\n{PYTHON}ValueError: bad\nmore\n", "ValueError: bad\nmore"),
        (f"{PYTHON}KeyError: 1\n\nDuring handling:\n\n{PYTHON}OSError: 2\n", "OSError: 2"),
        (NODE, "Error: bad"),
        (PYTHON, ""),
        ("no Traceback (most recent call last):\nx", ""),
        ("bash: line 1: x: command not found", ""),
    ],
)
def test_the_cause_of_a_failure_is_its_last_line(stderr: str, cause: str) -> None:
    assert cause_in(stderr) == cause


def test_the_first_line_of_an_error_is_its_cause_for_an_agent_too() -> None:
    text = f"{PYTHON}ValueError: bad\n".encode()
    ended = Outcome(
        exit_code=1,
        signal=None,
        stdout=CapturedStream(data=b"", total_bytes=0),
        stderr=CapturedStream(data=text, total_bytes=len(text)),
    )

    assert map_outcome(ended, 1).error == "ValueError: bad"


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
def test_no_output_of_a_tool_is_lost_however_it_is_cut(
    capfdbinary: pytest.CaptureFixture[bytes], size: int
) -> None:
    said = f"a\nTrace\nTraceback (most\n{PYTHON}ValueError: x\nlog\n{PYTHON}KeyError: 1\n".encode()
    written = ToolOutput()
    for start in range(0, len(said), size):
        written.stderr(said[start : start + size])

    held = written.end(has_failed=True)

    assert capfdbinary.readouterr().err + held.encode() == said
    assert held == f"{PYTHON}KeyError: 1\n"


# --- pipes ----------------------------------------------------------------------------------------

ASKS = """
CONFIG_SCHEMA = {"properties": {"text": {"type": "string", "format": "stdin"}}}
import json, sys
print(json.load(sys.stdin).get("text", "nothing"))
"""


@pytest.mark.parametrize(
    ("words", "piped", "shown"),
    [
        ([], b"from a pipe", b"from a pipe\n"),
        (["text=given"], b"from a pipe", b"given\n"),
        ([], b"", b"nothing\n"),
        (["--params", "-"], b'{"text": "as JSON"}', b"as JSON\n"),
    ],
)
def test_a_pipe_is_the_parameter_that_asks_for_it(
    cli: CommandLine, tmp_path: Path, words: list[str], piped: bytes, shown: bytes
) -> None:
    tool(cli, ASKS)
    argv = [str(program_of(cli, tmp_path)), "run", "mine/say", *words]

    done = subprocess.run(
        argv, env=cli.env, cwd=cli.project, input=piped, capture_output=True, check=True
    )

    assert done.stdout == shown


def test_bytes_that_are_no_text_are_refused_by_name(cli: CommandLine, tmp_path: Path) -> None:
    tool(cli, ASKS)
    argv = [str(program_of(cli, tmp_path)), "run", "mine/say"]

    done = subprocess.run(
        argv, env=cli.env, cwd=cli.project, input=b"\xff", capture_output=True, check=False
    )

    assert done.returncode == 2
    assert b"expected UTF-8 text" in done.stderr


# --- no project -----------------------------------------------------------------------------------


@pytest.mark.parametrize("command", [["run", "mine/say"], ["sign", "mine/say"], ["info", "a/b"]])
def test_in_a_folder_without_a_project_that_is_reported_first(
    cli: CommandLine, command: list[str]
) -> None:
    done = cli(*command)

    assert done.status == 3
    assert done.stderr.startswith(f"error: no project here: {cli.project} has no .ai folder; ")
    assert "rye init --project" in done.stderr


def test_lists_in_a_folder_without_a_project_report_that_first_too(cli: CommandLine) -> None:
    assert cli("list").stderr.startswith("no project here: ")
    assert cli("lock", "list").stderr.startswith("no project here: ")
    assert cli("status").stdout.startswith("no project here: ")
