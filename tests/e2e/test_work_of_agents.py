"""What works in a writable project under an agent: the table of ``docs/rights.md``."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from lillux.landlock import landlock_version
from lillux.supervisor import can_supervise
from lillux.values import dataclass
from tests.support.built import BASE_PYTHON
from tests.support.programs import require_program

pytestmark = [
    pytest.mark.heavy,
    pytest.mark.skipif(
        not (landlock_version() and can_supervise()), reason="held by Landlock and seccomp"
    ),
]

NOBODY = 65534


@dataclass(frozen=True, slots=True)
class Job:
    """What an agent does in a project with these files; ``made`` is there afterwards."""

    program: str
    files: Mapping[str, str]
    command: str
    made: str


# A build backend in the project: there is no index to install one from.
BACKEND = """
import os, zipfile

def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    name = "dep-1-py3-none-any.whl"
    with zipfile.ZipFile(os.path.join(wheel_directory, name), "w") as wheel:
        wheel.writestr("dep.pth", os.getcwd())
        about = "Metadata-Version: 2.1\\nName: dep\\nVersion: 1\\n"
        wheel.writestr("dep-1.dist-info/METADATA", about)
        wheel.writestr(
            "dep-1.dist-info/WHEEL",
            "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n",
        )
        wheel.writestr("dep-1.dist-info/RECORD", "")
    return name
"""
PYPROJECT = '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
JOBS = {
    "git commit": Job(
        "git",
        {"a.txt": "a"},
        "git init -q . && git add a.txt"
        " && git -c user.name=a -c user.email=a@b.example commit -qm x"
        " && git status --short && git log --oneline && git gc -q",
        ".git/HEAD",
    ),
    "pip install -e": Job(
        "python3",
        {"pyproject.toml": PYPROJECT, "backend.py": BACKEND, "dep.py": "X = 1\n"},
        "python3 -m venv .venv"
        " && .venv/bin/pip install -q --no-index --disable-pip-version-check --no-build-isolation"
        " -e . && cd / && $OLDPWD/.venv/bin/python -c 'import dep; assert dep.X == 1'",
        ".venv/bin/pip",
    ),
    "npm install": Job(
        "npm",
        {
            "package.json": '{"name": "a", "version": "1.0.0", "dependencies":'
            ' {"dep": "file:./dep"}}',
            "dep/package.json": '{"name": "dep", "version": "1.0.0", "main": "i.js"}',
            "dep/i.js": "module.exports = 1\n",
        },
        "npm install --offline --no-audit --no-fund && node -e 'require(\"dep\")'",
        "package-lock.json",
    ),
    "cargo build": Job(
        "cargo",
        {
            "Cargo.toml": '[package]\nname = "a"\nversion = "1.0.0"\nedition = "2021"\n',
            "src/main.rs": 'fn main() { println!("made"); }\n',
        },
        "cargo build -q --offline && ./target/debug/a",
        "target/debug/a",
    ),
    "go test": Job(
        "go",
        {
            "go.mod": "module a.example/a\n\ngo 1.20\n",
            "a_test.go": 'package a\n\nimport "testing"\n\n'
            "func TestA(t *testing.T) { t.TempDir() }\n",
        },
        # Without optimising, the library of Go is compiled in half of the time.
        "GOTOOLCHAIN=local GOFLAGS=\"-mod=mod '-gcflags=all=-N -l -dwarf=false' -ldflags=-w\""
        " go test -o a.test ./... && ls a.test",
        "a.test",
    ),
    "make": Job(
        "gcc",
        {
            "Makefile": "a: a.c\n\tgcc -o a a.c\n"
            "install: a\n\tinstall -D -m 755 a $(PREFIX)/bin/a\n",
            "a.c": "int main(void) { return 0; }\n",
        },
        "make -s && make -s install PREFIX=$PWD/prefix && prefix/bin/a",
        "prefix/bin/a",
    ),
    "pytest": Job(
        "python3",
        {"test_a.py": "def test_a(tmp_path):\n    (tmp_path / 'a').write_text('a')\n"},
        f"{sys.executable} -m pytest -q test_a.py",
        ".pytest_cache/README.md",
    ),
    "tar x": Job(
        "tar",
        {"in/a.txt": "a", "in/b/c.txt": "c"},
        "chmod 750 in/a.txt && touch -d 2001-01-01 in/a.txt && tar czf in.tgz in && mkdir out"
        " && tar xzpf in.tgz -C out"
        " && test $(stat -c %a%Y out/in/a.txt) = $(stat -c %a%Y in/a.txt)",
        "out/in/b/c.txt",
    ),
    "cp -p": Job(
        "cp",
        {"a.txt": "a", "d/b.txt": "b"},
        "chmod 640 a.txt && touch -d 2001-01-01 a.txt && cp -p a.txt c.txt && cp -a d e"
        " && test $(stat -c %a%Y a.txt) = $(stat -c %a%Y c.txt)",
        "e/b.txt",
    ),
}


class Agent:
    """A client of ``rye mcp`` that runs as another user, and the project that it works in."""

    def __init__(self, folder: Path, rye: Path, user: int) -> None:
        self.project, self._home = folder / "project", folder / "home"
        self._program = folder / "rye.pyz"
        shutil.copy(rye, self._program)
        self._user = user
        for made in (self._home, self.project):
            made.mkdir()
        self.give()
        self.run("init", "--project", str(self.project))

    def give(self) -> None:
        """Give all files to the user."""
        folder = self.project.parent
        for path in (folder, *folder.rglob("*")):
            os.chown(path, self._user, self._user, follow_symlinks=False)

    def _words(self, *words: str) -> list[str]:
        python = [str(BASE_PYTHON), str(self._program), *words]
        if self._user == os.getuid():
            return python
        ids = [f"--reuid={self._user}", f"--regid={self._user}", "--clear-groups"]
        return [str(require_program("setpriv")), *ids, *python]

    def _environment(self) -> dict[str, str]:
        rustup = os.environ.get("RUSTUP_HOME", str(Path.home() / ".rustup"))
        return {"PATH": os.environ["PATH"], "HOME": str(self._home), "RUSTUP_HOME": rustup}

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self._words(*words),
            env=self._environment(),
            cwd=self.project,
            capture_output=True,
            encoding="utf-8",
            check=True,
        )

    def call(self, command: str) -> dict[str, object]:
        """The answer to a command in the bundle's shell."""
        arguments = {"item_id": "rye/bash/bash", "parameters": {"command": command}}
        info = {"name": "a", "version": "1"}
        started = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info}
        messages = (
            {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": started},
            {
                "jsonrpc": "2.0",
                "id": 1,
                "method": "tools/call",
                "params": {"name": "execute", "arguments": arguments},
            },
        )
        with subprocess.Popen(
            self._words("mcp", "--project", str(self.project)),
            env=self._environment(),
            cwd=self.project,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            encoding="utf-8",
        ) as server:
            assert server.stdin
            assert server.stdout
            for message in messages:
                server.stdin.write(json.dumps(message) + "\n")
                server.stdin.flush()
                while (said := json.loads(server.stdout.readline())).get("id") != message["id"]:
                    pass
            server.stdin.close()
            server.wait(60)
        found: dict[str, object] = said["result"]["structuredContent"]
        return found


@pytest.fixture(params=["root", "another user"])
def agent(request: pytest.FixtureRequest, built_pyz: Path) -> Iterator[Agent]:
    if os.getuid() != 0 and request.param == "root":
        pytest.skip("these tests do not run as root")
    user = os.getuid() if os.getuid() or request.param == "root" else NOBODY
    with TemporaryDirectory(prefix="a", dir="/tmp") as folder:
        Path(folder).chmod(0o755)
        yield Agent(Path(folder), built_pyz, user)


@pytest.mark.parametrize("name", JOBS)
def test_it_works_in_a_writable_project_under_an_agent(agent: Agent, name: str) -> None:
    job = JOBS[name]
    program = require_program(job.program)
    for path, text in job.files.items():
        (agent.project / path).parent.mkdir(parents=True, exist_ok=True)
        (agent.project / path).write_text(text, "utf-8")
    agent.give()
    usable = agent.call(f"test -x {program}")
    if usable["status"] != "success":
        # It is there, for root: the other half of the test has run it.
        pytest.skip(f"{program} is not for the user of this test")

    reply = agent.call(job.command)

    assert reply["status"] == "success", reply
    assert (agent.project / job.made).exists()
