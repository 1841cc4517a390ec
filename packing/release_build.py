"""Build of a release from a commit, and the differences of two builds."""

import os
import shutil
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from zipfile import BadZipFile, ZipFile

from packing import BuildError
from packing.build_time import VARIABLE
from packing.signed_bundle import SIGNATURES_VARIABLE

# A second build differs from the first in all that must not matter.
_BUILD_ENVIRONMENTS = (
    {"TZ": "UTC", "LC_ALL": "C.UTF-8", "PYTHONHASHSEED": "0"},
    {"TZ": "Asia/Tokyo", "LC_ALL": "C", "PYTHONHASHSEED": "1"},
)
_SHOWN = 10
# The commands that build a release, from: a Python, the folder of the files, the key's PEM file.
Commands = Callable[[str, str, str], Iterable[list[str]]]


@dataclass(frozen=True, slots=True)
class Source:
    """A commit of a repository, and the time that its build is stamped with."""

    repository: Path
    commit: str
    epoch: str


def source_of(checkout: Path) -> Source:
    """The commit that is checked out. Raises BuildError while files differ from it."""
    changed = _git(checkout, "status", "--porcelain")
    if changed:
        raise BuildError(
            "git status",
            f"expected a checkout without changes, found {len(changed.splitlines())}",
            hint="commit them, or put them aside: git stash --include-untracked",
        )
    commit, epoch = _git(checkout, "log", "-1", "--format=%H %ct").split()
    return Source(checkout, commit, epoch)


def all_files(python: str, target: str, key: str) -> Iterator[list[str]]:
    """The commands that build both files, for every platform, and both wheels."""
    yield [python, "build_zipapp.py", "--out", target, "--sign-key", key]
    yield [python, "build_zipapp.py", "--node", "--out", target, "--sign-key", key]
    wheel = [python, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    yield [*wheel, "--disable-pip-version-check", "-w", target, ".", "./packing/rye-node"]


def build(
    source: Source, target: Path, key: Path, signatures: Path, order: int, *, commands: Commands
) -> None:
    """Build the files of a release into ``target``, from a clone in a folder of its own.

    ``key`` and ``signatures`` are what ``packing.signed_bundle.publisher_key`` takes; ``order``,
    0 or 1, chooses the build environment. Raises BuildError with what the failing step printed.
    """
    with TemporaryDirectory(prefix=f"rye-release-{'ab'[order]}-") as folder:
        clone = Path(folder, "x" * (1 + 7 * order), "rye")
        _run(["git", "clone", "--quiet", str(source.repository), str(clone)], Path(folder), {})
        _run(["git", "checkout", "--quiet", source.commit], clone, {})
        signing = {"RYE_SIGN_KEY": str(key.resolve()), SIGNATURES_VARIABLE: str(signatures)}
        environ = {**_BUILD_ENVIRONMENTS[order], **signing, VARIABLE: source.epoch}
        _share_downloads(source.repository, clone)
        python = source.repository / "build" / "venv" / "bin" / "python"
        for command in commands(str(python), str(target), str(key.resolve())):
            _run(command, clone, environ)


def _share_downloads(repository: Path, clone: Path) -> None:
    """Let a clone use the libraries and Pythons that this checkout has fetched.

    Each library is named by its lock, each Python by its version.
    """
    kept = repository / "build" / "zipapp" / "wheels"
    if kept.is_dir():
        shutil.copytree(kept, clone / "build" / "zipapp" / "wheels", symlinks=True)
    pythons = repository / "build" / "pythons"
    if pythons.is_dir():
        (clone / "build").mkdir(exist_ok=True)
        (clone / "build" / "pythons").symlink_to(pythons.resolve(), target_is_directory=True)


def differences(ours: Path, theirs: Path) -> tuple[str, ...]:
    """Differences between two folders of built files, a line each; zip files by their entries."""
    names = sorted({path.name for folder in (ours, theirs) for path in folder.iterdir()})
    return tuple(line for name in names for line in _difference(ours / name, theirs / name))


def _difference(ours: Path, theirs: Path) -> Iterator[str]:
    if not ours.exists() or not theirs.exists():
        yield f"{ours.name}: only in {(ours if ours.exists() else theirs).parent}"
    elif ours.read_bytes() != theirs.read_bytes():
        entries = list(_different_entries(ours, theirs))
        more = f" and {len(entries) - _SHOWN} more" if len(entries) > _SHOWN else ""
        inside = f": {', '.join(entries[:_SHOWN])}{more}" if entries else ""
        yield f"{ours.name}: other bytes{inside}"


def _different_entries(ours: Path, theirs: Path) -> Iterator[str]:
    try:
        with ZipFile(ours) as left, ZipFile(theirs) as right:
            one, two = (
                {i.filename: (i.CRC, i.file_size) for i in z.infolist()} for z in (left, right)
            )
    except BadZipFile:
        return
    yield from sorted(name for name in one.keys() | two.keys() if one.get(name) != two.get(name))


def _run(command: Sequence[str], folder: Path, environ: Mapping[str, str]) -> None:
    inherited = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    ended = subprocess.run(
        command,
        cwd=folder,
        env={**inherited, **environ},
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
    if ended.returncode:
        raise BuildError(" ".join(command[:3]), (ended.stderr or ended.stdout).strip()[-2000:])


def _git(checkout: Path, *arguments: str) -> str:
    command = ["git", "-C", str(checkout), *arguments]
    ended = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", check=False)
    if ended.returncode:
        raise BuildError(f"git {arguments[0]}", ended.stderr.strip())
    return ended.stdout.strip()
