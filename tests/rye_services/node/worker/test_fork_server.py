"""Children of a template process, and new processes where no template runs."""

import json
import os
import signal
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Thread

import pytest

from lillux.cancellation import Cancellation
from lillux.process import ProcessManager
from lillux.process.model import Command
from rye_services.node.worker.fork_server import ForkServer
from tests.support.children import Lifeline

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="children are forked on Linux")

ROOT = Path(__file__).parents[4]
WORK = """
import os, sys, time
from rye_services.node.worker.fork_server import serve_forks

def work(template):
    exec(sys.stdin.read(), {"template": template})
    return 0

if sys.argv[1:]:
    serve_forks(int(sys.argv[1]), work)
else:
    exec(sys.stdin.read(), {"template": 0})
"""
WORDS = (sys.executable, "-I", "-c", f"import sys; sys.path.insert(0, {str(ROOT)!r}); {WORK}")
ENV = {"PATH": os.environ["PATH"]}


@pytest.fixture
def lifeline(tmp_path: Path) -> Iterator[Lifeline]:
    made = Lifeline(tmp_path)
    yield made
    made.close()


@pytest.fixture
def server() -> Iterator[ForkServer]:
    server = ForkServer(WORDS, ENV, ProcessManager(grace_s=20.0))
    yield server
    server.close()


def code(text: str, timeout_s: float | None = None) -> Command:
    return Command(argv=WORDS, env=ENV, stdin=text.encode(), timeout_s=timeout_s)


SHOW = """
import os, json
print(json.dumps([template, os.getpid(), os.getsid(0), os.listdir('/proc/self/fd')]))
"""


def test_a_child_is_a_fork_that_leads_a_session_and_has_three_files(server: ForkServer) -> None:
    outcome = server.run(code(SHOW))

    template, pid, session, files = json.loads(outcome.stdout.data)
    assert outcome.exit_code == 0
    assert template == server.template_pid
    assert pid == session
    assert sorted(files)[:3] == ["0", "1", "2"]
    assert len(files) == len(["0", "1", "2", "the folder itself"])


def test_output_errors_and_exit_codes_come_back(server: ForkServer) -> None:
    heard: list[bytes] = []

    outcome = server.run(
        code("print('out'); sys = __import__('sys'); sys.stderr.write('err'); sys.exit(0)"),
        on_stderr=heard.append,
    )
    failed = server.run(code("1 / 0"))
    killed = server.run(code("import os; os.kill(os.getpid(), 9)"))

    assert b"".join(heard).startswith(b"err")
    assert outcome.stdout.data == b"out\n"
    assert failed.exit_code == 1
    assert b"ZeroDivisionError" in failed.stderr.data
    assert (killed.exit_code, killed.signal) == (None, signal.SIGKILL)


def test_simultaneous_children_get_their_own_orders(server: ForkServer) -> None:
    with ThreadPoolExecutor(8) as pool:
        outcomes = list(pool.map(lambda n: server.run(code(f"print({n})")), range(40)))

    assert [int(one.stdout.data) for one in outcomes] == list(range(40))


def test_changes_of_one_child_are_not_seen_by_the_next(server: ForkServer) -> None:
    server.run(code("import os, sys; sys.left = 1; os.environ['LEFT'] = '1'; os.chdir('/tmp')"))

    outcome = server.run(
        code("import os, sys; print(hasattr(sys, 'left'), 'LEFT' in os.environ, os.getcwd())")
    )

    assert outcome.stdout.data == b"False False /\n"


def test_a_time_limit_and_a_cancellation_end_the_whole_group(
    server: ForkServer, lifeline: Lifeline
) -> None:
    hold = f"import subprocess; subprocess.run(['sh', '-c', {lifeline.hold + '; sleep 600'!r}])"
    cancellation = Cancellation()

    def cancel() -> None:
        lifeline.await_held()
        cancellation.cancel()

    Thread(target=cancel).start()
    cancelled = server.run(code(hold), cancellation=cancellation)
    timed_out = server.run(code("import time; time.sleep(600)", timeout_s=0.1))

    assert cancelled.cancelled
    assert lifeline.is_released()
    assert timed_out.timed_out


def test_a_child_of_a_killed_template_has_failed(
    server: ForkServer,
) -> None:
    outcome = server.run(
        code("import os, time; os.kill(template, 9); time.sleep(0.1); os._exit(0)")
    )

    assert (outcome.exit_code, outcome.signal) == (None, None)


def test_without_a_template_each_child_is_a_new_process() -> None:
    server = ForkServer((sys.executable, "-I", "-c", "0 / 0"), ENV, ProcessManager())

    outcomes = [server.run(code("print(template)")) for _ in range(4)]

    assert [one.stdout.data for one in outcomes] == [b"0\n"] * 4
    server.close()


def test_no_file_and_no_child_process_remains(server: ForkServer) -> None:
    server.run(code("pass"))
    before = os.listdir("/proc/self/fd")  # noqa: PTH208 - how many
    for _ in range(20):
        server.run(code("pass"))

    assert len(os.listdir("/proc/self/fd")) == len(before)  # noqa: PTH208 - as above
    children = Path(f"/proc/{server.template_pid}/task/{server.template_pid}/children")
    assert len(children.read_text("ascii").split()) <= 1
