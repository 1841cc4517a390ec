"""First steps of our programs where their surroundings are odd.

Imported only there: an ordinary start pays for none of it.
"""

import os
import signal
import sys
from io import TextIOWrapper
from typing import NoReturn

UTF8 = ("utf-8", "utf8")
_FORWARDED = ("SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGALRM")
_OF_THE_KERNEL = 0x80  # ``si_code`` of a signal that no process has sent


def begin() -> None:
    """UTF-8 whatever the locale, and an init for what a program leaves behind in a container."""
    if sys.getfilesystemencoding() != "utf-8":  # Linux in another locale; elsewhere it always is
        go_on_in_utf8()
    if os.getpid() == 1:
        go_on_as_child()
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        # Set by PYTHONIOENCODING, or the code page of a pipe on Windows.
        if isinstance(stream, TextIOWrapper) and stream.encoding.lower() not in UTF8:
            stream.reconfigure(encoding="utf-8", errors="surrogateescape")


def go_on_in_utf8() -> None:
    """Start this program once more with Python in UTF-8, whatever the locale is.

    File names, words of programs and variables are UTF-8 to all that we talk to. In a locale of
    another encoding Python could not even name them. Returns where that is not possible.
    """
    words = sys.orig_argv
    if not sys.executable or not words or sys.flags.utf8_mode:
        return
    sys.stdout.flush()
    try:
        os.execv(sys.executable, [words[0], "-X", "utf8", *words[1:]])  # noqa: S606 - ourselves
    except OSError:
        return  # as it is, then


def go_on_as_child() -> None:
    """Continue in a child, and be its init here: for the first process of a container.

    Orphans become children of the first process, and stay zombies unless that waits for them. Which
    of them are programs of ours, that another part waits for, a separate process need not know.
    Returns in the child alone; the parent hands on signals, and ends with the child's status.
    """
    awaited = {getattr(signal, name) for name in _FORWARDED} | {signal.SIGCHLD}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, awaited)
    child = os.fork()
    if child:
        _be_init(child, awaited)
    signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _be_init(child: int, awaited: set[signal.Signals]) -> NoReturn:
    while True:
        news = signal.sigwaitinfo(awaited)
        if news.si_signo == signal.SIGCHLD:
            _reap(child)
        elif news.si_code != _OF_THE_KERNEL:  # the terminal has told the child already
            os.kill(child, news.si_signo)


def _reap(child: int) -> None:
    """Wait for all that has ended; end with the child."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if not pid:
            return
        if pid == child:
            code = os.waitstatus_to_exitcode(status)
            os._exit(code if code >= 0 else 128 - code)
