"""Build ``rye.pyz``: one file with the program, its libraries and its signed bundle.

Run by the Python of ``scripts/install``. Page: ``docs/building.md``.
"""

import argparse
import os
import sys
import sysconfig
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory

from lillux.errors import LilluxError
from lillux.files import make_directory, write_atomic
from packing.archive import pack
from packing.moment import Moment, build_moment
from packing.signed_bundle import publisher_key
from packing.stage import stage_tree
from ryeos import __version__
from ryeos.signing_key import SigningKey

CHECKOUT = Path(__file__).resolve().parent


def main() -> int:
    """Build what the command line asks for, and say what was built; the exit status."""
    arguments = _parser().parse_args()
    target: Path = arguments.out / "rye.pyz"
    try:
        moment = build_moment(os.environ)
        key = publisher_key(arguments.sign_key, moment)
        data = build(key, moment)
        make_directory(target.parent)
        write_atomic(target, data)
        target.chmod(0o755)
    except LilluxError as error:
        print(f"error: {error}", file=sys.stderr)
        if error.hint:
            print(f"  hint: {error.hint}", file=sys.stderr)
        return error.exit_status
    print(_report(target, data, key, arguments.sign_key))
    return 0


def build(key: SigningKey, moment: Moment) -> bytes:
    """The content of ``rye.pyz``: the same bytes for the same tree, key and moment.

    Raises BuildError, and ItemValidationError for an item of the bundle that breaks a rule.
    """
    scratch = CHECKOUT / "build" / "zipapp"
    make_directory(scratch)
    with TemporaryDirectory(prefix="stage-", dir=scratch) as folder:
        tree = Path(folder, "tree")
        stage_tree(CHECKOUT, tree, key)
        return pack(tree, CHECKOUT, Path(folder, "shiv.pyz"), moment)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="build_zipapp.py", description="Build rye.pyz.")
    add = parser.add_argument
    add("--out", metavar="DIR", type=Path, default=CHECKOUT / "dist", help="default: dist")
    add("--sign-key", metavar="FILE.pem", type=Path, help="default: a fresh key, thrown away")
    add("--host", action="store_true", help="compiled parts for this machine only (the default)")
    return parser


def _report(target: Path, data: bytes, key: SigningKey, pem_file: Path | None) -> str:
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    signer = "a key made for this build, its private half is gone" if pem_file is None else pem_file
    return "\n".join(
        (
            f"built     {os.path.relpath(target)}",
            f"version   {__version__}",
            f"size      {len(data):,} bytes",
            f"sha256    {sha256(data).hexdigest()}",
            f"signed    by {key.fingerprint}, {signer}",
            f"compiled  for CPython {python} on {sysconfig.get_platform()}; others run without",
        )
    )


if __name__ == "__main__":
    sys.exit(main())
