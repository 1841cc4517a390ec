"""Carries out the steps of ``deploy/Containerfile`` in a folder, and tries the result.

No image is made and none is fetched: ``FROM`` is an empty folder and the Python of this machine.
The paths that the file itself makes are mapped below the folder of their stage; everything else is
done as it is written. Then the node is started as the image would start it, asked for its health
the way the image would ask, and ended.
"""

import argparse
import fnmatch
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory

from lillux.errors import LilluxError
from lillux.values import dataclass
from packing import BuildError
from packing.container_file import Stage, Step, command, pairs, read_container_file

CHECKOUT = Path(__file__).resolve().parent.parent
_READY = re.compile(r"ready on (http://\S+)")
_MADE_BY = ("WORKDIR", "COPY", "VOLUME")
_SECONDS_TO_END = 90


def main() -> int:
    """Try the container file and the units; the exit status."""
    parser = argparse.ArgumentParser(prog="check_deploy", description="Try the files of deploy/.")
    parser.add_argument("--venv", type=Path, help="do not install again: take this venv")
    parser.add_argument("--keep", type=Path, help="work in this folder and leave it")
    arguments = parser.parse_args()
    try:
        for unit in sorted((CHECKOUT / "deploy").glob("*.service")):
            validate_unit(unit)
        if arguments.keep is not None:
            arguments.keep.mkdir(parents=True, exist_ok=True)
            try_container_file(arguments.keep.resolve(), arguments.venv)
        else:
            with TemporaryDirectory(prefix="rye-deploy-") as folder:
                try_container_file(Path(folder), arguments.venv)
    except LilluxError as error:
        print(f"check_deploy: {error}", file=sys.stderr)
        return error.exit_status
    print("check_deploy: the files of deploy/ do what they say")
    return 0


@dataclass(frozen=True, slots=True)
class Root:
    """The folder that stands for the file system of a stage, and the top folders that it has."""

    folder: Path
    own: frozenset[str]

    def inside(self, path: str) -> Path:
        """Path here of a path of the image."""
        return self.folder / path.lstrip("/")

    def mapped(self, text: str) -> str:
        """A command with the paths of the image turned into those of here."""
        if not self.own:
            return text
        names = "|".join(sorted(map(re.escape, self.own)))
        place = str(self.folder)
        return re.sub(rf"(?<![\w.:/-])/({names})(?=[/\s\"';:]|$)", rf"{place}/\1", text)


def try_container_file(scratch: Path, venv: Path | None) -> None:
    """Carry out the steps in a folder, then run what the last stage runs. Raises BuildError."""
    scratch.chmod(0o755)  # the user that runs the node has to reach it
    stages = read_container_file((CHECKOUT / "deploy" / "Containerfile").read_text("utf-8"))
    path = _own_python(scratch)
    roots: dict[str, Root] = {}
    for number, stage in enumerate(stages):
        root = Root(scratch / f"stage-{number}", _own_folders(stage))
        roots[stage.name or str(number)] = root
        root.folder.mkdir()
        _say(f"FROM {stage.image}")
        _carry_out(stage, root, roots, path, venv)
    _run_image(stages[-1], root, path)


def _own_folders(stage: Stage) -> frozenset[str]:
    """The top folders that the steps of a stage make."""
    places = [
        PurePosixPath(shlex.split(step.text)[-1]) for step in stage.steps if step.name in _MADE_BY
    ]
    return frozenset(place.parts[1] for place in places if place.is_absolute() and place.parts[1:])


def _carry_out(
    stage: Stage, root: Root, roots: Mapping[str, Root], path: str, venv: Path | None
) -> None:
    cwd, environ = root.folder, {"PATH": path, "HOME": str(root.folder), "LANG": "C.UTF-8"}
    for step in stage.steps:
        _say(f"{step.name} {step.text}"[:100])
        match step.name:
            case "WORKDIR":
                cwd = root.inside(step.text)
                cwd.mkdir(parents=True, exist_ok=True)
            case "ENV":
                environ |= {name: root.mapped(value) for name, value in pairs(step).items()}
            case "COPY":
                _copy(step, root, roots, cwd)
                if venv is not None and "from" not in step.flags:
                    (cwd / "build").mkdir(exist_ok=True)
                    (cwd / "build" / "venv").symlink_to(venv.resolve())
            case "RUN":
                _run(step, ["sh", "-c", root.mapped(step.text)], cwd, environ)
            case "VOLUME" | "EXPOSE" | "STOPSIGNAL" | "LABEL" | "USER":
                pass  # of the running image
            case _:
                command(step)


def _copy(step: Step, root: Root, roots: Mapping[str, Root], cwd: Path) -> None:
    *sources, target = shlex.split(step.text)
    place = root.inside(target) if target.startswith("/") else cwd / target
    if "from" in step.flags:
        other = roots.get(step.flags["from"])
        if other is None:
            raise BuildError(f"line {step.line}", f"expected a stage, found {step.flags['from']}")
        found = [other.inside(source) for source in sources]
    else:
        found = [CHECKOUT / source for source in sources]
    for source in found:
        if not source.exists():
            raise BuildError(f"line {step.line}", f"expected {source}, found no such file")
        if source.is_dir():
            shutil.copytree(source, place, symlinks=True, dirs_exist_ok=True, ignore=_ignored_names)
        else:
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, place)


def _ignored_names(folder: str, names: list[str]) -> set[str]:
    """Names that ``.dockerignore`` leaves out: at the root, or with ``**/`` anywhere."""
    is_root = Path(folder) == CHECKOUT
    patterns = [line for line in _lines(CHECKOUT / ".dockerignore") if not line.startswith("#")]
    anywhere = [pattern.removeprefix("**/") for pattern in patterns if pattern.startswith("**/")]
    here = [pattern for pattern in patterns if is_root and not pattern.startswith("**/")]
    return {
        name
        for name in names
        if any(fnmatch.fnmatchcase(name, pattern) for pattern in (*anywhere, *here))
    }


def _run(step: Step, words: Sequence[str], cwd: Path, environ: Mapping[str, str]) -> None:
    done = subprocess.run(
        words, cwd=cwd, env=environ, capture_output=True, text=True, encoding="utf-8", check=False
    )
    if done.returncode:
        output = (done.stdout + done.stderr)[-3000:]
        raise BuildError(f"line {step.line}", f"{step.text}: status {done.returncode}\n{output}")


def _own_python(scratch: Path) -> str:
    """A PATH on which ``python3`` is the Python that runs this, as the image has one."""
    folder = scratch / "bin"
    folder.mkdir()
    (folder / "python3").symlink_to(sys._base_executable)  # type: ignore[attr-defined]  # noqa: SLF001
    return f"{folder}:{os.environ['PATH']}"


def _run_image(stage: Stage, root: Root, path: str) -> None:
    """Start what the image starts, ask for its health, end it. Raises BuildError."""
    entry, arguments = stage.last("ENTRYPOINT"), stage.last("CMD")
    if entry is None or arguments is None:
        raise BuildError("container file", "expected ENTRYPOINT and CMD in the last stage")
    words = [root.mapped(word) for word in (*command(entry), *command(arguments))]
    environ = {"PATH": path} | {
        name: root.mapped(value)
        for step in stage.steps
        if step.name == "ENV"
        for name, value in pairs(step).items()
    }
    environ |= {"PORT": "0", "RYE_NODE_HOST": "127.0.0.1"}
    user = _user(stage, root)
    process = subprocess.Popen(
        words,
        env=environ,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        user=user,
        group=user,
    )
    try:
        url = _ready_url(process)
        _say(f"answers on {url}" + ("" if user is None else f" as user {user}"))
        _ask_for_health(stage, root, environ | {"PORT": url.rpartition(":")[2]})
    finally:
        stop = stage.last("STOPSIGNAL")
        process.send_signal(getattr(signal, stop.text if stop else "SIGTERM"))
        stderr = process.communicate(timeout=_SECONDS_TO_END)[1]
    if process.returncode:
        raise BuildError("STOPSIGNAL", f"expected status 0, found {process.returncode}\n{stderr}")


def _user(stage: Stage, root: Root) -> int | None:
    """User that runs the image; None, for ourselves, where no other user can be tried here."""
    step = stage.last("USER")
    if step is None or os.name == "nt" or os.geteuid() != 0:
        return None
    user = int(step.text.partition(":")[0])
    python = next((path for path in _same_pythons() if _can_start(path, user)), None)
    if python is None:
        _say(f"not tried as user {user}: they can start no Python like {sys.executable}")
        return None
    link = root.folder.parent / "bin" / "python3"
    link.unlink()
    link.symlink_to(python)
    return user


def _same_pythons() -> list[str]:
    """Interpreters of this machine for which the file was built too."""
    name = f"python3.{sys.version_info.minor}"
    folders = [*os.environ["PATH"].split(os.pathsep), "/usr/local/bin", "/usr/bin"]
    return [sys._base_executable, *(f"{folder}/{name}" for folder in folders)]  # type: ignore[attr-defined]  # noqa: SLF001


def _can_start(python: str, user: int) -> bool:
    try:
        subprocess.run([python, "-c", ""], check=True, capture_output=True, user=user, group=user)
    except (OSError, subprocess.CalledProcessError):
        return False
    return True


def _ready_url(process: subprocess.Popen[str]) -> str:
    assert process.stderr is not None  # noqa: S101 - it was asked for
    lines = []
    for line in process.stderr:
        lines.append(line)
        if found := _READY.search(line):
            return found[1]
    raise BuildError("ENTRYPOINT", "the node did not start\n" + "".join(lines)[-3000:])


def _ask_for_health(stage: Stage, root: Root, environ: Mapping[str, str]) -> None:
    check = stage.last("HEALTHCHECK")
    if check is None:
        raise BuildError("container file", "expected HEALTHCHECK in the last stage")
    _run(check, [root.mapped(word) for word in command(check)], root.folder, environ)


def validate_unit(unit: Path) -> None:
    """Have systemd read the unit, where this machine has systemd. Raises BuildError."""
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        _say(f"{unit.name}: not tried, as there is no systemd-analyze")
        return
    done = subprocess.run(
        [analyze, "verify", "--man=no", str(unit)],
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
    problems = [line for line in done.stderr.splitlines() if unit.name in line]
    if done.returncode or problems:
        raise BuildError(unit.name, "\n".join(problems) or done.stderr)
    _say(f"{unit.name}: systemd takes it")


def _lines(path: Path) -> list[str]:
    return [line.strip() for line in path.read_text("utf-8").splitlines() if line.strip()]


def _say(line: str) -> None:
    print(f"  {line}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
