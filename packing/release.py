"""A release: its number set everywhere, its files built twice, signed, and rebuilt by others.

``scripts/release`` calls this. Who does what in which order: ``RELEASING.md``.

``signatures.txt`` is what makes a release reproducible without its key: an Ed25519 signature can
be checked by every user and made by the publisher alone, so a rebuild takes the published ones,
checks each of them, and arrives at the same bytes only if it signs the same things.
"""

import argparse
import shutil
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory

from lillux.errors import LilluxError
from lillux.files import read_bytes
from lillux.pem import MAX_PEM_BYTES
from lillux.signing import verify_signature
from packing import BuildError
from packing.build_time import BuildTime
from packing.release_build import Commands, all_files, build, differences, source_of
from packing.release_number import prepare, released_version
from packing.signed_bundle import publisher_key
from ryeos.trust.signature import parse_core

SUMS, SIGNATURES = "SHA256SUMS", "signatures.txt"


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
    """Differences between a published release and a build of this checkout without its key.

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


def _sha256(path: Path) -> str:
    return sha256(path.read_bytes()).hexdigest()


if __name__ == "__main__":
    sys.exit(main())
