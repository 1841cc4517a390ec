"""Peers of an interoperability trial: our programs as built, the public ones in a venv.

Each has a home folder of its own, empty at first, and nothing of this machine's environment.
"""

import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import IO, Any

from lillux.values import dataclass
from packing import BuildError

PACKAGES = (
    "ryeos-node==0.1.15",
    "ryeos-engine==0.1.27",
    "ryeos-core==0.1.46",
    "ryeos==0.1.30",
    "ryeos-cli==0.1.9",
    "lillux==0.2.1",
    "httpx",
)
_URL = re.compile(r"(http://127\.0\.0\.1:\d+)")
_MAX_SHOWN = 3000
_SECONDS_TO_END = 30
# The call that the public command line makes; its own `execute` takes no parameters.
_ASK = """
import asyncio, json, os, sys
from rye.actions.execute import ExecuteTool
call = ExecuteTool(os.environ["HOME"]).handle(
    item_id=sys.argv[1], project_path=os.getcwd(), parameters=json.loads(sys.argv[2]))
print(json.dumps(asyncio.run(call), default=str))
"""


def public_venv(folder: Path) -> Path:
    """The ``bin`` of a venv with the public packages, made or brought up to date in a folder."""
    if not (folder / "bin" / "python").exists():
        _done([sys.executable, "-m", "venv", str(folder)], folder.parent, None)
    pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", *PACKAGES]
    _done(pip, folder.parent, None)
    return folder / "bin"


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """A user at a project, with one of the two command lines.

    program  the words that start it
    path     further folders of its PATH
    """

    home: Path
    project: Path
    program: tuple[str, ...]
    path: str = ""

    def run(self, *words: str, stdin: str = "", **environ: str) -> str:
        """The standard output of a command. Raises BuildError for another status."""
        env = _environ(self.home, self.path) | environ
        return _done([*self.program, *words], self.project, env, stdin)

    def ask(self, *words: str, stdin: str = "", **environ: str) -> dict[str, Any]:
        """The answer of a command of ours, as JSON."""
        return _read(self.run(*words, "--json", stdin=stdin, **environ))

    def call(self, item_ref: str, **parameters: object) -> dict[str, Any]:
        """The data of a call of a public tool. Raises BuildError unless it succeeded."""
        python = str(Path(self.program[0]).with_name("python"))
        words = [python, "-c", _ASK, item_ref, json.dumps(parameters)]
        answer = _read(_done(words, self.project, _environ(self.home, self.path)))
        if answer.get("status") != "success":
            raise BuildError(item_ref, f"expected success, found {json.dumps(answer)[:_MAX_SHOWN]}")
        return dict(answer["data"])

    def remote(self, action: str, **parameters: object) -> dict[str, Any]:
        """The data of an action of the public tool for remotes."""
        return self.call("tool:rye/core/remote/remote", action=action, **parameters)

    def write(self, path: str, text: str) -> None:
        """Write a file of the project."""
        target = self.project / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")


def our_client(home: Path, project: Path, file: Path) -> Client:
    """A user of the built file."""
    _make(home, project)
    return Client(home=home, project=project, program=(sys.executable, str(file)))


def public_client(home: Path, project: Path, programs: Path) -> Client:
    """A user of the public command line."""
    _make(home, project)
    return Client(home=home, project=project, program=(str(programs / "rye"),), path=str(programs))


@contextmanager
def our_node(data: Path, file: Path, key: Path) -> Iterator[str]:
    """Our node, which lets a key in; its address."""
    _make(data)
    program = [sys.executable, str(file)]
    environ = _environ(data)
    _done([*program, "keys", "add", str(key), "--data", str(data)], data, environ)
    words = [*program, "serve", "--port", "0", "--data", str(data)]
    with _served(words, data, environ, data / "log") as url:
        yield url


@contextmanager
def public_node(data: Path, programs: Path, public_key: str) -> Iterator[str]:
    """The public node, which lets a key in (``ed25519:...``); its address."""
    _make(data)
    environ = _environ(data, str(programs)) | {
        "CAS_BASE_PATH": str(data / "cas"),
        "SIGNING_KEY_DIR": str(data / "cas" / "signing"),
        "BOOTSTRAP_PUBLIC_KEY": public_key,
    }
    python = str(programs / "python")
    _done([python, "-m", "ryeos_node.init", str(data / "cas")], data, environ)
    words = [python, "-m", "uvicorn", "ryeos_node.server:app", "--host", "127.0.0.1", "--port", "0"]
    with _served(words, data, environ, data / "log") as url:
        yield url


@contextmanager
def _served(
    words: Sequence[str], cwd: Path, environ: Mapping[str, str], log: Path
) -> Iterator[str]:
    """A server's address, once it says on standard error where it is. It is ended afterwards."""
    process = subprocess.Popen(
        words,
        cwd=cwd,
        env=environ,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
    )
    try:
        said = ""
        for line in process.stderr or ():
            said += line
            found = _URL.search(line)
            if found:
                break
        else:
            raise BuildError(words[2], f"it did not start\n{said[-_MAX_SHOWN:]}")
        # From here on a file takes what it says: a full pipe would stop it.
        Thread(target=_keep, args=(process.stderr, log), daemon=True).start()
        yield found[1]
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(_SECONDS_TO_END)


def _keep(said: IO[str] | None, log: Path) -> None:
    log.write_text(said.read() if said else "", encoding="utf-8")


def _make(*folders: Path) -> None:
    for folder in folders:
        folder.mkdir(parents=True, exist_ok=True)


def _environ(home: Path, path: str = "") -> dict[str, str]:
    own = ":".join(folder for folder in (path, "/usr/local/bin", "/usr/bin", "/bin") if folder)
    return {"PATH": own, "HOME": str(home), "LANG": "C.UTF-8"}


def _done(
    words: Sequence[str], cwd: Path, environ: Mapping[str, str] | None, stdin: str = ""
) -> str:
    done = subprocess.run(
        words,
        cwd=cwd,
        env=environ,
        input=stdin,
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
    if done.returncode:
        output = (done.stdout + done.stderr)[-_MAX_SHOWN:]
        raise BuildError(" ".join(words[1:])[:200], f"status {done.returncode}\n{output}")
    return done.stdout


def _read(text: str) -> dict[str, Any]:
    return dict(json.loads(text))
