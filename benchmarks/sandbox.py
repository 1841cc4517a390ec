"""The cost of declared rights: a confined start, a run, a receipt, a download by the proxy."""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.request import urlopen

from benchmarks.timing import Figure, medians
from lillux import landlock
from lillux.http.forwarder import Forwarder, Hosts
from lillux.process import ProcessManager
from lillux.process.model import Command
from lillux.sandbox import Confinement
from lillux.seccomp import Sockets
from lillux.system_places import system_places
from ryeos.run.receipt_key import ReceiptKey
from ryeos.run.receipt_log import ReceiptLog

STARTS, RUNS, RECEIPTS, DOWNLOADS = 200, 40, 300, 7
SIZE = 100 * 1000 * 1000
TOOL = "rye/file-system/read"


def figures(pyz: Path, scratch: Path) -> Iterator[Figure]:
    """Rows for a start, with kept rules and new ones, a run, a receipt, and a download."""
    yield from _starts(scratch)
    yield from _runs(pyz, scratch)
    yield from _receipts(scratch)
    yield from _downloads(scratch)


def _starts(scratch: Path) -> Iterator[Figure]:
    manager, folder = ProcessManager(), scratch / "start"
    folder.mkdir()
    wanted = Confinement(
        readable=tuple(system_places()),
        writable=(Path("/dev/null"), folder),
        sockets=Sockets(network=False),
        is_hardened=True,
    )
    bare = Command(argv=("/bin/true",), env={})
    held = Command(argv=("/bin/true",), env={}, confinement=wanted)

    def anew() -> None:
        for _, ruleset in landlock.kept_rulesets.values():  # what is kept is not this figure
            os.close(ruleset)
        landlock.kept_rulesets.clear()
        manager.run(held)

    calls: dict[str, Callable[[], object]] = {
        "bare": lambda: manager.run(bare),
        "kept": lambda: manager.run(held),
        "anew": anew,
    }
    bwrap = shutil.which("bwrap")
    if bwrap:
        words = wanted.bubblewrap_words(bwrap)
        peer = Command(argv=(*words, "/bin/true"), env={})
        calls["bwrap"] = lambda: manager.run(peer)
    found = medians(calls, STARTS)
    yield Figure("confined start, kept rules", found["kept"], "bare start", found["bare"], "+1 ms")
    yield Figure("confined start, new rules", found["anew"], "bare start", found["bare"], "+2 ms")
    if bwrap:
        yield Figure("the same by bwrap", found["bwrap"], "bare start", found["bare"])


def _runs(pyz: Path, scratch: Path) -> Iterator[Figure]:
    project, home = scratch / "run" / "project", scratch / "run" / "home"
    for folder in (project / ".ai", home):
        folder.mkdir(parents=True)
    (project / "a.txt").write_text("text\n")
    # No shim of a version manager: it costs a run that is not confined 80 ms more.
    path = f"{Path(sys.executable).resolve().parent}:{os.environ['PATH']}"
    env = {**os.environ, "HOME": str(home), "PATH": path}
    words = [sys.executable, str(pyz), "run", TOOL, "path=a.txt", "--no-lock"]

    def run(**more: str) -> None:
        subprocess.run(words, cwd=project, env=env | more, check=True, capture_output=True)

    run()
    found = medians({"held": run, "off": lambda: run(RYE_SANDBOX="off")}, RUNS)
    yield Figure("run of a confined tool", found["held"], "the same, off", found["off"], "+5 %")


def _receipts(scratch: Path) -> Iterator[Figure]:
    log = ReceiptLog(scratch / "receipts", ReceiptKey(scratch / "key"))
    chain = [{"id": f"a/{n}", "sha256": "0" * 64, "signer": "1" * 64} for n in range(3)]
    predicate = {
        "item": "tool:a/b",
        "chain": chain,
        "environment": [f"NAME_{n}" for n in range(30)],
    }
    line = b"x" * 2000

    def flat() -> None:
        with (scratch / "flat").open("ab") as file:
            file.write(line)

    found = medians({"receipt": lambda: log.append(predicate, []), "flat": flat}, RECEIPTS)
    yield Figure("a receipt", found["receipt"], "appending a line", found["flat"], "at most 1 ms")


def _downloads(scratch: Path) -> Iterator[Figure]:
    folder = scratch / "pages"
    folder.mkdir()
    with (folder / "big").open("wb") as file:
        file.truncate(SIZE)
    with subprocess.Popen(
        [sys.executable, "-u", "-m", "http.server", "0", "--bind", "127.0.0.1"],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as server:
        try:
            line = server.stdout.readline() if server.stdout else b""
            port = int(line.split()[5])
            url = f"http://127.0.0.1:{port}/big"
            forwarder = Forwarder(Hosts((f"127.0.0.1:{port}",)))
            _wait_for(url)
            proxied = {"http_proxy": forwarder.variables()["HTTP_PROXY"]}
            found = medians(
                {"proxy": lambda: _download(url, proxied), "direct": lambda: _download(url, {})},
                DOWNLOADS,
            )
        finally:
            server.terminate()
    yield Figure("100 MB through the proxy", found["proxy"], "direct", found["direct"], "+10 %")


def _download(url: str, env: dict[str, str]) -> None:
    """Fetch a file as tools do, in a process of its own."""
    code = (
        "import sys, urllib.request\n"
        "with urllib.request.urlopen(sys.argv[1]) as page:\n"
        "    while page.read(1 << 20):\n        pass\n"
    )
    words = [sys.executable, "-I", "-c", code, url]
    subprocess.run(words, env=env, check=True)


def _wait_for(url: str) -> None:
    deadline = time.monotonic() + 10
    while True:
        try:
            with urlopen(url, timeout=5):  # noqa: S310 - our own server
                return
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
