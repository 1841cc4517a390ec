"""The function of a Python tool as its caller sees it, in a warm worker and in a single process."""

import importlib.util
import json
import marshal
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from lillux.cancellation import Cancellation
from lillux.process.model import MIB
from ryeos.items.errors import SpecError
from ryeos.run.functions import FunctionHost
from ryeos.run.model import ExecutionRequest, ExecutionResult
from tests.support.executables import make_program
from tests.support.workspace import Workspace

linux = pytest.mark.skipif(sys.platform != "linux", reason="Linux gives orphans to their adopter")
RUNTIME = "rye/core/runtimes/python/function"
WARM, SINGLE = "warm worker", "process of its own"


@pytest.fixture(params=[WARM, SINGLE])
def functions(request: pytest.FixtureRequest) -> Iterator[FunctionHost | None]:
    if request.param == SINGLE:
        yield None
        return
    if not hasattr(os, "fork"):
        pytest.skip("this system cannot fork")
    host = FunctionHost()
    yield host
    host.close()


class Caller:
    """Writes one tool and calls it, again and again as a server would."""

    def __init__(self, workspace: Workspace, functions: FunctionHost | None) -> None:
        self.workspace = workspace
        self.rye = workspace.rye(functions=functions)

    def write(self, body: str, item_id: str = "mine/t", **header: Any) -> Path:  # noqa: ANN401
        return self.workspace.project.signed_tool(item_id, body, executor=RUNTIME, **header)

    def call(self, item_id: str = "mine/t", **options: Any) -> ExecutionResult:  # noqa: ANN401
        cancellation = options.pop("cancellation", None)
        on_stderr = options.pop("on_stderr", None)
        timeout_s = options.pop("timeout_s", None)
        request = ExecutionRequest(
            item_id=item_id, parameters=options, timeout_s=timeout_s, use_lockfile=False
        )
        return self.rye.executor.execute(request, cancellation=cancellation, on_stderr=on_stderr)


@pytest.fixture
def caller(workspace: Workspace, functions: FunctionHost | None) -> Caller:
    return Caller(workspace, functions)


def failure(result: ExecutionResult) -> str:
    assert not result.success
    assert result.failure is None
    return str(result.error)


# --- sources of its modules


def test_the_library_is_taken_from_its_bytecode_and_verified_files_from_their_source(
    caller: Caller,
) -> None:
    caller.workspace.project.signed("tools/mine/helper.py", "X = 1\n")
    caller.write("""
import sys
COMPILED = []
sys.addaudithook(lambda event, what: COMPILED.append(what[1]) if event == "compile" else None)
import helper, tempfile
def execute(params, project_path):
    return [name for name in map(str, COMPILED) if name.endswith(".py")]
""")

    helper = caller.workspace.project.space.ai / "tools/mine/helper.py"
    assert caller.call().data == [str(helper)]


@pytest.mark.skipif(os.name == "nt", reason="the packages of an environment lie elsewhere there")
def test_a_package_is_taken_from_bytecode_of_its_own_source_alone(
    caller: Caller, tmp_path: Path
) -> None:
    environment = tmp_path / "environment"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True)
    caller.workspace.env["PATH"] = f"{environment / 'bin'}{os.pathsep}{os.environ['PATH']}"
    caller.rye = caller.workspace.rye(functions=caller.rye._functions)
    (packages,) = environment.glob("lib/python*/site-packages")
    for name in ("current", "older", "foreign", "unchecked"):
        source = packages / f"{name}.py"
        source.write_text("X = 'source'\n", encoding="utf-8")
        status = source.stat()
        compiled = packages / f"__pycache__/{name}.{sys.implementation.cache_tag}.pyc"
        compiled.parent.mkdir(exist_ok=True)
        code = marshal.dumps(compile("X = 'kept'", str(source), "exec"))
        magic = b"none" if name == "foreign" else importlib.util.MAGIC_NUMBER
        flags = 1 if name == "unchecked" else 0
        changed_s = 0 if flags or name == "older" else int(status.st_mtime)
        numbers = b"".join(n.to_bytes(4, "little") for n in (flags, changed_s, status.st_size))
        compiled.write_bytes(magic + numbers + code)
    caller.workspace.project.signed("tools/mine/helper.py", "")  # so there is something to verify
    caller.write("""
import helper, current, older, foreign, unchecked
def execute(params, project_path):
    return [one.X for one in (current, older, foreign, unchecked)]
""")

    assert caller.call().data == ["kept", "source", "source", "kept"]


# --- how a function is called


@pytest.mark.parametrize(
    "function",
    [
        "def execute(params, project_path): return [params, project_path]",
        "async def execute(params, project_path): return [params, project_path]",
        "def execute(*both): return list(both)",
        "def execute(params, project_path=None): return [params, project_path]",
        """def execute(params, project_path):
    async def later(): return [params, project_path]
    return later()""",
        """class Tool:
    def __call__(self, params, project_path): return [params, project_path]
execute = Tool()""",
        """class Tool:
    def run(self, params, project_path): return [params, project_path]
execute = Tool().run""",
    ],
)
def test_execute_gets_the_parameters_and_the_project(caller: Caller, function: str) -> None:
    caller.write(f"\n{function}\n")

    assert caller.call(a=1, b=["ü", None]).data == [
        {"a": 1, "b": ["ü", None]},
        str(caller.workspace.project_path),
    ]


@pytest.mark.parametrize(
    "function",
    [
        "def execute(params): return params",
        "def execute(**params): return params",
        "def execute(*, a, b): return {'a': a, 'b': b}",
        "def main(**kwargs): return kwargs",
        "def main(a, b): return {'a': a, 'b': b}",
        "async def main(a, b=None): return {'a': a, 'b': b}",
        "def main(): return 'main'\ndef execute(params): return params",
    ],
)
def test_a_function_may_take_the_parameters_alone(caller: Caller, function: str) -> None:
    caller.write(f"\n{function}\n")

    assert caller.call(a=1, b="two").data == {"a": 1, "b": "two"}


def test_main_gets_the_project_when_it_asks_for_it(caller: Caller) -> None:
    caller.write("\ndef main(a, project_path): return [a, project_path]\n")

    assert caller.call(a=1).data == [1, str(caller.workspace.project_path)]


def test_an_error_about_a_tool_without_a_function_names_the_expected_ones(caller: Caller) -> None:
    path = caller.write("\nexecute = 3\n")

    assert failure(caller.call()) == (
        f"No execute() in {path}: expected execute(params, project_path) or main(**params)"
    )


def test_a_tool_that_is_no_python_file_is_refused(caller: Caller) -> None:
    caller.workspace.project.signed_yaml("mine/t", executor=RUNTIME)

    result = caller.call()

    assert isinstance(result.failure, SpecError)
    assert "expected a Python file with execute(params, project_path)" in str(result.error)


# --- results


@pytest.mark.parametrize(
    ("expression", "data"),
    [
        ("None", {}),
        ("0", 0),
        ("False", False),
        ("''", ""),
        ("[]", []),
        ("{'a': (1, 2.5)}", {"a": [1, 2.5]}),
        ("'\\ud800 ü'", "\ud800 ü"),
        ("__import__('pathlib').PurePosixPath('/a')", "/a"),
        ("__import__('datetime').date(2026, 1, 2)", "2026-01-02"),
        ("{1: 'one', None: 'none'}", {"1": "one", "null": "none"}),
    ],
)
def test_a_result_is_any_json(caller: Caller, expression: str, data: object) -> None:
    caller.write(f"\ndef execute(params, project_path): return {expression}\n")

    assert caller.call().data == data


@pytest.mark.parametrize(
    ("expression", "problem"),
    [
        ("{'a': [1, {2}]}", "result['a'][1] is of type set"),
        ("float('nan')", "result is nan"),
        ("[float('-inf')]", "result[0] is -inf"),
        ("{(1, 2): 3}", "result has a key of type tuple"),
        ("b'bytes'", "result is of type bytes"),
        ("(lambda loop: loop.append(loop) or loop)([])", "is nested too deep, or contains itself"),
    ],
)
def test_a_result_that_json_cannot_hold_is_named(
    caller: Caller, expression: str, problem: str
) -> None:
    caller.write(f"\ndef execute(params, project_path): return {expression}\n")

    error = failure(caller.call())

    assert error.startswith("the result cannot be written as JSON: ")
    assert problem in error
    assert "give back only objects, lists, text, numbers, true, false and None" in error


def test_printed_text_never_reaches_the_result_of_a_tool(caller: Caller) -> None:
    caller.write(
        "\nimport os, subprocess, sys\nprint('at import')\n"
        "def execute(params, project_path):\n"
        "    print('print')\n    os.write(1, b'descriptor\\n')\n"
        "    subprocess.run(['echo', 'child'], check=True)\n"
        "    sys.__stdout__.write('stream\\n')\n    return 'result'\n"
    )
    seen: list[bytes] = []

    result = caller.call(on_stderr=seen.append)

    assert result.data == "result"
    lines = {"at import", "print", "descriptor", "child", "stream"}
    assert set(b"".join(seen).decode().splitlines()) == lines
    assert set(result.metadata["stderr"].splitlines()) == lines


def test_parameters_of_ten_mebibytes_go_in_and_come_out(caller: Caller) -> None:
    caller.write(
        '\nCONFIG = {"max_output_bytes": 33554432}\n'
        "def execute(params, project_path): return params['text']\n"
    )
    text = "x" * 10 * MIB

    assert caller.call(text=text).data == text


def test_a_result_over_the_limit_is_refused(caller: Caller) -> None:
    caller.write("\ndef execute(params, project_path): return 'x' * 11_000_000\n")

    assert failure(caller.call()).startswith("output too large: 11000002 bytes")


def test_standard_input_of_a_function_is_empty(caller: Caller) -> None:
    caller.write("\nimport sys\ndef execute(params, project_path): return sys.stdin.read()\n")

    assert caller.call(a=1).data == ""


# --- failures, after each of which the next call works


@pytest.mark.parametrize(
    ("statement", "error"),
    [
        ("raise ValueError('bad')", "ValueError: bad"),
        ("sys.exit(3)", "sys.exit(3) was called before there was a result"),
        ("sys.exit()", "sys.exit() was called before there was a result"),
        ("sys.exit('why')", "sys.exit('why') was called before there was a result"),
        ("os._exit(0)", "the tool ended its process before there was a result"),
        ("os._exit(7)", "Process exited with code 7"),
        ("os.kill(os.getpid(), 11)", "terminated by signal SIGSEGV"),
        ("os.kill(os.getpid(), 9)", "terminated by signal SIGKILL"),
        ("return {'success': False, 'error': 'mine'}", "mine"),
        ("missing", "NameError: name 'missing' is not defined"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt: "),
        ("[].append(1, 2)", "TypeError: list.append() takes exactly one argument (2 given)"),
        ("os.close(1); os.close(2); raise ValueError('closed')", "ValueError: closed"),
        ("import resource; raise MemoryError", "MemoryError: "),
    ],
)
def test_a_failure_is_reported_and_the_next_call_works(
    caller: Caller, statement: str, error: str
) -> None:
    caller.write(
        "\nimport os, sys\ndef execute(params, project_path):\n"
        f"    if params.get('well'): return 'well'\n    {statement}\n"
    )

    assert failure(caller.call()) == error
    assert caller.call(well=True).data == "well"


def test_the_death_of_a_process_is_reported_and_not_its_earlier_output(caller: Caller) -> None:
    caller.write(
        "\nimport os\ndef execute(params, project_path):\n"
        "    print('all is well', flush=True)\n    os.kill(os.getpid(), params['signal'])\n"
        "    os._exit(7)\n"
    )

    assert failure(caller.call(signal=11)) == "terminated by signal SIGSEGV"
    assert failure(caller.call(signal=0)) == "Process exited with code 7"


def test_a_traceback_names_the_line_of_the_tool_and_nothing_of_the_host(caller: Caller) -> None:
    path = caller.write("\ndef execute(params, project_path):\n    raise ValueError('bad')\n")

    stderr = caller.call().metadata["stderr"]

    assert f'File "{path}", line' in stderr
    assert "function_host" not in stderr
    assert "raise ValueError('bad')" in stderr


@pytest.mark.parametrize(
    ("statement", "error"),
    [
        ("import no_such_module", "ModuleNotFoundError: No module named 'no_such_module'"),
        ("raise ValueError('at import')", "ValueError: at import"),
        ("import sys; sys.exit(4)", "sys.exit(4) was called before there was a result"),
        ("import os; os._exit(0)", "the tool ended its process before there was a result"),
        ("import os; os._exit(9)", "Process exited with code 9"),
        ("import os; os.kill(os.getpid(), 9)", "terminated by signal SIGKILL"),
    ],
)
def test_a_failing_import_is_reported_each_time(caller: Caller, statement: str, error: str) -> None:
    caller.write(f"\n{statement}\ndef execute(params, project_path): return 1\n")

    assert error in failure(caller.call())
    assert error in failure(caller.call())


@pytest.mark.parametrize("where", ["import", "call"])
def test_a_function_that_hangs_is_ended_in_time(caller: Caller, where: str) -> None:
    hang = "time.sleep(1000)"
    caller.write(
        f"\nimport os, time\n{hang if where == 'import' else ''}\n"
        f"def execute(params, project_path):\n    {hang}\n"
    )

    result = caller.call(timeout_s=0.5)

    assert failure(result) == "Command timed out after 0.5 seconds"
    assert result.metadata["error_code"] == "TIMEOUT"
    assert result.duration_ms < 2000


@pytest.mark.heavy
def test_a_function_that_ignores_the_polite_signal_is_killed(caller: Caller) -> None:
    caller.write(
        "\nimport signal, time\ndef execute(params, project_path):\n"
        "    if params: return 'well'\n"
        "    signal.signal(signal.SIGTERM, signal.SIG_IGN)\n    time.sleep(1000)\n"
    )

    assert failure(caller.call(timeout_s=0.2)) == "Command timed out after 0.2 seconds"
    assert caller.call(well=1).data == "well"


def test_a_cancelled_call_ends_with_all_it_has_started(caller: Caller, tmp_path: Path) -> None:
    pipe = tmp_path / "alive"
    os.mkfifo(pipe)
    caller.write(
        "\nimport subprocess\ndef execute(params, project_path):\n"
        f"    with open({str(pipe)!r}, 'w') as alive:\n"
        "        subprocess.run(['sleep', '1000'], stdout=alive)\n"
    )
    cancellation = Cancellation()
    results: list[ExecutionResult] = []
    thread = Thread(target=lambda: results.append(caller.call(cancellation=cancellation)))
    thread.start()

    with pipe.open("rb") as alive:
        cancellation.cancel()
        thread.join()
        assert alive.read() == b""  # the last process that could write has ended

    assert failure(results[0]) == "Command was cancelled"


@pytest.mark.parametrize(
    "start",
    [
        "exec sleep 1000",
        pytest.param("setsid sleep 1000", marks=linux),
        pytest.param(
            "(setsid sh -c '(setsid sleep 1000 &); exec env -i sleep 1000' &)", marks=linux
        ),
    ],
)
def test_orphan_processes_of_a_finished_call_are_ended(
    caller: Caller, functions: FunctionHost | None, tmp_path: Path, start: str
) -> None:
    if functions is None and "env -i" in start:
        pytest.skip("a process of its own is found by its environment")
    pipe = tmp_path / "alive"
    os.mkfifo(pipe)
    caller.write(
        "\nimport subprocess\ndef execute(params, project_path):\n"
        f"    subprocess.Popen(['sh', '-c', {f'exec 1> {pipe}; {start}'!r}])\n"
        f"    open({str(pipe)!r}, 'w').close()\n    return 1\n"
    )
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    os.set_blocking(reader, True)

    assert caller.call().data == 1

    assert os.read(reader, 1) == b""
    os.close(reader)


@linux
def test_a_helper_that_the_import_started_stays_for_the_next_call(
    workspace: Workspace,
) -> None:
    host = FunctionHost()
    caller = Caller(workspace, host)
    caller.write(
        "\nimport os, subprocess\nhelper = subprocess.Popen(['sleep', '1000']).pid\n"
        "def execute(params, project_path):\n"
        "    subprocess.Popen(['setsid', 'sleep', '1000'])\n"
        "    os.kill(helper, 0)\n    return helper\n"
    )
    try:
        assert caller.call().data == caller.call().data
    finally:
        host.close()


# --- isolation and environment


def test_no_call_sees_the_state_of_another(caller: Caller) -> None:
    caller.write(
        "\nimport os\nseen = []\ndef execute(params, project_path):\n"
        "    seen.append(1)\n    os.environ['LEFT'] = os.environ.get('LEFT', '') + 'x'\n"
        "    return [len(seen), os.environ['LEFT']]\n"
    )

    assert [caller.call().data for _ in range(3)] == [[1, "x"]] * 3


def test_a_changed_file_counts_at_once(caller: Caller) -> None:
    caller.write("\ndef execute(params, project_path): return 'old'\n")
    before = caller.call().data
    caller.write("\ndef execute(params, project_path): return 'new'\n", version="1.0.1")

    assert (before, caller.call().data) == ("old", "new")


def test_a_changed_module_beside_the_tool_counts_at_once(caller: Caller) -> None:
    project = caller.workspace.project
    project.signed("tools/mine/__init__.py", "")
    project.signed("tools/mine/sibling.py", "VALUE = 'old'\n")
    caller.write("\nimport sibling\ndef execute(params, project_path): return sibling.VALUE\n")
    before = caller.call().data
    project.signed("tools/mine/sibling.py", "VALUE = 'changed'\n")

    assert (before, caller.call().data) == ("old", "changed")


def test_a_changed_environment_counts_at_once(caller: Caller) -> None:
    caller.write(
        "\nimport os\nAT_IMPORT = os.environ.get('FOO')\n"
        "def execute(params, project_path): return [AT_IMPORT, os.environ.get('FOO')]\n"
    )
    dotenv = caller.workspace.project_path / ".env"
    seen = []
    for value in ("one", "two"):
        dotenv.write_text(f"FOO={value}\n", encoding="utf-8")
        caller.workspace.approve()
        caller.rye = caller.workspace.rye(functions=caller.rye._functions)
        seen.append(caller.call().data)

    assert seen == [["one", "one"], ["two", "two"]]


def test_tools_with_modules_of_one_name_do_not_share_them(caller: Caller) -> None:
    for tool in ("a", "b"):
        project = caller.workspace.project
        project.signed(f"tools/{tool}/__init__.py", "")
        project.signed(f"tools/{tool}/sibling.py", f"VALUE = {tool!r}\n")
        caller.write(
            "\nimport sibling\ndef execute(params, project_path): return sibling.VALUE\n",
            f"{tool}/t",
        )

    assert [caller.call(f"{tool}/t").data for tool in "abab"] == ["a", "b", "a", "b"]


def test_a_function_runs_in_the_project_with_its_own_environment(caller: Caller) -> None:
    path = caller.write(
        "\nimport os, sys\nENV_CONFIG = {'env': {'MINE': '1'}}\n"
        "def execute(params, project_path):\n"
        "    return [os.getcwd(), os.environ['MINE'], os.environ['RYE_TOOL_ID'], sys.argv,"
        " __file__, os.getsid(0) == os.getpid()]\n"
    )

    assert caller.call().data == [
        str(caller.workspace.project_path),
        "1",
        "mine/t",
        [str(path)],
        str(path),
        True,
    ]


def test_the_folder_of_the_host_and_of_the_tool_are_not_importable(caller: Caller) -> None:
    caller.workspace.project.write("tools/mine/planted.py", "VALUE = 'planted'\n")
    caller.write(
        "\ndef execute(params, project_path):\n    found = []\n"
        "    for name in ('planted', 'function_host'):\n        try:\n"
        "            __import__(name)\n            found.append(name)\n"
        "        except ImportError:\n            pass\n    return found\n"
    )

    assert caller.call().data == []


def test_threads_and_exit_handlers_of_a_call_are_waited_for(caller: Caller, tmp_path: Path) -> None:
    done = tmp_path / "done"
    caller.write(
        "\nimport atexit, threading, pathlib\ndef execute(params, project_path):\n"
        f"    done = pathlib.Path({str(done)!r})\n"
        "    def late():\n        threading.Event().wait(0.1)\n        done.write_text('thread ')\n"
        "    threading.Thread(target=late).start()\n"
        "    atexit.register(lambda: done.write_text(done.read_text() + 'exit'))\n    return 1\n"
    )

    assert caller.call().data == 1
    assert done.read_text("utf-8") == "thread exit"


def test_an_import_that_starts_threads_is_no_obstacle(caller: Caller) -> None:
    caller.write(
        "\nimport queue, threading\nwork = queue.Queue()\n"
        "def serve():\n    while True:\n"
        "        item, answer = work.get()\n        answer.put(item)\n"
        "threading.Thread(target=serve, daemon=True).start()\n"
        "def execute(params, project_path):\n    answer = queue.Queue()\n"
        "    work.put(('served', answer))\n    return answer.get(timeout=10)\n"
    )

    assert [caller.call().data for _ in range(2)] == ["served", "served"]


def test_many_calls_at_once_each_get_their_own_result(caller: Caller) -> None:
    caller.write("\ndef execute(params, project_path): return params['n']\n")
    results: dict[int, object] = {}

    def call(number: int) -> None:
        results[number] = caller.call(n=number).data

    threads = [Thread(target=call, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert results == {number: number for number in range(16)}


def test_a_file_changed_between_check_and_call_is_not_run(caller: Caller) -> None:
    path = caller.write("\ndef execute(params, project_path): return 1\n")
    assert caller.call().data == 1
    path.write_text(path.read_text("utf-8").replace("return 1", "return 2"), encoding="utf-8")

    result = caller.call()

    assert result.failure is not None
    assert result.failure.code == "INTEGRITY"


def test_a_dry_run_shows_the_command_and_calls_nothing(caller: Caller) -> None:
    path = caller.write("\nraise SystemExit('imported')\n")
    request = ExecutionRequest(item_id="mine/t", dry_run=True)

    result = caller.rye.executor.execute(request)

    assert result.success
    assert result.metadata["command"][2:4] == ["call", str(path)]
    assert json.dumps(result.metadata)


def test_a_missing_interpreter_is_named_with_the_searched_places(
    caller: Caller, tmp_path: Path
) -> None:
    caller.write("\ndef execute(params, project_path): return 1\n")
    caller.workspace.env["PATH"] = str(tmp_path)
    caller.rye = caller.workspace.rye(functions=caller.rye._functions)

    result = caller.call()

    assert result.failure is not None
    assert result.failure.code == "INTERPRETER_NOT_FOUND"
    assert str(tmp_path) in str(result.error)


def test_a_broken_interpreter_is_a_failure_with_its_output(caller: Caller, tmp_path: Path) -> None:
    caller.write("\ndef execute(params, project_path): return 1\n")
    make_program(tmp_path / "python3", "echo broken python >&2\nexit 9\n")
    caller.workspace.env["PATH"] = f"{tmp_path}{os.pathsep}/usr/bin"
    caller.rye = caller.workspace.rye(functions=caller.rye._functions)

    result = caller.call()

    assert failure(result) == "Process exited with code 9"
    assert result.metadata["stderr"] == "broken python\n"
