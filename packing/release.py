"""A release: its number set everywhere, its files built twice, signed, and rebuilt by others.

``scripts/release`` calls this. Who does what in which order: ``RELEASING.md``.

``signatures.txt`` is what makes a release reproducible without its key: an Ed25519 signature can
be checked by every user and made by the publisher alone, so a rebuild takes the published ones,
checks each of them, and arrives at the same bytes only if it signs the same things.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from zipfile import BadZipFile, ZipFile

from lillux.errors import LilluxError
from lillux.files import read_bytes, write_atomic
from lillux.signing import MAX_PEM_BYTES, verify_signature
from packing import BuildError
from packing.build_time import VARIABLE, BuildTime
from packing.signed_bundle import SIGNATURES_VARIABLE, publisher_key
from ryeos.trust.signature import parse_core

SUMS, SIGNATURES = "SHA256SUMS", "signatures.txt"
_VERSION = re.compile(r"(0|[1-9]\d{0,5})\.(0|[1-9]\d{0,5})\.(0|[1-9]\d{0,5})")
_UNRELEASED = "unreleased"
# Where the number stands; the pattern's only group is the number.
_PLACES = {
    "ryeos/__init__.py": r'^__version__ = "([^"]+)"$',
    "packing/rye-node/pyproject.toml": r'^  "rye-workspace==([^"]+)",$',
    "lillux_native/Cargo.toml": r'^version = "([^"]+)"$',
    "lillux_native/Cargo.lock": r'^name = "lillux-(?:proc|watch)"\nversion = "([^"]+)"$',
}
_HEADING = re.compile(r"^## \[([^\]]+)\] - (.+)$", re.MULTILINE)
# A second build differs from the first in all that must not matter.
_BUILD_ENVIRONMENTS = (
    {"TZ": "UTC", "LC_ALL": "C.UTF-8", "PYTHONHASHSEED": "0"},
    {"TZ": "Asia/Tokyo", "LC_ALL": "C", "PYTHONHASHSEED": "1"},
)
_SHOWN = 10
# The commands that build a release, from: a Python, the folder of the files, the key's PEM file.
Commands = Callable[[str, str, str], Iterable[list[str]]]


# --- the number -----------------------------------------------------------------------------------


def prepare(checkout: Path, version: str, today: str) -> tuple[str, ...]:
    """Write the version and its date where they belong; the paths that changed.

    ``today`` is a date as 2026-11-24. Nothing is written unless all of it can be.
    Raises BuildError for an invalid version, or one that is not above the last one that has a date.
    """
    if not _VERSION.fullmatch(version):
        raise BuildError("version", f"expected three numbers, such as 1.2.0, found {version!r}")
    texts = {name: _with_version(checkout, name, version) for name in _PLACES}
    texts["CHANGELOG.md"] = _dated(_read(checkout, "CHANGELOG.md"), version, today)
    changed = [name for name, text in texts.items() if text != _read(checkout, name)]
    for name in changed:
        write_atomic(checkout / name, texts[name].encode("utf-8"))
    return tuple(changed)


def _with_version(checkout: Path, name: str, version: str) -> str:
    text = _read(checkout, name)
    found = list(re.finditer(_PLACES[name], text, re.MULTILINE))
    if not found:
        raise BuildError(name, f"expected a line like {_PLACES[name]}, found none")
    for match in reversed(found):
        text = text[: match.start(1)] + version + text[match.end(1) :]
    return text


def _dated(changelog: str, version: str, today: str) -> str:
    """The changelog with the version and its date in its first heading."""
    heading = _HEADING.search(changelog)
    if heading is None or heading[2] != _UNRELEASED:
        raise BuildError(
            "CHANGELOG.md",
            f"expected the first heading to be unreleased, found {heading[0] if heading else ''!r}",
            hint=f"write what changed under a heading ## [{version}] - {_UNRELEASED}",
        )
    for released, date in _HEADING.findall(changelog):
        if date != _UNRELEASED and _numbers(released) >= _numbers(version):
            raise BuildError("version", f"expected one above {released}, found {version}")
    line = f"## [{version}] - {today}"
    return changelog[: heading.start()] + line + changelog[heading.end() :]


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def released_version(checkout: Path) -> str:
    """The version that this checkout is a release of.

    Raises BuildError where the changelog gives it no date, or another number.
    """
    heading = _HEADING.search(_read(checkout, "CHANGELOG.md"))
    stated = re.search(
        _PLACES["ryeos/__init__.py"], _read(checkout, "ryeos/__init__.py"), re.MULTILINE
    )
    number = stated[1] if stated else ""
    if heading is None or heading[1] != number or heading[2] == _UNRELEASED:
        raise BuildError(
            "CHANGELOG.md",
            f"expected the first heading to be [{number}] with a date,"
            f" found {heading[0] if heading else ''!r}",
            hint=f"scripts/release prepare {number}",
        )
    return number


# --- building -------------------------------------------------------------------------------------


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
    """What differs between two folders of built files, a line each; zip files by their entries."""
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


# --- the three commands ---------------------------------------------------------------------------


def make_release(checkout: Path, pem_file: Path, out: Path, commands: Commands = all_files) -> Path:
    """Build a release twice, compare, sign the list of its files; the folder that holds them.

    Raises BuildError where the two builds differ, or the folder is there already.
    """
    version = released_version(checkout)
    source = source_of(checkout)
    key = publisher_key(pem_file, BuildTime(int(source.epoch)), {})
    target = out / version
    if target.exists():
        raise BuildError(str(target), "expected no folder, found one", hint=f"rm -r {target}")
    with TemporaryDirectory(prefix="rye-release-") as scratch:
        first, second = Path(scratch, "first"), Path(scratch, "second")
        for order, folder in enumerate((first, second)):
            folder.mkdir()
            build(source, folder, pem_file, folder / SIGNATURES, order, commands=commands)
            lines = (folder / SIGNATURES).read_text("ascii").splitlines(keepends=True)
            (folder / SIGNATURES).write_text("".join(sorted(set(lines))), "ascii")
        _require_same(first, second)
        sums = "".join(f"{_sha256(path)}  {path.name}\n" for path in sorted(first.iterdir()))
        (first / SUMS).write_text(sums, "ascii")
        (first / f"{SUMS}.sig").write_text(key.detached_line(sums.encode()), "ascii")
        out.mkdir(parents=True, exist_ok=True)
        shutil.copytree(first, target)
    return target


def rebuild(
    checkout: Path, release: Path, public_pem_file: Path, commands: Commands = all_files
) -> tuple[str, ...]:
    """What differs between a published release and a build of this checkout without its key.

    Raises BuildError for a list of files that the key did not sign, or that is not true.
    """
    _require_sums(release, read_bytes(public_pem_file, MAX_PEM_BYTES))
    source = source_of(checkout)
    with TemporaryDirectory(prefix="rye-rebuild-") as scratch:
        ours = Path(scratch, "ours")
        ours.mkdir()
        build(source, ours, public_pem_file, (release / SIGNATURES).resolve(), 1, commands=commands)
        for name in (SIGNATURES, SUMS, f"{SUMS}.sig"):
            shutil.copy(release / name, ours / name)
        return differences(ours, release)


def _require_same(first: Path, second: Path) -> None:
    found = differences(first, second)
    if found:
        raise BuildError("two builds", "; ".join(found), hint="docs/building.md, The same bytes")


def _require_sums(release: Path, public_pem: bytes) -> None:
    sums = read_bytes(release / SUMS, 1 << 20)
    signature = parse_core(read_bytes(release / f"{SUMS}.sig", 4096).decode("ascii").strip())
    digest = sha256(sums).hexdigest()
    if (
        signature is None
        or signature.content_hash != digest
        or not verify_signature(digest, signature.value, public_pem)
    ):
        raise BuildError(f"{SUMS}.sig", f"expected a signature of this key over {SUMS}")
    listed = dict(line.split("  ", 1)[::-1] for line in sums.decode("ascii").splitlines())
    for path in sorted(release.iterdir()):
        if path.name not in (SUMS, f"{SUMS}.sig") and listed.get(path.name) != _sha256(path):
            raise BuildError(path.name, f"expected the digest that {SUMS} lists, found another")
    missing = sorted(name for name in listed if not (release / name).is_file())
    if missing:
        raise BuildError(SUMS, f"lists files that are not there: {', '.join(missing)}")


# --- the command line -----------------------------------------------------------------------------


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the command line asks for; the exit status."""
    options = _parser().parse_args(arguments)
    checkout = Path(__file__).resolve().parent.parent
    try:
        if options.command == "prepare":
            today = datetime.now(UTC).strftime("%Y-%m-%d")
            print("\n".join(prepare(checkout, options.version, today)))
            return 0
        if options.command == "build":
            print(f"release in {make_release(checkout, options.sign_key, options.out)}")
            return 0
        found = rebuild(checkout, options.folder, options.key)
    except LilluxError as error:
        print(f"error: {error}", file=sys.stderr)
        if error.hint:
            print(f"  hint: {error.hint}", file=sys.stderr)
        return error.exit_status
    print("\n".join(found) or "the same, byte for byte")
    return 1 if found else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="scripts/release", description="Make, or check, a release."
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    one = commands.add_parser(
        "prepare", help="write the version and today's date where they belong"
    )
    one.add_argument("version", help="three numbers, such as 0.2.0")
    one = commands.add_parser("build", help="build all files twice, compare, sign")
    one.add_argument("--sign-key", metavar="FILE.pem", type=Path, required=True)
    one.add_argument("--out", metavar="DIR", type=Path, default=Path("dist/release"))
    one = commands.add_parser("rebuild", help="build a published release again, without its key")
    one.add_argument("folder", metavar="DIR", type=Path, help="the published files")
    one.add_argument(
        "--key", metavar="PUBLIC.pem", type=Path, required=True, help="the publisher's"
    )
    return parser


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


def _read(checkout: Path, name: str) -> str:
    return (checkout / name).read_text("utf-8")


def _sha256(path: Path) -> str:
    return sha256(path.read_bytes()).hexdigest()


if __name__ == "__main__":
    sys.exit(main())
