import os
import subprocess
import sys

import pytest

from lillux.process.states import is_alive, process_state, start_token
from tests.support.endings import zombie


def test_a_running_process_is_alive() -> None:
    assert is_alive(os.getpid())


def test_a_process_is_alive_under_its_own_token_and_no_other() -> None:
    token = start_token(os.getpid())

    assert token
    assert is_alive(os.getpid(), token)
    assert not is_alive(os.getpid(), f"{token}0")


def test_a_zombie_is_not_alive() -> None:
    with zombie() as pid:
        assert not is_alive(pid)


def test_a_zombie_still_has_its_token() -> None:
    with zombie() as pid:
        assert start_token(pid)


def test_a_process_that_was_waited_for_is_not_alive_and_has_no_token() -> None:
    with subprocess.Popen(["true"]) as process:
        pass

    assert not is_alive(process.pid)
    assert start_token(process.pid) == ""


@pytest.mark.parametrize("pid", [-1, 0, 2**31, 2**70])
def test_a_number_that_names_no_process_is_not_alive(pid: int) -> None:
    assert not is_alive(pid)
    assert start_token(pid) == ""


def test_a_process_of_another_user_is_alive() -> None:
    assert is_alive(1)


def test_a_name_with_parentheses_and_spaces_is_no_field() -> None:
    rename = "ctypes.CDLL(None).prctl(15, b'a) Z (b')"
    code = f"import ctypes, sys; {rename}; print(flush=True); sys.stdin.read()"
    if sys.platform != "linux":
        pytest.skip("only Linux lets a process rename itself so")
    argv = [sys.executable, "-I", "-c", code]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()

        assert is_alive(process.pid, start_token(process.pid))


def test_two_calls_of_ps_agree_where_there_is_no_proc() -> None:
    first, second = (process_state(os.getpid(), "darwin") for _ in range(2))

    assert first is not None
    assert first == second
    assert first.group == os.getpgrp()
    assert not first.ended


def test_ps_shows_no_process_that_is_gone() -> None:
    with subprocess.Popen(["true"]) as process:
        pass

    assert process_state(process.pid, "darwin") is None


@pytest.mark.parametrize("pid", [-1, 0, 2**31, 2**40])
def test_on_windows_too_a_number_that_names_no_process_is_not_alive(pid: int) -> None:
    assert not is_alive(pid, platform="win32")
    assert start_token(pid, platform="win32") == ""
