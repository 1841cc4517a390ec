"""The two wheels, installed into a folder of their own."""

import subprocess
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from urllib.request import urlopen

import pytest

from rye_services.process.watch import INSTALL
from ryeos import __version__
from tests.support.built import ROOT
from tests.support.workspace import PLAIN_ENV

NODE = ROOT / "packing" / "rye-node" / "pyproject.toml"


def test_the_wheel_of_the_node_needs_this_version_and_the_libraries_of_its_file() -> None:
    needed = tomllib.loads(NODE.read_text("utf-8"))["project"]["dependencies"]
    listed = (ROOT / "requirements" / "node.in").read_text("utf-8").splitlines()
    libraries = [line.split()[0] for line in listed if line and not line.startswith(("#", "-"))]

    assert needed == [f"rye-workspace=={__version__}", *libraries]


def test_extras_of_a_node_can_be_installed_with_its_wheel() -> None:
    extras = tomllib.loads(NODE.read_text("utf-8"))["project"]["optional-dependencies"]

    assert set(extras) == {"cluster", "opentelemetry", "postgresql"}
    assert extras["postgresql"] == ["psycopg[binary]"]
    assert all(f" {name}" in f" {INSTALL}" for name in extras["opentelemetry"])


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with both wheels in it; their libraries are those of this Python."""
    wheels, folder = tmp_path_factory.mktemp("wheels"), tmp_path_factory.mktemp("installed")
    pip = [sys.executable, "-m", "pip"]
    built = ["wheel", "-q", "--no-deps", "-w", str(wheels), str(NODE.parent), str(ROOT)]
    subprocess.run([*pip, *built], check=True)
    target = ["install", "-q", "--no-deps", "--target", str(folder)]
    subprocess.run([*pip, *target, *map(str, wheels.glob("*.whl"))], check=True)
    return folder


def environment(installed: Path, home: Path) -> Mapping[str, str]:
    return {**PLAIN_ENV, "HOME": str(home), "PYTHONPATH": str(installed)}


@pytest.mark.heavy
def test_both_programs_run_with_the_bundle_of_the_wheel(installed: Path, tmp_path: Path) -> None:
    env = environment(installed, tmp_path)

    def run(name: str, *words: str) -> str:
        command = [sys.executable, str(installed / "bin" / name), *words]
        done = subprocess.run(
            command, env=env, cwd=tmp_path, capture_output=True, encoding="utf-8", check=True
        )
        return done.stdout

    assert run("rye-node", "--version") == f"rye-node {__version__}\n"
    assert run("rye", "version") == f"rye {__version__}\n"
    assert run("rye", "run", "rye/bash/bash", "command=echo here") == "here\n"
    assert run("rye", "help", "exit-status").startswith("What a command ends with\n")


@pytest.mark.heavy
def test_a_node_of_the_wheel_serves(installed: Path, tmp_path: Path) -> None:
    words = ["serve", "--data", str(tmp_path / "data"), "--port", "0"]
    with subprocess.Popen(
        [sys.executable, str(installed / "bin" / "rye-node"), *words],
        env=environment(installed, tmp_path),
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    ) as server:
        assert server.stderr
        # It ends by itself where it cannot serve, and its last line with it.
        ready = next((line for line in server.stderr if "ready on" in line), "")
        assert ready.startswith("rye-node: ready on http://127.0.0.1:")
        url = ready.split()[3]
        page, script = (read(f"{url}{path}") for path in ("/", "/page/files/htmx.min.js"))
        server.terminate()

    assert "<h1>" in page
    assert 'name="key"' in page
    assert "htmx" in script


@pytest.mark.heavy
def test_the_wheel_of_the_node_has_every_file_of_it(installed: Path) -> None:
    listed = subprocess.run(
        ["git", "ls-files", "rye_services"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        encoding="utf-8",
        check=True,
    )

    missing = [name for name in listed.stdout.splitlines() if not (installed / name).is_file()]

    assert missing == []


_PROGRAM = """\
import asyncio

import ryeos
from ryeos import aio


def run(command: str) -> str:
    with ryeos.open_workspace() as rye:
        try:
            envelope = rye.execute("tool:rye/bash/bash", {"command": command})
        except ryeos.RyeError as error:
            return error.code
        return str(envelope["data"]["stdout"])


async def awaited(command: str) -> str:
    async with await aio.open_async() as rye:
        envelope = await rye.execute("tool:rye/bash/bash", {"command": command})
        return str(envelope["data"]["stdout"])


print(run("echo one") + asyncio.run(awaited("echo two")), end="")
"""


@pytest.mark.heavy
def test_mypy_in_strict_mode_checks_a_program_against_the_wheel(
    installed: Path, tmp_path: Path
) -> None:
    program, wrong = tmp_path / "program.py", tmp_path / "wrong.py"
    program.write_text(_PROGRAM, "utf-8")
    wrong.write_text("import ryeos\n\nryeos.open_workspace().execute(3)\n", "utf-8")
    # As any program's author has it: no configuration of ours, and no sources beside it.
    mypy = [sys.executable, "-m", "mypy", "--strict", "--config-file=", "--cache-dir=cache"]

    def checked(path: Path) -> tuple[int, str]:
        done = subprocess.run(
            [*mypy, str(path)],
            env=environment(installed, tmp_path),
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            encoding="utf-8",
            check=False,
        )
        return done.returncode, done.stdout

    assert checked(program) == (0, "Success: no issues found in 1 source file\n")
    status, said = checked(wrong)
    assert (status, "call-overload" in said) == (1, True)
    env = environment(installed, tmp_path)
    run = [sys.executable, str(program)]
    assert subprocess.check_output(run, env=env, cwd=tmp_path, encoding="utf-8") == "one\ntwo\n"


def read(url: str) -> str:
    with urlopen(url) as answer:  # noqa: S310 - of our own server
        return str(answer.read().decode())
